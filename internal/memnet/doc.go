// Package memnet is a network in memory: named hosts, listeners, and connections that behave as TCP
// connections do, with faults that a test switches on and off.
//
//	n := memnet.New()
//	l, err := n.Listen("server:2181")
//	conn, err := n.Host("client").DialContext(ctx, "tcp", "server:2181")
//	n.Between("client", "server").Partition()
//
// A Write never blocks, whatever the network does: faults delay what is written, or lose it. The
// ZooKeeper client holds a mutex while it writes, and a goroutine that waits for a mutex is not
// durably blocked; a Write that waited would stop the clock of a synctest bubble.
//
// The package works inside a synctest bubble and outside. A Network belongs to the bubble in which
// it was made, because its timers do.
package memnet
