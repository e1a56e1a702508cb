// Package explore is one workload, one nemesis and one ledger, which judge all recipes twice: in
// memory, and on real servers. The workers make every call, cancel it at any moment, and use one
// hold from several goroutines. The nemesis breaks hosts, packets, members, sessions and nodes. The
// ledger records who holds what, and is searched for violations: of two conflicting holds at most
// one may say Held; no call fails for a reason that the documentation does not name; no waiter
// starves after the faults have ended; no node of a live session remains in a lock directory; no
// goroutine remains.
//
// # In memory
//
// `make sim` plays a world in virtual time, where a session timeout takes microseconds. A seed
// determines the world (servers, hosts, latency, locks), and the actions of the workers and of the
// nemesis. The seeds alternate between kinds of worlds: a large world with all faults at once, and
// small worlds, each for one class of bugs. Here each fault is known at its instant, so a worker
// can ask the other holders at the moment of a grant, and a loss without a reason is a finding.
//
// It cannot show what only a real server, a real network or a machine without a free processor
// does; nor can it repeat a seed exactly, because Go does not seed the order of goroutines.
//
// # On real servers
//
// `make soak` plays the same in processes, which are the hosts, on ZooKeeper servers, with all faults
// or, with `-faults 0`, with none, and then no hold may be lost. The process of the nemesis merges the holds of all processes, and judges them by package history:
// no two conflict, and no token is out of order. A process that is frozen for longer than its
// session must report the loss by the first method that it calls. A run in which a kind of fault
// never struck, or in which nobody had to wait, fails, because it shows nothing.
//
// It strikes tens of faults a second where `make sim` strikes thousands. It can assert in which
// order things happen, not when. A bug of the servers looks like a bug of the locks until the
// members are compared, which the last check of each world does.
package explore
