package reentrant

import (
	"context"
	"fmt"
	"sync"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/goid"
	"github.com/zklocks/zklocks/internal/queue"
	"github.com/zklocks/zklocks/internal/slot"
	"github.com/zklocks/zklocks/internal/zkclient"
	"github.com/zklocks/zklocks/internal/znode"
)

// Mutex is an exclusive lock of the whole cluster that its owner may take again
// while holding it. It may be used by many goroutines at once and stays usable
// after any error. It must not be copied.
//
// The owner is the goroutine that called Lock, or whoever passes a context that
// came from [zklocks.Hold.Context]: code that calls itself re-enters by itself, and work
// that is handed to other goroutines re-enters by passing the context. Another
// Mutex value is another owner, also on the same path.
type Mutex struct {
	path    string
	queue   *queue.Queue
	request queue.Request
	err     error // what is wrong with the arguments of New

	mu     sync.Mutex
	owners map[int64]*owner // by the number of the goroutine, with the grant that it entered last
}

// New returns the lock at path, a directory of its own that is made when it is
// first needed. It does no I/O: bad arguments are reported by the first call.
func New(conn *zklocks.Conn, path string, opts ...Option) *Mutex {
	m := &Mutex{path: path, owners: make(map[int64]*owner)}
	if conn == nil {
		m.err = slot.ErrNoConn
		return m
	}
	cfg := config{Config: slot.Defaults(conn), kind: znode.Lock}
	for _, opt := range opts {
		switch set := opt.(type) {
		case slot.Common:
			set(&cfg.Config)
		case option:
			set(&cfg)
		}
	}
	cfg.Path, cfg.Names, cfg.Persistent = path, queue.Names{{Kind: cfg.kind, Mode: queue.Mutex}}, cfg.kind == znode.KazooLock
	m.request = queue.Request{Kind: cfg.kind, Nodes: 1}
	m.queue, m.err = queue.New(slot.Client(conn), slot.Path(conn, path), cfg.Config)
	return m
}

// Lock takes the lock. If the caller owns it already, one more hold is counted,
// without any request. Otherwise it waits for its turn, in the order of arrival,
// as long as ctx lives; ctx bounds the wait only, never the hold. The wait goes
// on through lost connections, and through an expiry of the session, after which
// it queues again at the tail.
//
// On failure nothing more is held than before and nothing is left in line. The
// error matches ctx's error; [zklocks.ErrLost] when the caller owns the lock but has
// lost it, until its last hold is released; zk.ErrClosing when the connection
// was closed; zk.ErrNoAuth when a right is missing; or says what is wrong with
// the arguments of New, or that the directory's sequence numbers are used up.
func (m *Mutex) Lock(ctx context.Context) (*zklocks.Hold, error) {
	return m.take(ctx, "lock", (*queue.Queue).Wait)
}

// TryLock is Lock for those who do not want to wait: when somebody else holds
// the lock or stands in line for it, the error matches [zklocks.ErrBusy]. It looks
// before it writes, and what it sees may be as old as the server it asks is
// behind the others.
func (m *Mutex) TryLock(ctx context.Context) (*zklocks.Hold, error) {
	return m.take(ctx, "try lock", (*queue.Queue).Try)
}

// Holds returns how many holds that the calling goroutine took are not released.
func (m *Mutex) Holds() int {
	me := goid.ID()
	m.mu.Lock()
	defer m.mu.Unlock()
	holds := 0
	for o := m.owners[me]; o != nil; o = o.former {
		holds += o.holds
	}
	return holds
}

type acquire func(*queue.Queue, context.Context, queue.Request) (*queue.Grant, error)

func (m *Mutex) take(ctx context.Context, op string, how acquire) (*zklocks.Hold, error) {
	if m.err != nil {
		return nil, m.wrap(op, m.err)
	}
	if err := zkclient.Ended(ctx); err != nil {
		// It may have ended with the hold of this lock that it comes from: the caller is told.
		if h := m.carried(ctx); h != nil && context.Cause(ctx) == h.Err() {
			err = fmt.Errorf("%w: %w", ctx.Err(), h.Err())
		}
		return nil, m.wrap(op, err)
	}
	me := goid.ID()
	events := m.queue.NewEvents()
	h, err := m.reenter(ctx, me)
	if h == nil && err == nil {
		h, err = m.enter(ctx, me, how)
	}
	if err != nil {
		return nil, m.wrap(op, err)
	}
	h.Granted(events)
	return &h.public, nil
}

// enter has a caller that does not own the lock queue.
func (m *Mutex) enter(ctx context.Context, me int64, how acquire) (*held, error) {
	grant, err := how(m.queue, ctx, m.request)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.holdLocked(&newOwnership(m, grant, me).first), nil
}

// carried is the hold whose context ctx is, or comes from; nil if there is none.
func (m *Mutex) carried(ctx context.Context) *held {
	h, _ := ctx.Value(ownerKey{m}).(*held)
	return h
}

// reenter counts one more hold if the caller owns the lock; it returns nothing
// if it does not.
func (m *Mutex) reenter(ctx context.Context, me int64) (*held, error) {
	var g *ownership
	if h := m.carried(ctx); h != nil {
		g = h.owner.of
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
		return nil, nil
	}
	// A hold's own context has looked when it was asked whether it has ended.
	if c, ok := ctx.(*holdContext); !ok || c.hold.owner.of != o.of {
		if err := o.of.grant.Err(); err != nil {
			return nil, err
		}
	}
	return m.holdLocked(o), nil
}

func (m *Mutex) holdLocked(o *owner) *held {
	if o.holds == 0 {
		o.former, m.owners[o.id] = m.owners[o.id], o
	}
	return o.add()
}

// unhold takes one hold away and reports whether it was the last.
func (m *Mutex) unhold(o *owner) (last bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	o.of.total--
	if o.holds--; o.holds == 0 {
		m.forgetLocked(o)
	}
	return o.of.total == 0
}

// forgetLocked forgets an owner that has no holds any more, and no other.
func (m *Mutex) forgetLocked(o *owner) {
	last := m.owners[o.id]
	switch {
	case last != o:
		for last.former != o {
			last = last.former
		}
		last.former = o.former
	case o.former != nil:
		m.owners[o.id] = o.former
	default:
		delete(m.owners, o.id)
	}
}

// wrap puts the package, the operation and the path in front of an error.
func (m *Mutex) wrap(op string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("reentrant: %s %s: %w", op, m.path, err)
}
