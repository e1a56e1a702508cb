// Package observe reports what happens to a program's locks: for metrics, logs and traces. It is to
// locks what net/http/httptrace is to requests: a struct of functions, each of which may be nil.
//
//	waits := observe.Observer{
//		Granted: func(e observe.Granted) { histogram.Observe(e.Waited.Seconds()) },
//		Lost:    func(e observe.Lost) { log.Print("lost ", e.Path, ": ", e.Cause) },
//	}
//	mu := rwlock.New(conn, "/examples/index", zklocks.WithObserver(waits))
//
// An observer costs no request: it gets what the lock finds out by itself. One Observer may serve
// any number of locks, and a lock may have several. A lock without any pays nothing.
//
// # Which events come
//
// Waiters are nodes. When a node has to wait, [Queued] comes. The wait ends in a [Granted] whose
// field Queued is true, or in [Left]. So Queued minus these two is how many of the process's nodes
// wait. The Queue methods return the whole queue.
//
// Holders are holds. Each begins with [Granted] and ends with either [Released] or [Lost]; so
// Granted minus these two is how many there are.
//
// Most nodes have one hold. A node has several holds, one after the other or at the same time, all
// but the first of them joined, in these cases:
//
//   - Read locks of one RWMutex value share a node. The readers that wait for the node together are
//     Queued once, and then Granted each.
//   - A reentrant lock is taken again.
//   - A write lock is passed on by WithHandoff.
//   - A hold is downgraded: Released reports the end of the hold for writing and Granted, at once,
//     the begin of the one for reading.
//
// # Rules for the functions
//
// They are called by many goroutines at the same time, while no mutex of the locks is held: Queued,
// Granted and Released by the goroutine that called the method of the lock, before it returns, or by
// a goroutine of the library that queues for several callers or at one of several locks; those of a
// downgrade, and Left, Lost and Retried, by that or by any other. Events of one node or hold come
// one after the other; but Left of its node may come beside Granted and Lost.
//
// They must not block: the lock waits for them, and while Granted runs other callers wait for the
// lock. They must not call the methods of a hold or of a lock.
//
// A panic is not recovered. It comes out of the method that was called, or ends the program where
// the goroutine is not the caller's. Then a granted hold stays taken, and a queued node stays in
// the queue, until the session ends.
package observe

import "time"

// Kind is what a lock was taken for.
type Kind string

// The kinds of locks.
const (
	KindRead    Kind = "read"    // rwlock, for reading
	KindWrite   Kind = "write"   // rwlock, for writing
	KindMutex   Kind = "mutex"   // reentrant, leader
	KindPermits Kind = "permits" // semaphore
)

// LockInfo is what an event is about.
type LockInfo struct {
	Path    string // as it was given to New
	Kind    Kind
	Permits int    // how many permits of a semaphore; else 1
	Node    string // the name of the node, of several the first
	Token   int64  // the fencing token that goes with it; 0 where it is not known
}

// Observer has a function for each event. Any of them may be nil. See the package comment for which
// goroutine calls them, and what they must not do.
type Observer struct {
	Queued   func(Queued)   // a node waits in the queue
	Left     func(Left)     // it left the queue without a grant
	Granted  func(Granted)  // a hold has begun
	Released func(Released) // a hold was given back
	Lost     func(Lost)     // a hold has ended without being given back
	Retried  func(Retried)  // a request without an answer is asked again
}

// Queued reports that a node is in the queue and has to wait.
type Queued struct {
	LockInfo
	Ahead int // how many nodes must be deleted before its turn comes
}

// Left reports that a node that was Queued has gone without a grant. Cause is why: the error of the
// ctx that ended; that its node was deleted or that its session has expired, after which the call
// queues again; or any other error that made the call fail.
type Left struct {
	LockInfo
	Waited time.Duration // since it was Queued
	Cause  error
}

// Granted reports that a hold has begun.
type Granted struct {
	LockInfo
	Waited time.Duration // since the call
	Queued bool          // this grant ends a wait that began with Queued
	Joined bool          // its node has, or had, another hold
}

// Released reports that a hold was released. Another Granted may come before it.
type Released struct {
	LockInfo
	Held time.Duration // from the grant to the answer to Release, or to the end of its ctx
}

// Lost reports that a hold was lost. Cause matches ErrLost, and says why: session expired, node
// deleted, no answer from the servers until the deadline, connection closed. It comes when the lock
// finds out. When another client deletes the node, the lock finds out at once if Held, Err, Lost or
// Context of the hold was called before, and otherwise in Verify, Multi or Release.
type Lost struct {
	LockInfo
	Held  time.Duration // from the grant to the discovery
	Cause error
}

// Retried reports that a request got no answer, because its connection was lost or because the
// server was overloaded, and is sent again.
type Retried struct {
	Path  string // of the lock
	Op    string // create, delete, list, read, write, check, watch, replace, transaction
	Cause error  // the error of the connection or of the server
}
