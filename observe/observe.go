// Package observe reports what happens to a program's locks: for metrics, logs and traces. It is to
// locks what net/http/httptrace is to requests: a struct of functions, each of which may be nil.
//
//	waits := observe.Observer{
//		Granted: func(e observe.Granted) { histogram.Observe(e.Waited.Seconds()) },
//		Failed:  func(e observe.Failed) { log.Print(e.Cause, " after ", e.Waited) },
//		Lost:    func(e observe.Lost) { log.Print("lost ", e.Path, ": ", e.Cause) },
//	}
//	mu := rwlock.New(conn, "/examples/index", zklocks.WithObserver(waits))
//
// An observer sends no request: it receives what the lock finds out by itself. One Observer may
// serve any number of locks, and a lock may have several. A lock without any pays nothing. Module
// github.com/zklocks/zklocks/metrics has an observer that feeds Prometheus.
//
// # Which events come
//
// Every call that acquires a lock begins with [Called] and ends with either [Granted] or [Failed].
// So Called minus these two is how many calls wait, for another holder or for a server.
//
// Every hold begins with [Granted] and ends with either [Released] or [Lost]. So Granted minus
// these two is how many holds there are.
//
// A lock of zklocks.All has these events for its part of the call and of the hold. A downgrade ends
// the hold for writing, and begins one for reading at once: Released, Called, Granted.
//
// [Queued] and [Retried] have no counterpart. They tell why a call takes long. [Leaked] reports a
// mistake in the program: a hold that cannot be released any more.
//
// # Rules for the functions
//
// Many goroutines call them at the same time. Called, Granted, Failed and Released are called by
// the goroutine that called the method of the lock, before the method returns. Lost, Retried,
// Queued and the events of a downgrade may be called by other goroutines, and so may Released after
// a Release that does not wait for a downgrade. The events of one call and its hold come one after
// the other, except Queued and Retried. The garbage collector calls Leaked: in a test with
// testing/synctest that is outside of the bubble, so Leaked must not use the bubble's channels.
//
// The functions must not block: the lock waits for them, and while Granted runs other callers wait
// for the lock. They must not call the methods of a hold or of a lock.
//
// A panic is not recovered. It comes out of the method that was called, or ends the program if
// another goroutine called the function. In the first case a granted hold stays taken, and a queued
// node stays in the queue, until the session ends.
package observe

import (
	"fmt"
	"log/slog"
	"time"
)

// Kind is what a lock was taken for.
type Kind string

// The kinds of locks.
const (
	KindRead    Kind = "read"    // rwlock, for reading
	KindWrite   Kind = "write"   // rwlock, for writing
	KindMutex   Kind = "mutex"   // reentrant, leader, once
	KindPermits Kind = "permits" // semaphore
)

// LockInfo is what an event is about.
type LockInfo struct {
	Path    string // as it was given to New
	Kind    Kind
	Permits int    // how many permits of a semaphore; else 1
	Node    string // the name of the node, of several the first; empty before there is one
	Token   int64  // the fencing token; 0 if it is unknown
}

// String is like "write /examples/index, token 7". Permits and a token are left out if there are
// none.
func (l LockInfo) String() string {
	text := fmt.Sprintf("%s %s", l.Kind, l.Path)
	if l.Kind == KindPermits {
		text = fmt.Sprintf("%d %s", l.Permits, text)
	}
	if l.Token != 0 {
		text += fmt.Sprintf(", token %d", l.Token)
	}
	return text
}

// LogValue has package log/slog log it as a group. So do the events, with what they add.
func (l LockInfo) LogValue() slog.Value { return l.group() }

func (l LockInfo) group(more ...slog.Attr) slog.Value {
	attrs := []slog.Attr{slog.String("path", l.Path), slog.String("kind", string(l.Kind))}
	if l.Kind == KindPermits {
		attrs = append(attrs, slog.Int("permits", l.Permits))
	}
	if l.Node != "" {
		attrs = append(attrs, slog.String("node", l.Node), slog.Int64("token", l.Token))
	}
	return slog.GroupValue(append(attrs, more...)...)
}

