package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/hold"
	"github.com/zklocks/zklocks/internal/zkclient"
	"github.com/zklocks/zklocks/internal/znode"
)

// errDeleted is the reason of a loss if another client has deleted a node of the grant.
var errDeleted = errors.New("its node was deleted")

// Grant is a granted set of nodes, in one queue or in several, from the grant to its end. One or
// more holds rest on it. Its methods may be called from any goroutine.
//
// A grant ends once, released or lost: first it is marked as ended, then its holders are notified,
// then CleanUp is called. A goroutine of CleanUp deletes the nodes of a lost grant, and GiveUp the
// nodes of a released grant. The deletion waits for the end of a downgrade that is under way,
// because only then it is settled which node exists.
type Grant struct {
	client *zkclient.Client
	sess   int64
	token  int64
	since  time.Time // when it was granted
	lease  *zkclient.Lease
	state  hold.State
	self   hold.Hold // a hold that ends with the grant, for the contexts and hooks of the grant itself

	granted heldNodes // what it held at first; immutable
	held    atomic.Pointer[heldNodes]
	paths   string // of all locks, if the grant is of several locks

	own      atomic.Pointer[zkclient.Watch] // on the first node; set by Exists
	observed atomic.Bool                    // observers were notified of a hold on it
	watching atomic.Bool                    // WatchNodes was called
	requests atomic.Pointer[requests]       // set by ReleaseRequested
}

// heldNodes are the nodes that a grant holds. They are immutable: a change replaces them, and while
// a downgrade is pending there is no other change.
type heldNodes struct {
	nodes   []nodeRef     // the nodes of a queue are consecutive
	pending chan struct{} // closed when the downgrade under way has ended; nil: none is under way
}

// A nodeRef is a node of a grant.
type nodeRef struct {
	queue  *Queue
	node   znode.Node
	marker bool // a waiter in the queue may watch for the grant's release marker
}

func (n nodeRef) path() string { return n.queue.path(n.node) }

// in splits nodes into the nodes in the given queues and the other nodes.
func in(nodes []nodeRef, queues ...*Queue) (these, others []nodeRef) {
	for _, n := range nodes {
		if slices.Contains(queues, n.queue) {
			these = append(these, n)
		} else {
			others = append(others, n)
		}
	}
	return these, others
}

// first returns the first node in each queue.
func (h *heldNodes) first() []nodeRef {
	return slices.CompactFunc(slices.Clone(h.nodes), func(a, b nodeRef) bool { return a.queue == b.queue })
}

// newGrant makes the waiters a holder.
func newGrant(all waiters) *Grant {
	w := all[0]
	g := &Grant{client: w.queue.client, sess: w.sess, token: w.token, since: time.Now(), lease: w.lease}
	g.granted.nodes = make([]nodeRef, 0, len(all)*len(w.nodes))
	for _, w := range all {
		for _, n := range w.nodes {
			g.granted.nodes = append(g.granted.nodes, nodeRef{w.queue, n, w.marker})
		}
	}
	g.held.Store(&g.granted)
	g.state.Grant, g.self.State = g, &g.state
	g.lease.OnLoss(g, g.state.Lose)
	for _, w := range all {
		w.bug.unless(w.limit.AllowedAhead >= 0, 8)
		g.endsBy(w.bug, w.queue)
	}
	return g
}

// must ends the grant as lost if invariant n does not hold, and returns holds.
func (g *Grant) must(holds bool, n int) bool {
	if !holds {
		g.endsBy(bug(n), g.granted.nodes[0].queue)
	}
	return holds
}

// endsBy ends the grant as lost if there is a bug: another client may hold, too. The log and the
// error of the hold report it.
func (g *Grant) endsBy(b bug, q *Queue) {
	if b != 0 {
		err := fmt.Errorf("a bug of zklocks, which should be reported: invariant %d does not hold", b)
		q.cfg.Conn.Printf("zklocks: %s: %v", znode.Shown(q.cfg.Path), err)
		g.state.Lose(q.Wrap("hold", fmt.Errorf("%w: %w", hold.ErrLost, err)))
	}
}

