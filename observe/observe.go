// Package observe tells a program what happens to its locks: for metrics, logs and traces. It is to
// the locks what net/http/httptrace is to requests: a struct of functions, each of which may be
// left out.
//
//	waits := observe.Observer{
//		Granted: func(e observe.Granted) { histogram.Observe(e.Waited.Seconds()) },
//		Lost:    func(e observe.Lost) { log.Print("lost ", e.Path, ": ", e.Cause) },
//	}
//	mu := rwlock.New(conn, "/examples/index", rwlock.WithObserver(waits))
//
// An observer costs no request: it is told what the lock finds out by itself. One Observer may
// serve any number of locks, and a lock may have several. A lock without any pays nothing.
//
// # Which events come
//
// Those who stand in line are nodes. A node that has to wait is told of as [Queued], each change of
// its position that it comes to know as [Moved]. The wait ends in a [Granted] that says so, by its
// field Queued, or in [Left]. So Queued minus these two is how many of the process's nodes wait in
// line.
//
// Those who hold are holds. Each begins with [Granted] and ends with either [Released] or [Lost];
// so Granted minus these two is how many there are.
//
// Most nodes have one hold. They have several, one after the other or at the same time, and all but
// the first of them joined, in these cases:
//
//   - Read locks of one RWMutex value that share a node. Those who wait for the node together are
//     Queued once, and then Granted each.
//   - A reentrant lock taken again.
//   - A write lock that is passed on by WithHandoff.
//   - A downgrade: Released tells the end of the hold for writing and Granted, at once, the begin
//     of the one for reading.
//
// A waiter looks at those next to it, not at the whole line, so that a release wakes nobody but the
// next. It learns that somebody far ahead has gone when it looks again: Moved may come late, or not
// before the grant. The Queue methods tell how the whole line stands.
//
// # Rules for the functions
//
// They are called by many goroutines at the same time, while no mutex of the locks is held: Queued,
// Moved, Granted and Released by the goroutine that called the method of the lock, before it
// returns, or by one of the library's that stands in line for several; those of a downgrade, and
// Left, Lost, Orphan and Retried, by that or by any other. Events of one node or hold come one
// after the other.
//
// They must not block: the lock waits for them, and while Granted runs others wait for the lock.
// They must not call the methods of a hold or of a lock.
//
// A panic is not caught. It comes out of the method that was called, or ends the program where the
// goroutine is not the caller's. What was granted stays taken then, and what was queued stays in
// line, until the session ends.
package observe

import "time"

// Kind is what a lock was taken for.
type Kind string

// The kinds of locks.
const (
	Read    Kind = "read"    // rwlock, for reading
	Write   Kind = "write"   // rwlock, for writing
	Mutex   Kind = "mutex"   // reentrant
	Permits Kind = "permits" // semaphore
)

// Lock is what an event is about.
type Lock struct {
	Path    string // as it was given to New
	Kind    Kind
	Permits int    // how many permits of a semaphore; else 1
	Node    string // the name of the node in line, of several the first
	Token   int64  // the fencing token that goes with it; 0 where it is not known
}

// Observer is told of events. Any of its functions may be nil. See the package comment for which
// goroutine calls them, and what they must not do.
type Observer struct {
	Queued   func(Queued)   // a node waits in line
	Moved    func(Moved)    // its position has changed
	Left     func(Left)     // it left the line, and nobody got the lock by it
	Granted  func(Granted)  // a hold has begun
	Released func(Released) // a hold was given back
	Lost     func(Lost)     // a hold has ended without being given back
	Orphan   func(Orphan)   // a node that nobody waited for any more was deleted
	Retried  func(Retried)  // a request without an answer is asked again
}

// Queued tells that a node stands in line and has to wait.
type Queued struct {
	Lock
	Ahead int // how many nodes have to go before its turn comes
}

// Moved tells that a look at the line has shown another position.
type Moved struct {
	Lock
	Ahead int // as in Queued
}

// Left tells that a node that was Queued has gone without a grant. Cause is why: the error of the
// ctx that ended; that its node was deleted or that its session is over, after which the call
// queues again; or whatever else made the call fail.
type Left struct {
	Lock
	Waited time.Duration // since it was Queued
	Cause  error
}

// Granted tells that a hold has begun.
type Granted struct {
	Lock
	Waited time.Duration // since the call
	Queued bool          // this is the end of a wait that was told of as Queued
	Joined bool          // by a node by which somebody holds, or has held, already
}

// Released tells that a hold was given back. Another Granted may come before it.
type Released struct {
	Lock
	Held time.Duration // from the grant to the answer to Release, or to the end of its ctx
}

// Lost tells that a hold was lost. Cause matches ErrLost, and says in words why: session expired,
// node deleted, nothing heard of the session until its deadline, connection closed. It comes when
// the lock finds out. That somebody has deleted the node is found out by a hold that was asked
// (Held, Lost, Context), and else when it is released.
type Lost struct {
	Lock
	Held  time.Duration // from the grant to the discovery
	Cause error
}

// Orphan tells that a node was found that belonged to nobody any more, and was deleted. Cause is
// how it came about: the caller had gone before its create was answered; the create was carried
// over into another session; the hold was lost and its session survived.
type Orphan struct {
	Lock
	Cause error
}

// Retried tells that a request got no answer, because its connection was lost or because the server
// had too much to do, and is asked again.
type Retried struct {
	Path  string // of the lock
	Op    string // create, delete, list, read, write, check, watch, replace
	Cause error  // what the connection or the server had to say
}