// Observer has a function for each event. Any of them may be nil. See the package comment for which
// goroutine calls them, and what they must not do.
type Observer struct {
	Called   func(Called)   // a call has begun
	Queued   func(Queued)   // its node must wait
	Granted  func(Granted)  // it has led to a hold
	Failed   func(Failed)   // it has failed
	Released func(Released) // a hold was released
	Lost     func(Lost)     // a hold was lost
	Leaked   func(Leaked)   // the program has dropped a hold without releasing it
	Retried  func(Retried)  // a request is sent again
}

// Called reports that a call has begun: of Lock, TryLock, Acquire, Campaign and the like. Run of
// package leader makes one for each term.
type Called struct {
	LockInfo // without Node and Token
}

// Queued reports that a node is in the queue and must wait. Calls of one process that share a node
// (read locks, WithHandoff) get one such event together. It comes again if the node was deleted or
// its session has expired, after which the call queues again at the tail.
type Queued struct {
	LockInfo
	Ahead int // how many nodes must be deleted before its turn comes
}

func (e Queued) LogValue() slog.Value { return e.group(slog.Int("ahead", e.Ahead)) }
func (e Queued) String() string       { return e.LogValue().String() }

// Granted reports that a call has led to a hold.
type Granted struct {
	LockInfo
	Waited time.Duration // since Called
	Joined bool          // its node has, or had, another hold: a shared read, a re-entry, a handoff
}

func (e Granted) LogValue() slog.Value {
	return e.group(slog.Duration("waited", e.Waited), slog.Bool("joined", e.Joined))
}
func (e Granted) String() string { return e.LogValue().String() }

// Failed reports that a call has failed, and holds nothing.
type Failed struct {
	LockInfo               // without Node and Token
	Waited   time.Duration // since Called
	Cause    error         // what the call returns; zklocks.ErrBusy if a call that does not wait found the lock taken
}

func (e Failed) LogValue() slog.Value {
	return e.group(slog.Duration("waited", e.Waited), slog.Any("cause", e.Cause))
}
func (e Failed) String() string { return e.LogValue().String() }

// Released reports that a hold was released.
type Released struct {
	LockInfo
	Held time.Duration // from the grant to the answer to Release, or to the end of its ctx
}

func (e Released) LogValue() slog.Value { return e.group(slog.Duration("held", e.Held)) }
func (e Released) String() string       { return e.LogValue().String() }

// Lost reports that a hold was lost. Cause matches zklocks.ErrLost and says why: the session has
// expired, the node was deleted, no server has answered until the deadline, or the connection was
// closed. The event comes when the lock detects the loss. If another client deletes the node, the
// lock detects that at once after a call of Held, Err, Lost or Context of the hold, and otherwise
// in Verify, Multi or Release.
type Lost struct {
	LockInfo
	Held  time.Duration // from the grant to the detection
	Cause error
}

func (e Lost) LogValue() slog.Value {
	return e.group(slog.Duration("held", e.Held), slog.Any("cause", e.Cause))
}
func (e Lost) String() string { return e.LogValue().String() }

// Leaked reports that the program has no reference to a Hold any more, and has not released it. The
// lock remains held, because work may continue under the hold's token or context: Released never
// comes, and Lost comes at the latest when the connection is closed. The event comes with a garbage
// collection, so it may come late or never. A program that means to hold a lock until it exits
// keeps the Hold. The hold of a function that Run of package leader has called is not reported: Run
// releases it.
type Leaked struct {
	LockInfo
	Held time.Duration // since the grant
}

func (e Leaked) LogValue() slog.Value { return e.group(slog.Duration("held", e.Held)) }
func (e Leaked) String() string       { return e.LogValue().String() }

// Retried reports that a request got no answer, because its connection was lost or because the
// server was overloaded, and is sent again.
type Retried struct {
	Path  string // of the lock
	Op    string // create, delete, list, read, write, check, watch, replace, transaction
	Cause error  // the error of the connection or of the server
}
