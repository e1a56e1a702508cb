// Package memnet is an in-memory network: named hosts, listeners, and connections that behave like
// TCP connections, with faults that a test switches on and off.
//
//	n := memnet.New()
//	l, err := n.Listen("server:2181")
//	conn, err := n.Host("client").DialContext(ctx, "tcp", "server:2181")
//	n.Between("client", "server").Partition()
//
// A Write never blocks, whatever the network does: faults delay or lose what is written. The
// ZooKeeper client holds a mutex while it writes, and goroutines that wait for a mutex are not
// durably blocked: a Write that blocked would stop the clock of a synctest bubble.
//
// The package works inside and outside of a synctest bubble. A Network belongs to the bubble in
// which it was made, because its timers do.
package memnet
