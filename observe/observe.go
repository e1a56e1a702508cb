// Package observe reports what happens to a program's locks, for metrics, logs and traces. Like
// net/http/httptrace it has a struct of functions; each may be nil.
//
//	waits := observe.Observer{
//		Granted: func(e observe.Granted) { histogram.Observe(e.Waited.Seconds()) },
//		Failed:  func(e observe.Failed) { log.Print(e.Cause, " after ", e.Waited) },
//		Lost:    func(e observe.Lost) { log.Print("lost ", e.Path, ": ", e.Cause) },
//	}
//	mu := rwlock.New(conn, "/examples/index", zklocks.WithObserver(waits))
//
// An observer causes no requests: it receives what the lock detects itself. One Observer may serve
// any number of locks, and a lock may have several. A lock without an observer has no cost. Module
// github.com/zklocks/zklocks/metrics has an observer that feeds Prometheus.
//
// # Which events come
//
// Every call that acquires a lock begins with [Called] and ends with [Granted] or [Failed]. So
// Called minus Granted and Failed is the number of calls that wait, for another holder or for a
// server.
//
// Every hold begins with [Granted] and ends with [Released] or [Lost]. So Granted minus Released
// and Lost is the number of holds.
//
// Each lock of zklocks.All has these events for its part of the call and of the hold. A downgrade
// ends the hold for writing, and at once begins a hold for reading: Released, Called, Granted.
//
// [Queued] and [Retried] show why a call takes long. [Leaked] reports a mistake in the program: a
// hold that can no longer be released.
//
// # Times and contexts
//
// Each event of a call or a hold has its time, At. Waited and Held count from the event that began
// the call or the hold, exactly: e.At.Add(-e.Waited) of [Granted] and [Failed] is At of [Called],
// and e.At.Add(-e.Held) of [Released], [Lost] and [Leaked] is At of [Granted]. So an observer that
// gets the end of a call can record all of it, for example as a span of a trace.
//
// Called, Queued, Granted and Failed have the context that the program passed to the call. Its
// values, such as the span of a request, relate the event to the caller. It may be canceled
// already. An observer that keeps it keeps everything that the context refers to.
//
// The events of a hold have no context, because a hold may outlive the request that acquired it.
// The lock drops the context of the call when the call returns.
//
// # Rules for the functions
//
// Many goroutines may call them at the same time. The goroutine that called the method of the lock
// calls Called, Granted, Failed and Released before the method returns. Other goroutines may call
// Lost, Retried, Queued, the functions for a downgrade, and Released after a Release that does not
// wait for a downgrade. The events of a call and its hold do not overlap, except Queued and
// Retried. The garbage collector calls Leaked: in a test with testing/synctest that is outside of
// the bubble, so Leaked must not use the bubble's channels.
//
// The functions must not block: the lock waits for them, and while Granted runs, other callers of
// the lock wait. They must not call the methods of a hold or of a lock.
//
// A panic is not recovered. It passes through the method that the program called, or ends the
// program if another goroutine called the function. In the first case a granted hold remains taken,
// and a queued node in the queue, until the session ends.
package observe

import (
	"context"
	"fmt"
	"log/slog"
	"time"
)

// Kind is what a lock was taken for.
type Kind string

// The kinds of locks.
const (
	KindRead    Kind = "read"    // rwlock, for reading
	KindWrite   Kind = "write"   // rwlock, for writing; once
	KindMutex   Kind = "mutex"   // reentrant, leader
	KindPermits Kind = "permits" // semaphore
)

// LockInfo describes the lock of an event.
type LockInfo struct {
	Path    string // as it was given to New
	Kind    Kind
	Permits int    // the number of permits of a semaphore; otherwise 1
	Node    string // the name of the node, or of the first of several; empty before it is created
	Token   int64  // the fencing token; 0 if it is unknown
}

// String returns a text like "write /examples/index, token 7". It omits the permits and the token
// if there are none.
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

// LogValue returns a group, for package log/slog. The LogValue of an event adds the event's fields.
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

