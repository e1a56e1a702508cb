package memnet

// Rules returns the number of rules that the network keeps.
func (n *Network) Rules() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.rules)
}

// Ends returns the number of ends of connections that the network keeps.
func (n *Network) Ends() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.conns)
}
