package queue

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/hold"
	"github.com/zklocks/zklocks/internal/zkclient"
	"github.com/zklocks/zklocks/internal/znode"
)

// Reasons for which a hold is lost, as far as this package sees them.
var (
	errDeleted = errors.New("its node was deleted")
	errOver    = errors.New("its session is over")
)

// Place is the first place in line: a hold, from its grant to its end. Its
// methods may be called from any goroutine.
type Place struct {
	line  *Line
	sess  int64
	token int64
	call  atomic.Pointer[Call] // the last that was granted it, if there are observers
	life  hold.Life
	seat  *zkclient.Seat
	marks bool // there may be somebody who waits for its mark
	lease *zkclient.Lease
	look  func() error // Look, made once for all the parts

	own atomic.Pointer[zkclient.Watch] // on the first of the nodes, from the first Exists on

	mu       sync.Mutex
	nodes    []znode.Node  // what is held now; Downgrade changes it
	replaced chan struct{} // closed when the Downgrade under way has ended; nil if none is
	guarded  bool          // somebody has asked, so the own nodes are watched

	waiting waiting     // what the observers know of the wait for it
	claimed atomic.Bool // they have been told of a hold
	waited  atomic.Bool // or that the wait is over, by a grant or without
}

func newPlace(m *member) *Place {
	p := &Place{line: m.line, sess: m.sess, token: m.token, seat: m.seat, marks: m.marks, lease: m.lease, nodes: m.nodes, waiting: m.waiting}
	p.life.Begin(p.lease.Alive)
	p.look = p.Look
	p.life.OnEnd(hold.CleanUp, p.ended)
	p.lease.OnLoss(func(why error) { p.life.Lose(why) })
	return p
}

// ended is the last thing in a hold's life. One that was declared lost may still
// have its nodes, if the connection comes back in time; then nobody else will
// delete them, and everybody behind would wait for ever.
func (p *Place) ended(end error) {
	p.lease.End()
	p.line.client.Rise(p.sess, p.line.seats, p.seat)
	if errors.Is(end, hold.ErrLost) {
		p.orphaned(end, p.remove(p.discard))
	}
	p.unclaimed(end)
}

// remove starts the deletion of the nodes, once a Downgrade under way has settled
// which they are. The channel yields the result of that.
func (p *Place) remove(with func([]znode.Node) error) <-chan error {
	result := make(chan error, 1) // nobody may be left to receive it
	go func() { result <- with(p.settled()) }()
	return result
}

// release deletes the nodes of a hold that is given back. If the holder was the
// first of all in a line it does so with the mark, which says that: so whoever is
// next need not list the line to know it. One of this process who follows knows it
// anyway, and where the line is short nobody waits for the mark; nor for that of a
// reader, which the holder may have become.
func (p *Place) release(nodes []znode.Node) error {
	if p.marks && p.seat != nil && nodes[0] == p.seat.Node && !p.seat.IsFollowed() {
		return p.line.client.RemoveMarked(p.sess, p.line.dir, nodes[0], p.line.mark, p.line.cfg.ACL)
	}
	return p.discard(nodes)
}

// discard deletes the nodes, and says nothing about the hold.
func (p *Place) discard(nodes []znode.Node) error {
	return p.line.client.RemoveNow(p.sess, p.line.dir, nodes)
}

// settled returns the nodes that are held, when no Downgrade is under way.
func (p *Place) settled() []znode.Node {
	for {
		p.mu.Lock()
		replaced, nodes := p.replaced, p.nodes
		p.mu.Unlock()
		if replaced == nil {
			return nodes
		}
		<-replaced
	}
}

// holding is settled for a caller that waits no longer than ctx lives.
func (p *Place) holding(ctx context.Context) ([]znode.Node, error) {
	for {
		p.mu.Lock()
		replaced, nodes := p.replaced, p.nodes
		p.mu.Unlock()
		if replaced == nil {
			return nodes, nil
		}
		select {
		case <-replaced:
		case <-ctx.Done():
			return nil, zkclient.Ended(ctx)
		}
	}
}

