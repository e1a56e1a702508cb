package reentrant

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/goid"
	"github.com/zklocks/zklocks/internal/queue"
	"github.com/zklocks/zklocks/internal/slot"
	"github.com/zklocks/zklocks/internal/zkclient"
	"github.com/zklocks/zklocks/internal/znode"
)

// Mutex is an exclusive lock of the whole cluster that its owner may take again while holding it.
// It may be used by many goroutines at once and remains usable after any error. It must not be
// copied.
//
// The owner is the goroutine that called Lock, and each goroutine that passes a context from
// [zklocks.Hold.Context]. So code that calls itself re-enters automatically; a goroutine that works
// for the owner re-enters by passing the context. Another Mutex value is another owner, also on the
// same path.
//
// Unlike sync.Mutex it has to be made by New: calls of the zero value return an error.
type Mutex struct {
	lockSlot
	queue   *queue.Queue
	request queue.Request
	callers *queue.Callers

	byContext bool         // only the context owns
	calls     atomic.Int64 // numbers the calls if byContext, see caller

	mu     sync.Mutex       // tier 1; guards owners, and the fields of owner and ownership that count holds
	owners map[int64]*owner // by caller: its record for the grant that it entered last
}

type lockSlot = slot.Lock

// New returns the lock at path. The path must be a directory for this lock alone; it is created
// when it is first needed. If the node at path has data when the value is first used, they stay,
// and each lock takes one more request. If they are the number of permits of a semaphore, calls return an error. New does no
// I/O: the first call reports bad arguments.
func New(conn *zklocks.Conn, path string, opts ...Option) *Mutex {
	cfg := config{Config: slot.Config(conn, "reentrant", path), kind: znode.Lock}
	slot.Apply(opts, &cfg.Config, &cfg, option(nil))
	cfg.Names, cfg.Persistent = queue.Names{{Kind: cfg.kind, Mode: queue.Mutex}}, cfg.kind == znode.KazooLock
	m := &Mutex{
		queue: queue.New(cfg.Config), request: queue.Request{Kind: cfg.kind, Nodes: 1},
		owners: make(map[int64]*owner), byContext: cfg.byContext,
	}
	m.callers = m.queue.NewCallers(m.request, queue.Sharing{MaxIdle: cfg.maxIdle})
	slot.PutPart(&m.lockSlot, m, m.part)
	return m
}

// Lock takes the lock. If the caller owns it already, Lock adds a hold without any request.
// Otherwise it queues in the order of arrival, and waits until ctx is canceled. ctx bounds only the
// wait, not the hold. The wait continues through lost connections. If the session expires, the
// caller queues again, at the tail.
//
// If Lock fails, it adds no hold and deletes its node, in the background if ctx is canceled. If the
// client lacks the right DELETE, the node remains until the right is back or the session ends. The
// error
//   - matches ctx's error, zk.ErrClosing if the connection was closed, or zk.ErrNoAuth if a right
//     is missing;
//   - matches [zklocks.ErrLost] if the caller owned the lock and lost it, and has not released all
//     of its holds yet;
//   - or says what is wrong with the arguments of New or with the directory: it is ephemeral, its
//     sequence numbers or a quota are used up, or a lock of another kind uses it.
func (m *Mutex) Lock(ctx context.Context) (*zklocks.Hold, error) {
	return m.take(ctx, "lock", true)
}

// TryLock is Lock without waiting: if another owner holds the lock or waits for it, the error
// matches [zklocks.ErrBusy]. TryLock reads before it writes, from one server, which may lag behind
// the others; with [WithMaxIdle] it queues for a moment.
func (m *Mutex) TryLock(ctx context.Context) (*zklocks.Hold, error) {
	return m.take(ctx, "try lock", false)
}

// caller identifies the caller by its goroutine. With byContext each call has an id of its own, so
// that only the context finds a hold.
func (m *Mutex) caller() int64 {
	if m.byContext {
		return m.calls.Add(1)
	}
	return goid.ID()
}

// HoldCount returns how many holds the calling goroutine has not released. With [WithContextOwner]
// it returns 0, because no goroutine owns the lock.
func (m *Mutex) HoldCount() int {
	if m == nil {
		panic(m.made().queue.Invalid())
	}
	me := m.caller()
	m.mu.Lock()
	defer m.mu.Unlock()
	holds := 0
	for o := m.owners[me]; o != nil; o = o.former {
		holds += o.holds
	}
	return holds
}

