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
	"github.com/zklocks/zklocks/internal/wire"
	"github.com/zklocks/zklocks/internal/zkclient"
	"github.com/zklocks/zklocks/internal/znode"
)

// Why a grant is lost, as far as this package sees it.
var (
	errDeleted = errors.New("its node was deleted")
	errOver    = errors.New("its session is over")
)

// Grant is a granted set of nodes, in one queue or in several that were queued in together, from
// the grant to its end. One or more holds rest on it. Its methods may be called from any goroutine.
//
// A grant ends once, released or lost: it is marked as ended, its holders are notified, it is
// cleaned up. A goroutine of the clean-up deletes the nodes of a lost grant; Release deletes those
// of a released one. A downgrade that is under way delays the deletion, until it is settled which
// node exists.
type Grant struct {
	client *zkclient.Client
	sess   int64
	token  int64
	since  time.Time // when it was granted
	lease  *zkclient.Lease
	state  hold.State
	self   hold.Hold // ends with the grant, for what does, too

	granted heldNodes // what it held at first; immutable
	held    atomic.Pointer[heldNodes]
	paths   string // of all locks, if it is of several

	own      atomic.Pointer[zkclient.Watch] // on the first of the nodes, from the first Exists on
	observed atomic.Bool                    // observers were notified of a hold on it
	watching atomic.Bool                    // goroutines watch the nodes for their deletion, see WatchNodes
	request  atomic.Pointer[request]        // nil: no hold waits for one, see ReleaseRequested
}

// heldNodes are what a grant holds. They are immutable: a change replaces them, and while one is
// pending there is no other.
type heldNodes struct {
	nodes   []nodeRef     // those of a queue in a row
	pending chan struct{} // closed when the downgrade under way has ended; nil: none is
}

// A nodeRef is a node of a grant.
type nodeRef struct {
	queue  *Queue
	node   znode.Node
	marker bool // a waiter in the queue may need the grant's release marker
}

func (n nodeRef) path() string { return n.queue.path(n.node) }

// in splits nodes into those in some queues and the others.
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
		//invariant 8: w.limit.AllowedAhead >= 0
		for _, n := range w.nodes {
			g.granted.nodes = append(g.granted.nodes, nodeRef{w.queue, n, w.marker})
		}
	}
	g.held.Store(&g.granted)
	g.state.Grant, g.self.State = g, &g.state
	g.client.Held.Store(g, nil)
	g.lease.OnLoss(g.state.Lose)
	return g
}

// Alive returns why the grant must be considered lost, or nil.
func (g *Grant) Alive() error { return g.lease.Alive() }

// Named adds a path to the error of a loss, which programs get as the cause of a context.
func (g *Grant) Named(loss error) error { return g.granted.nodes[0].queue.Wrap("hold", loss) }

// CleanUp is called by the goroutine that has ended the grant (invariant 4). A grant that was
// declared lost may still have its nodes, if the connection comes back in time. No other client
// deletes them, and all waiters behind would wait forever.
func (g *Grant) CleanUp(end error) {
	g.lease.End()
	g.client.Held.Delete(g)
	if errors.Is(end, hold.ErrLost) {
		go func() { _ = g.remove(g.settled().nodes, false) }()
	}
}

// missed ends the grant because of an error that a request for one of its nodes has met, if it says
// that the node is gone, which no caller has given back or replaced, or the session.
func (g *Grant) missed(n nodeRef, err error) {
	switch {
	case err == zk.ErrNoNode && slices.Contains(g.settled().nodes, n):
		g.state.Lose(n.queue.Wrap("hold", fmt.Errorf("%w: %w", hold.ErrLost, errDeleted)))
	case errors.Is(err, zkclient.ErrOver):
		g.state.Lose(errOver)
	case errors.Is(err, zkclient.ErrClosed):
		g.state.Lose(err)
	}
}

// Err returns nil while the grant lives, and then what ended it. It sets no watch.
func (g *Grant) Err() error { return g.state.Look() }

// OnEnd has hook called when the grant ends, see hold.Hold.OnEnd.
func (g *Grant) OnEnd(hook func(error)) (forget func()) { return g.self.OnEnd(hook) }

