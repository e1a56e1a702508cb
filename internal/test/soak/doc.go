// Package soak runs the locks on real ZooKeeper servers and in real processes, for as long as a run
// is to last. `go test` runs a short cell of each kind; `make soak ARGS='-kind KIND'` runs one at
// full size, and `make soak ARGS=-help` lists the options.
//
//	hammer    processes contend for all kinds of locks while clients, sessions, nodes and servers
//	          break; with -faults 0 nothing breaks, and no hold may be lost
//	lost      the same, but every fault is a create or a delete that the server executes and whose
//	          reply is lost
//
// What a hammer shows: the merged record of all processes (package history) has no two conflicting
// holds and no token out of order, no call returned an error that the documentation does not name,
// and after each round no queue has a node left and no process a goroutine. A run in which a kind
// of fault never struck, or in which nobody had to wait, fails, because it shows nothing.
//
// What it cannot show: it has no virtual time, so it strikes tens of faults a second where
// internal/test/explore strikes thousands; it cannot assert when something happens, only in which
// order; and a bug of the servers looks like a bug of the locks until the members' data are
// compared.
//
// The layer internal/test/explore does the same in memory. Both judge by package history. They
// share no workload: there a worker asks other workers at the instant of a grant, which processes
// cannot.
package soak