// made returns m. If New has not made it, it returns a value whose calls all fail.
func (m *Mutex) made() *Mutex {
	if m == nil || m.queue == nil {
		m = &Mutex{queue: queue.Unmade("reentrant: Mutex")}
		m.callers = m.queue.NewCallers(queue.Request{}, queue.Sharing{})
	}
	return m
}

func (m *Mutex) take(ctx context.Context, op string, wait bool) (*zklocks.Hold, error) {
	m = m.made()
	call := m.queue.Call(ctx, m.request)
	if err := zkclient.Ended(ctx); err != nil {
		// ctx may be the context of a hold of this lock that has ended: then the error says so.
		if c := m.carried(ctx); c != nil && endedBy(ctx, c.hold.Err()) {
			err = fmt.Errorf("%w: %w", ctx.Err(), c.hold.Err())
		}
		return nil, m.queue.Fail(call, op, err)
	}
	me := m.caller()
	o, h, err := m.reenter(ctx, me)
	if o == nil && err == nil { // the caller does not own the lock
		var grant *queue.Grant
		var by queue.Leaver
		if grant, by, err = m.callers.Acquire(ctx, wait); err == nil {
			o, h = m.begin(grant, by, me)
		}
	}
	if err != nil {
		return nil, m.queue.Fail(call, op, err)
	}
	return slot.Give(h, o.of.grant, m.queue, o, call), nil
}

// endedBy reports whether ctx is canceled because a hold ended with this error.
func endedBy(ctx context.Context, end error) bool {
	return end != nil && errors.Is(context.Cause(ctx), end)
}

// begin makes a caller the owner of a grant, with its first hold.
func (m *Mutex) begin(grant *queue.Grant, by queue.Leaver, me int64) (*owner, *held) {
	g := &ownership{mutex: m, grant: grant, by: by, batch: 1}
	g.first = owner{of: g, id: me}
	m.mu.Lock()
	defer m.mu.Unlock()
	return &g.first, m.holdLocked(&g.first)
}

// carried returns the innermost hold context of this Mutex in ctx, or nil.
func (m *Mutex) carried(ctx context.Context) *holdContext {
	c, _ := ctx.Value(ownerKey{m}).(*holdContext)
	return c
}

// reenter adds a hold if the caller owns the lock; otherwise it returns nil without an error.
func (m *Mutex) reenter(ctx context.Context, me int64) (*owner, *held, error) {
	var g *ownership
	if c := m.carried(ctx); c != nil {
		g = c.owner.of
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	o := m.owners[me]
	if g != nil && g.total > 0 {
		if o = o.on(g); o == nil {
			o = &owner{of: g, id: me}
		}
	}
	if o == nil {
		return nil, nil, nil
	}
	// If ctx is the context of a hold on this grant, Ended has already checked the grant.
	if c, ok := ctx.(*holdContext); !ok || c.owner.of != o.of {
		if err := o.of.grant.Err(); err != nil {
			return nil, nil, err
		}
	}
	return o, m.holdLocked(o), nil
}

func (m *Mutex) holdLocked(o *owner) *held {
	if o.holds == 0 {
		o.former, m.owners[o.id] = m.owners[o.id], o
	}
	return o.addLocked()
}

// part describes the lock to zklocks.All. The caller of All becomes its owner.
func (m *Mutex) part() queue.Part {
	return queue.Part{
		Queue: m.queue, Request: m.request,
		Ready: m.refuse,
		Own: func(grant *queue.Grant) queue.Owner {
			o, _ := m.begin(grant, nil, m.caller())
			return o
		},
	}
}

var errOwned = errors.New("the caller holds the lock already")

// refuse returns an error if the caller already owns the lock: All cannot re-enter it.
func (m *Mutex) refuse(ctx context.Context) error {
	m.callers.EndIdle(ctx)
	c := m.carried(ctx)
	m.mu.Lock()
	defer m.mu.Unlock()
	o := m.owners[m.caller()]
	if c != nil && c.owner.of.total > 0 {
		o = c.owner
	}
	if o == nil {
		return nil
	}
	if err := o.of.grant.Err(); err != nil {
		return err
	}
	return errOwned
}

// Queue lists the holder of the lock and the waiters in queue order. It reads from one server, so
// the list may be out of date: it is for people and dashboards. The error matches ctx's error,
// zk.ErrClosing or zk.ErrNoAuth, or says what is wrong with the arguments of New.
func (m *Mutex) Queue(ctx context.Context) ([]zklocks.Member, error) {
	members, err := m.made().queue.Members(ctx, nil)
	return slot.Members(members, func(m queue.Member) zklocks.Member { return zklocks.Member(m) }), err
}