// Unlock gives the lock back. It starts the deletion whatever ctx says; ctx
// bounds the wait for the answer.
func (p *Place) Unlock(ctx context.Context) error {
	ctx, stop := p.life.Bound(ctx)
	defer stop()
	if err := p.life.Release(); err != nil {
		return err
	}
	if ctx.Done() == nil { // nothing but the answer ends the wait: no goroutine
		return p.unlocked(p.release(p.settled()))
	}
	select {
	case err := <-p.remove(p.release):
		return p.unlocked(err)
	case <-ctx.Done():
		return fmt.Errorf("%w (the node is being deleted in the background)", zkclient.Ended(ctx))
	}
}

// unlocked is the result of Unlock, by that of the deletion.
func (p *Place) unlocked(err error) error {
	switch {
	case err == nil:
		return nil
	case err == zk.ErrNoNode:
		return fmt.Errorf("%w: %w", hold.ErrLost, errDeleted)
	case errors.Is(err, zkclient.ErrOver):
		return fmt.Errorf("%w: %w", hold.ErrLost, errOver)
	case errors.Is(err, zkclient.ErrClosed):
		return fmt.Errorf("%w: %w", hold.ErrLost, err)
	}
	return explain(err, "DELETE on "+p.line.dir)
}

// Life returns the hold's life, and has its nodes watched from now on, off the
// caller's path: a hold that nobody asks costs no watch.
func (p *Place) Life() *hold.Life {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.guarded {
		p.guarded = true
		p.guardLocked()
	}
	return &p.life
}

// OnEnd has hook called when the hold ends, see hold.Life.OnEnd.
func (p *Place) OnEnd(when hold.Phase, hook func(error)) (forget func()) {
	return p.life.OnEnd(when, hook)
}

// Look returns nil while the hold lives, and otherwise what ended it. Unlike Life
// it sets no watch.
func (p *Place) Look() error { return p.life.Look() }

// Watched reports whether the first of the nodes is there, as far as that is known without
// asking: a watch that was set on the present connection has not fired.
func (p *Place) Watched() bool {
	w := p.own.Load()
	if w == nil {
		return false
	}
	if !w.SetIn(p.line.client.Epoch()) {
		return false
	}
	_, fired := w.Fired()
	return !fired
}

// Exists reports whether the first of the nodes is there, as far as is known, and asks if need
// be. If it is gone the hold is lost. A holder that is alone need not know: it finds out when
// it asks or unlocks. Holders that share the node, or pass it on, may do neither.
func (p *Place) Exists(ctx context.Context) bool {
	for !p.Watched() { // again if it has fired: the node may have been written into
		nodes, err := p.holding(ctx)
		if err != nil {
			return false
		}
		n := nodes[0]
		w, err := p.line.client.WatchAnyhow(ctx, p.sess, p.line.path(n))
		switch {
		case err == zk.ErrNoNode && p.holds(n):
			p.life.Lose(errDeleted)
		case errors.Is(err, zkclient.ErrOver):
			p.life.Lose(errOver)
		}
		if err != nil || p.life.Look() != nil {
			return false
		}
		p.own.Store(w)
	}
	return true
}

// Deadline is the instant until which the place is known to be held, if no program deletes its nodes; the zero time
// if the hold has ended.
func (p *Place) Deadline() time.Time {
	if p.life.Look() != nil {
		return time.Time{}
	}
	return p.lease.Deadline()
}

// Context returns a context that ends with parent or with the hold.
func (p *Place) Context(parent context.Context) context.Context { return p.Life().Context(parent) }

// Token is the czxid of the node that was granted.
func (p *Place) Token() int64 { return p.token }

// Guard is a check that fails once the node is gone.
func (p *Place) Guard() *zk.CheckVersionRequest {
	p.mu.Lock()
	defer p.mu.Unlock()
	return &zk.CheckVersionRequest{Path: p.line.path(p.nodes[0]), Version: -1}
}