// Alive returns why the grant must be considered lost, or nil.
func (g *Grant) Alive() error { return g.lease.Alive() }

// Named adds the path of the first lock to the error of a loss.
func (g *Grant) Named(loss error) error { return g.granted.nodes[0].queue.Wrap("hold", loss) }

// CleanUp is called by the goroutine that has ended the grant (invariant 4). It has the nodes of a
// lost grant deleted, because they still exist if the connection returns before the session
// expires. No other client would delete them, and all waiters behind them would wait forever. The
// lease of a released grant lives until GiveUp returns.
func (g *Grant) CleanUp(end error) {
	if errors.Is(end, hold.ErrLost) {
		g.lease.Lost(end)
		go func() { _ = g.remove(g.stable().nodes, false) }()
	}
}

// missed ends the grant because of the error of a request for the node n, if the error means that
// the session or the node is gone. A node that this process has released or replaced does not
// count.
func (g *Grant) missed(n nodeRef, err error) {
	switch {
	case err == zk.ErrNoNode && slices.Contains(g.stable().nodes, n):
		g.state.Lose(n.queue.Wrap("hold", fmt.Errorf("%w: %w", hold.ErrLost, errDeleted)))
	case errors.Is(err, zkclient.ErrOver), errors.Is(err, zkclient.ErrClosed):
		g.state.Lose(err)
	}
}

// Err returns nil while the grant lives, and then what ended it. It sets no watch.
func (g *Grant) Err() error { return g.state.Settle() }

// OnEnd has hook called when the grant ends, see hold.Hold.OnEnd.
func (g *Grant) OnEnd(hook func(error)) (forget func()) { return g.self.OnEnd(hook) }

// Token is the czxid of the nodes that were granted.
func (g *Grant) Token() int64 { return g.token }

// Timeout returns the session timeout.
func (g *Grant) Timeout() time.Duration { return g.client.Timeout() }

// living returns ctx, which is also canceled when the grant ends. The caller must call stop, or the
// grant would keep ctx.
func (g *Grant) living(ctx context.Context) (_ context.Context, stop context.CancelFunc) {
	ctx, stop = context.WithCancel(ctx)
	return g.self.Context(ctx), stop
}

// stable returns the nodes once no downgrade is under way.
func (g *Grant) stable() *heldNodes {
	held, _ := g.holding(context.Background())
	return held
}

// holding is like stable, but returns an error if ctx ends first.
func (g *Grant) holding(ctx context.Context) (*heldNodes, error) {
	for {
		held := g.held.Load()
		if held.pending == nil {
			return held, nil
		}
		select {
		case <-held.pending:
		case <-ctx.Done():
			return nil, zkclient.Ended(ctx)
		}
	}
}

// NoWait is a context that has ended: a release with it does not wait for the answer.
var NoWait = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// deleting is what continues in the background if ctx ends, or the session is lost, during a
// release.
const deleting = "the node is being deleted"

// Finish runs a call of the grant to its end, see zkclient.Lease.Finish.
func (g *Grant) Finish(ctx context.Context, goingOn string, call func() error) error {
	return g.lease.Finish(ctx, goingOn, call)
}

// GiveUp releases the grant: it deletes all nodes. The deletion starts even if ctx has ended; ctx and the session's
// deadline bound the wait for the answer.
func (g *Grant) GiveUp(ctx context.Context) error {
	if end := g.state.Release(); end != nil {
		return end
	}
	defer g.lease.End()
	return g.Finish(ctx, deleting, func() error { return g.remove(g.stable().nodes, true) })
}