// Observer has a function for each event. Each may be nil. The package comment says which
// goroutines call them, and what they must not do.
type Observer struct {
	Called   func(Called)   // a call began
	Queued   func(Queued)   // the call's node must wait
	Granted  func(Granted)  // the call returned a hold
	Failed   func(Failed)   // the call failed
	Released func(Released) // a hold was released
	Lost     func(Lost)     // a hold was lost
	Leaked   func(Leaked)   // the program dropped a hold without releasing it
	Retried  func(Retried)  // a request is sent again
}

// Called reports that a call of Lock, TryLock, Acquire, Campaign or the like began. Run of package
// leader makes one call for each term.
type Called struct {
	LockInfo // without Node and Token
	Context  context.Context
	At       time.Time
}

// Queued reports that a node is in the queue and must wait. Calls of one process that share a node
// (read locks, WithHandoff) have one such event together. If the node is deleted or its session
// expires, the call queues again at the tail, and the event comes again.
type Queued struct {
	LockInfo
	Context context.Context // without values if callers of one lock value wait together
	At      time.Time
	Ahead   int // how many nodes must be deleted before it is granted
}

func (e Queued) LogValue() slog.Value { return e.group(slog.Int("ahead", e.Ahead)) }
func (e Queued) String() string       { return e.LogValue().String() }

// Granted reports that a call returned a hold.
type Granted struct {
	LockInfo
	Context context.Context
	At      time.Time
	Waited  time.Duration // since Called
	Joined  bool          // its node has, or had, another hold: a shared read, a re-entry, a handoff, an idle lock
}

func (e Granted) LogValue() slog.Value {
	return e.group(slog.Duration("waited", e.Waited), slog.Bool("joined", e.Joined))
}
func (e Granted) String() string { return e.LogValue().String() }

// Failed reports that a call failed. It holds nothing.
type Failed struct {
	LockInfo // without Node and Token
	Context  context.Context
	At       time.Time
	Waited   time.Duration // since Called
	Cause    error         // the error of the call; zklocks.ErrBusy if a call that does not wait found the lock taken
}

func (e Failed) LogValue() slog.Value {
	return e.group(slog.Duration("waited", e.Waited), slog.Any("cause", e.Cause))
}
func (e Failed) String() string { return e.LogValue().String() }

// Released reports that a hold was released.
type Released struct {
	LockInfo
	At   time.Time
	Held time.Duration // from the grant to the answer to Release, or to the cancellation of Release's ctx
}

func (e Released) LogValue() slog.Value { return e.group(slog.Duration("held", e.Held)) }
func (e Released) String() string       { return e.LogValue().String() }

// Lost reports that a hold was lost. Cause matches zklocks.ErrLost and says why: the session has
// expired, the node was deleted, no server answered until the deadline, or the connection was
// closed. The event comes when the lock detects the loss. After a call of Held, Err, Lost or
// Context it detects at once that another client deletes the node; without such a call, only in
// Verify, Multi or Release.
type Lost struct {
	LockInfo
	At    time.Time
	Held  time.Duration // from the grant to the detection
	Cause error
}

func (e Lost) LogValue() slog.Value {
	return e.group(slog.Duration("held", e.Held), slog.Any("cause", e.Cause))
}
func (e Lost) String() string { return e.LogValue().String() }

// Leaked reports that the program has dropped its last reference to a Hold that it has not
// released. The lock remains held, because work may continue under the hold's token or context.
// Released never follows, and Lost follows at the latest when the connection is closed. A garbage
// collection causes the event, so it may come late or never. A program that holds a lock until it
// exits must keep the Hold. A term of Run of package leader is not reported: Run releases it.
type Leaked struct {
	LockInfo
	At   time.Time
	Held time.Duration // since the grant
}

func (e Leaked) LogValue() slog.Value { return e.group(slog.Duration("held", e.Held)) }
func (e Leaked) String() string       { return e.LogValue().String() }

// Retried reports that a request is sent again: its connection was lost, the server was overloaded,
// or the server has refused to delete a node that nobody needs.
type Retried struct {
	Path  string // of the lock
	Op    string // create, delete, list, read, write, check, watch, replace, transaction
	Cause error  // the error of the connection or of the server
}