// Verify asks the quorum whether the nodes exist.
func (p *Place) Verify(ctx context.Context) error {
	if err := p.life.Look(); err != nil {
		return err
	}
	p.mu.Lock()
	checked := p.nodes
	p.mu.Unlock()
	checks := make([]*zk.CheckVersionRequest, len(checked))
	for i, n := range checked {
		checks[i] = &zk.CheckVersionRequest{Path: p.line.path(n), Version: -1}
	}
	switch err := p.line.client.Check(ctx, p.sess, checks...); {
	case err == nil:
		return p.life.Look()
	case err == zk.ErrNoNode:
		now, err := p.holding(ctx)
		if err != nil {
			return err
		}
		if missing(now, checked[:1]) {
			return p.Verify(ctx) // downgraded meanwhile
		}
		p.life.Lose(errDeleted)
		return p.life.Look()
	case errors.Is(err, zkclient.ErrOver):
		p.life.Lose(errOver)
		return p.life.Look()
	default:
		if end := p.life.Look(); end != nil {
			return end // ctx may be the hold's own
		}
		return err
	}
}

// Multi makes a transaction that takes place only while all the nodes exist.
func (p *Place) Multi(ctx context.Context, ops ...any) ([]zk.MultiResponse, error) {
	return p.multi(ctx, p.life.Look, ops)
}

// multi does it for a hold on the place, whose end look tells.
func (p *Place) multi(ctx context.Context, look func() error, ops []any) ([]zk.MultiResponse, error) {
	if err := readable(ops); err != nil {
		return nil, err
	}
	for {
		if err := look(); err != nil {
			return nil, err
		}
		nodes, err := p.holding(ctx)
		if err != nil {
			return nil, err
		}
		guarded := make([]any, 0, len(nodes)+len(ops))
		for _, n := range nodes {
			guarded = append(guarded, &zk.CheckVersionRequest{Path: p.line.path(n), Version: -1})
		}
		replies, failed, err := p.line.client.Transact(ctx, look, append(guarded, ops...)...)
		switch end := look(); {
		case err == nil:
			return replies[len(nodes):], nil
		case failed >= len(nodes):
			return replies[len(nodes):], zkclient.Named(err)
		case failed == zkclient.Unanswered && end != nil:
			// It does not match what ended the hold: that says that nothing was done.
			return nil, fmt.Errorf("the transaction may have taken place: %w; the hold has ended meanwhile: %v", err, end)
		case failed == zkclient.Unanswered:
			return nil, fmt.Errorf("the transaction may have taken place: %w", err)
		case end != nil:
			return nil, end // ctx may be the hold's own
		case failed < 0 || err != zk.ErrNoNode:
			return nil, zkclient.Named(err)
		}
		switch now, err := p.holding(ctx); {
		case err != nil:
			return nil, err
		case !missing(now, nodes[failed:failed+1]):
			p.life.Lose(errDeleted)
			return nil, look()
		}
		// Downgraded meanwhile.
	}
}

// readable refuses operations whose result the client cannot read, so that it would take for refused what was done.
func readable(ops []any) error {
	for i, op := range ops {
		switch op := op.(type) {
		case *zk.CreateRequest:
			if op.Flags&^(zk.FlagEphemeral|zk.FlagSequence) != 0 {
				return fmt.Errorf("operation %d: flags %#x: containers and nodes with a time to live are made without a transaction", i, op.Flags)
			}
		case *zk.SetDataRequest, *zk.DeleteRequest, *zk.CheckVersionRequest:
		default:
			return fmt.Errorf("operation %d: %T is none: want *zk.CreateRequest, *zk.SetDataRequest, *zk.DeleteRequest or *zk.CheckVersionRequest", i, op)
		}
	}
	return nil
}

// holds reports whether n is what is held now.
func (p *Place) holds(n znode.Node) bool {
	return !missing(p.settled(), []znode.Node{n})
}