// releaseIn deletes the nodes in some queues. If no other nodes are left, the grant ends.
func (g *Grant) releaseIn(ctx context.Context, queues ...*Queue) error {
	if _, others := in(g.held.Load().nodes, queues...); others == nil {
		return g.GiveUp(ctx)
	}
	if end := g.Err(); end != nil {
		return end
	}
	return g.Finish(ctx, deleting, func() error {
		for {
			held := g.stable()
			these, others := in(held.nodes, queues...)
			if others == nil { // they have been released meanwhile
				return g.GiveUp(context.Background())
			}
			if g.held.CompareAndSwap(held, &heldNodes{nodes: others}) {
				return g.remove(these, true)
			}
		}
	})
}

// remove deletes nodes, in one transaction.
func (g *Grant) remove(nodes []nodeRef, markers bool) error {
	var removals []zkclient.Removal
	for i, n := range nodes {
		if i == 0 || n.queue != nodes[i-1].queue {
			r := zkclient.Removal{Dir: n.queue.dir}
			if markers && n.leavesMarker() {
				r.Marker, r.ACL = n.queue.marker, n.queue.cfg.ACL
			}
			removals = append(removals, r)
		}
		r := &removals[len(removals)-1]
		r.Nodes = append(r.Nodes, n.node)
	}
	err := g.client.RemoveNow(g.sess, removals...)
	switch {
	case err == zk.ErrNoNode:
		return fmt.Errorf("%w: %w", hold.ErrLost, errDeleted)
	case errors.Is(err, zkclient.ErrOver), errors.Is(err, zkclient.ErrClosed):
		return fmt.Errorf("%w: %w", hold.ErrLost, err)
	}
	return undeleted(err, removals)
}

// WatchNodes starts a goroutine for each node, which watches the node and ends the grant if the
// node is deleted. While no caller asks for the state of a hold, its grant costs no watch.
func (g *Grant) WatchNodes() {
	if g.watching.Load() || g.watching.Swap(true) {
		return
	}
	for _, n := range g.held.Load().nodes {
		go g.watch(n)
	}
}

// watch ends the grant when a client deletes its node, the session is over, or the Conn is closed.
// When a connection ends, it sets the watch again on the next.
func (g *Grant) watch(n nodeRef) {
	ctx, stop := g.living(context.Background())
	defer stop()
	for event := new(doubt); ; {
		w, err := g.client.WatchNode(ctx, g.sess, n.path())
		if err == nil || err == zk.ErrNoAuth {
			rung := event.wait(ctx, w)
			switch {
			case ctx.Err() != nil:
				return
			case rung:
				if event, _ := w.Fired(); zkclient.Gone(event) {
					err = zk.ErrNoNode
				}
			default: // the server may withhold the event
				_, _, err = g.client.Get(ctx, n.path())
			}
		}
		if err != nil && err != zk.ErrNoAuth {
			// Before GiveUp and Downgrade delete the node themselves, they end the grant or
			// replace held, so missed ignores that deletion. If the server refuses the watch, only
			// the lease detects a loss.
			g.missed(n, err)
			return
		}
		// Set the watch again: a client has written into the node, or the connection has ended.
	}
}

// KnownToExist reports whether the first node is known to exist: the watch that Exists has set, on
// the present connection, has not fired.
func (g *Grant) KnownToExist() bool {
	w := g.own.Load()
	return w != nil && !fired(w)
}

// Exists reports whether the first node exists. If that is unknown, it reads and watches the node.
// If the node is missing, the grant is lost. Holders that share the node, or pass it on, call
// Exists; a holder that is alone detects a deletion when it asks for its state, or releases.
func (g *Grant) Exists(ctx context.Context) bool {
	for !g.KnownToExist() { // again if it has fired: a client may have written into the node
		held, err := g.holding(ctx)
		if err != nil {
			return false
		}
		n := held.nodes[0]
		w, err := g.client.WatchNode(ctx, g.sess, n.path())
		g.missed(n, err)
		if err != nil || g.Err() != nil {
			return false
		}
		g.own.Store(w)
	}
	return true
}
