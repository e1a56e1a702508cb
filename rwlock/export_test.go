package rwlock

// Waiting is how many wait for a hand-over.
func (m *RWMutex) Waiting() int {
	m.writes.mu.Lock()
	defer m.writes.mu.Unlock()
	return len(m.writes.waiting)
}
