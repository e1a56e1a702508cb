package rwlock

// Waiting returns the number of local waiters for a handoff.
func (m *RWMutex) Waiting() int {
	m.writes.mu.Lock()
	defer m.writes.mu.Unlock()
	return len(m.writes.waiting)
}