// Token is the czxid of the nodes that were granted.
func (g *Grant) Token() int64 { return g.token }

// Timeout returns the session timeout.
func (g *Grant) Timeout() time.Duration { return g.client.Timeout() }

// settled returns what is held, when no downgrade is under way.
func (g *Grant) settled() *heldNodes {
	held, _ := g.holding(context.Background())
	return held
}

// holding is settled for a caller that waits no longer than ctx lives.
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

// NoWait is a context that has ended: with it a release begins, and does not wait for the answer.
var NoWait = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// deleting is what goes on in the background if ctx ends during a release.
const deleting = "the node is being deleted"

// Release gives all nodes back. It starts their deletion whatever ctx says; ctx bounds the wait for
// the answer.
func (g *Grant) Release(ctx context.Context) error {
	if end := g.state.Release(); end != nil {
		return end
	}
	return g.client.Finish(ctx, deleting, func() error { return g.remove(g.settled().nodes, true) })
}

// releaseIn deletes the nodes in some queues. If no other nodes are left, the grant ends.
func (g *Grant) releaseIn(ctx context.Context, queues ...*Queue) error {
	if _, others := in(g.held.Load().nodes, queues...); others == nil {
		return g.Release(ctx)
	}
	if end := g.Err(); end != nil {
		return end
	}
	return g.client.Finish(ctx, deleting, func() error {
		for {
			held := g.settled()
			these, others := in(held.nodes, queues...)
			if others == nil { // they have been given back meanwhile
				return g.Release(context.Background())
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
	case err == nil:
		return nil
	case err == zk.ErrNoNode:
		err = errDeleted
	case errors.Is(err, zkclient.ErrOver):
		err = errOver
	case !errors.Is(err, zkclient.ErrClosed):
		return Explain(err, "DELETE on "+dirs(removals))
	}
	return fmt.Errorf("%w: %w", hold.ErrLost, err)
}

// Two watches tell whether the nodes exist, without a request. WatchNodes sets one for holders that
// want to be notified of a deletion: its goroutine ends the grant. Exists sets the other: holders
// that share the nodes, or hand them on, check it.

// WatchNodes has the nodes watched from now on, off the caller's path, to detect their deletion: a
// grant whose state is not asked for costs no watch.
func (g *Grant) WatchNodes() {
	if g.watching.Load() || g.watching.Swap(true) {
		return
	}
	for _, n := range g.held.Load().nodes {
		go g.watch(n)
	}
}

// watch ends the grant when its node is deleted, by any client, when its session is over, or when
// the Conn is closed. The end of one connection ends only the watch, which is set again.
func (g *Grant) watch(n nodeRef) {
	ctx := g.self.Context(context.Background())
	for delay := FirstRecheck; ; {
		w, err := g.client.WatchNode(ctx, g.sess, n.path())
		if err == nil || err == zk.ErrNoAuth {
			rung := wire.Wait(ctx, time.After(delay), w)
			switch {
			case ctx.Err() != nil:
				return
			case rung:
				delay = FirstRecheck
				if event, _ := w.Fired(); zkclient.Gone(event) {
					err = zk.ErrNoNode
				}
			default: // the server may withhold the event
				delay = min(2*delay, time.Hour)
				_, _, err = g.client.Get(ctx, n.path())
			}
		}
		if err != nil && err != zk.ErrNoAuth {
			// Release and Downgrade, which delete the node themselves, have changed held before, so
			// missed ignores it. If the server refuses the watch, only the lease detects a loss.
			g.missed(n, err)
			return
		}
		// A client has written into the node, which is not a loss; the watch has ended with its
		// connection; or its event was withheld. It is set again.
	}
}

// KnownToExist reports whether the first of the nodes exists, as far as that is known without
// asking: a watch that was set on the present connection has not fired.
func (g *Grant) KnownToExist() bool {
	w := g.own.Load()
	return w != nil && !fired(w)
}

// Exists reports whether the first of the nodes exists, and asks if that is not known. If it does
// not, the grant is lost. A holder that is alone need not know: it finds out when it asks or
// releases. Holders that share the node, or pass it on, may do neither.
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
