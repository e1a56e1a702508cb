// Package soak runs the locks on real ZooKeeper servers and in real processes, for as long as a run
// is to last. `go test` runs a short cell of each kind; `make soak ARGS='-kind KIND'` runs one at
// full size, and `make soak ARGS=-help` lists the options.
//
//	hammer    processes contend for all kinds of locks while clients, sessions, nodes and
//	          servers break; with -faults 0 nothing breaks, and no hold may be lost
//	lost      the same, but every fault is a create or a delete that the server executes and
//	          whose reply is lost
//	takeover  holders are cut off in every way: each must be notified before the next caller
//	          holds; in virtual time, where margins are exact, and on real servers
//	failover  how long there is no leader after its process was killed or has resigned, at
//	          full size next to Curator and etcd
//	leaks     canceled waits, lost sessions and paths that are used once, over and over:
//	          heap, goroutines, watches and nodes do not grow
//
// # What it shows
//
// hammer and lost: the merged record of all processes (package history) has no two conflicting
// holds and no token out of order, no call returned an error that the documentation does not name,
// and after each round no queue has a node left and no process a goroutine. If a process was frozen
// for longer than its session, the first method of the hold that it calls reports the loss,
// whichever it is. A run in which a kind of fault never struck, or in which nobody had to wait,
// fails, because it shows nothing.
//
// takeover: the deadline is earlier than the grant of the next caller, and the former holder's Held
// is false by then; in virtual time Lost is closed at the deadline, to the nanosecond. The table
// has what depends on the speed of the machine, which fails no run.
//
// # What it cannot show
//
// Without virtual time, hammer strikes tens of faults a second where internal/test/explore strikes
// thousands. hammer can assert only in which order things happen, not when. A bug of the servers
// looks like a bug of the locks until the data of the members are compared.
//
// The layer internal/test/explore does the same in memory, and both judge by package history. They
// share no workload: in explore a worker asks the other holders at the instant of a grant, and each
// instant's faults are known. Separate processes cannot do that.
package soak
