package rwlock

// Waiting returns how many writers of the value wait for a handoff, or queue.
func (m *RWMutex) Waiting() int {
	c := m.writes
	if c == nil {
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	n := len(c.waiting)
	if c.busy && c.grant == nil {
		n++
	}
	return n
}
