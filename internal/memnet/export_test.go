package memnet

// Rules is how many rules the network keeps.
func (n *Network) Rules() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.rules)
}

// Ends is how many ends of connections the network keeps.
func (n *Network) Ends() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.conns)
}
