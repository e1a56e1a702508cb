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
	"github.com/zklocks/zklocks/internal/wire"
	"github.com/zklocks/zklocks/internal/zkclient"
	"github.com/zklocks/zklocks/internal/znode"
	"github.com/zklocks/zklocks/observe"
)

// Why a grant is lost, as far as this package sees it.
var (
	errDeleted = errors.New("its node was deleted")
	errOver    = errors.New("its session is over")
)

// Grant is a granted set of nodes, from the grant to its end. One or more holds rest on it. Its
// methods may be called from any goroutine.
//
// A grant ends once, released or lost, in the phases of hold.State: it is marked as ended, its
// holders are told, it is cleaned up, its observers are told. The nodes of a lost one are deleted
// from the clean-up on, by a goroutine that waits for a connection; those of a released one by
// Release, behind all phases. A downgrade that is under way delays the deletion, until it is
// settled which node exists.
type Grant struct {
	queue *Queue
	sess  int64
	token int64
	since time.Time // when it was granted
	lease *zkclient.Lease
	state hold.State
	alive func() error // Err, made once for all the holds

	marker   bool                           // a waiter may need its release marker
	own      atomic.Pointer[zkclient.Watch] // on the first of the nodes, from the first Exists on
	call     atomic.Pointer[Call]           // of the last hold on it, if there are observers
	observed atomic.Bool                    // observers were notified of a hold on it

	mu        sync.Mutex    // guards what follows; for the lock order see doc.go
	nodes     []znode.Node  // what is held now
	pending   chan struct{} // closed when the downgrade under way has ended; nil: none is
	watching  bool          // goroutines watch the nodes for their deletion, see State
	requested chan struct{} // closed when the release is requested; nil: not watched for, see ReleaseRequested
}

func newGrant(w *waiter) *Grant {
	g := &Grant{
		queue: w.queue, sess: w.sess, token: w.token, since: time.Now(), lease: w.lease,
		marker: w.marker, nodes: w.nodes,
	}
	g.state.Begin(g.lease.Alive, g.queue.nameHold)
	g.alive = g.Err
	g.state.OnEnd(hold.CleanUp, g.cleanUp)
	g.queue.client.Held.Store(g, nil)
	g.lease.OnLoss(func(why error) {
		if !g.state.Lose(why) {
			g.state.Tell() // the goroutine that has ended it may not have told the holders yet
		}
	})
	return g
}

// cleanUp is the phase hold.CleanUp (invariant 4), on the goroutine that has ended the grant. A
// grant that was declared lost may still have its nodes, if the connection comes back in time. No
// other client deletes them, and all waiters behind would wait forever.
func (g *Grant) cleanUp(end error) {
	g.lease.End()
	g.queue.client.Held.Delete(g)
	if errors.Is(end, hold.ErrLost) {
		go func() { _ = g.queue.client.RemoveNow(g.sess, zkclient.Removal{Dir: g.queue.dir, Nodes: g.settled()}) }()
	}
}

// grants are one, or several that were made together, of one session.
type grants []*Grant

// remove deletes the nodes of grants that are given back, in one transaction, once it is settled
// which they are.
func (all grants) remove() error {
	removals := make([]zkclient.Removal, len(all))
	for i, g := range all {
		r := zkclient.Removal{Dir: g.queue.dir, Nodes: g.settled()}
		if g.leavesMarker(r.Nodes) {
			r.Marker, r.ACL = g.queue.marker, g.queue.cfg.ACL
		}
		removals[i] = r
	}
	err := all[0].queue.client.RemoveNow(all[0].sess, removals...)
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
	return Explain(err, "DELETE on "+dirs(removals))
}

// Info describes the grant as observers are notified of it.
func (g *Grant) Info() observe.LockInfo {
	nodes := g.current()
	lock := g.queue.info(Request{Kind: nodes[0].Kind, Nodes: len(nodes)})
	lock.Node, lock.Token = nodes[0].Name, g.token
	return lock
}

// current returns what is held now, also while a downgrade is under way.
func (g *Grant) current() []znode.Node {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.nodes
}

// settled returns the nodes that are held, when no downgrade is under way.
func (g *Grant) settled() []znode.Node {
	nodes, _ := g.holding(context.Background())
	return nodes
}

// holding is settled for a caller that waits no longer than ctx lives.
func (g *Grant) holding(ctx context.Context) ([]znode.Node, error) {
	for {
		g.mu.Lock()
		pending, nodes := g.pending, g.nodes
		g.mu.Unlock()
		if pending == nil {
			return nodes, nil
		}
		select {
		case <-pending:
		case <-ctx.Done():
			return nil, zkclient.Ended(ctx)
		}
	}
}

// holds reports whether n is what is held now.
func (g *Grant) holds(n znode.Node) bool { return !missing(g.settled(), []znode.Node{n}) }

// Release gives the nodes back. It starts their deletion whatever ctx says; ctx bounds the wait for
// the answer.
func (g *Grant) Release(ctx context.Context) error {
	bound := g.state.Bound(ctx)
	if end := g.state.Release(); end != nil {
		return end
	}
	ctx, stop := bound.Context()
	defer stop()
	return g.queue.client.Finish(ctx, "the node is being deleted", grants{g}.remove)
}

// release gives back those that have not ended. It returns the first end of another.
func (all grants) release(ctx context.Context) (err error) {
	held := make(grants, 0, len(all))
	for _, g := range all {
		if end := g.state.Release(); end == nil {
			held = append(held, g)
		} else if err == nil {
			err = end
		}
	}
	if len(held) == 0 {
		return err
	}
	if left := held[0].queue.client.Finish(ctx, "the node is being deleted", held.remove); err == nil {
		err = left
	}
	return err
}

// Timeout returns the session timeout.
func (g *Grant) Timeout() time.Duration { return g.queue.client.Timeout() }

// Err returns nil while the grant lives, and then what ended it. Unlike State it sets no watch.
func (g *Grant) Err() error { return g.state.Look() }

// What is known of the nodes without asking. There are two watches: that of State, whose goroutine
// ends the grant, for holders that want to be told; and that of Exists, which holders look at that
// share the nodes or hand them on.

// State returns the state of the grant, and has its nodes watched from now on, off the caller's
// path: a grant whose state is not asked for costs no watch.
func (g *Grant) State() *hold.State {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.watching {
		g.watching = true
		g.watchLocked()
	}
	return &g.state
}

// OnEnd has hook called in a phase of the grant's end, see hold.State.OnEnd.
func (g *Grant) OnEnd(when hold.Phase, hook func(error)) (forget func()) {
	return g.state.OnEnd(when, hook)
}

// watchLocked watches the nodes that are held now, until the grant ends; the caller holds mu.
func (g *Grant) watchLocked() {
	ctx, cancel := context.WithCancel(context.Background())
	g.state.OnEnd(hold.CleanUp, func(error) { cancel() })
	for _, n := range g.nodes {
		go g.watch(ctx, n)
	}
}

// watch ends the grant when its node is deleted, by any client, when its session is over, or when
// the Conn is closed. The end of one connection ends only the watch, which is set again.
func (g *Grant) watch(ctx context.Context, n znode.Node) {
	for delay := FirstRecheck; ; {
		w, err := g.queue.client.WatchNode(ctx, g.sess, g.queue.path(n))
		var event zk.Event
		if err == nil || err == zk.ErrNoAuth {
			switch {
			case wire.Wait(ctx, time.After(delay), w):
				event, _ = w.Fired()
				delay = FirstRecheck
			case ctx.Err() != nil:
				return
			default: // the event may be withheld
				delay = min(2*delay, time.Hour)
				_, _, err = g.queue.client.Get(ctx, g.queue.path(n))
			}
		}
		switch {
		case err == zk.ErrNoNode, err == nil && zkclient.Gone(event):
			// Release and Downgrade delete the node themselves, and have said so before they sent
			// the delete.
			if g.holds(n) {
				g.state.Lose(errDeleted)
			}
			return
		case errors.Is(err, zkclient.ErrOver):
			g.state.Lose(errOver)
			return
		case errors.Is(err, zkclient.ErrClosed):
			g.state.Lose(err)
			return
		case err != nil && err != zk.ErrNoAuth:
			return // ctx has ended, or the server refuses: the lease has to do
		}
		// A client has written into the node, which is not a loss; the watch has ended with its
		// connection; or its event was withheld. It is set again.
	}
}

// KnownToExist reports whether the first of the nodes exists, as far as that is known without
// asking: a watch that was set on the present connection has not fired.
func (g *Grant) KnownToExist() bool {
	w := g.own.Load()
	if w == nil {
		return false
	}
	_, fired := w.Fired()
	return !fired
}

// Exists reports whether the first of the nodes exists, and asks if that is not known. If it does
// not, the grant is lost. A holder that is alone need not know: it finds out when it asks or
// releases. Holders that share the node, or pass it on, may do neither.
func (g *Grant) Exists(ctx context.Context) bool {
	for !g.KnownToExist() { // again if it has fired: a client may have written into the node
		nodes, err := g.holding(ctx)
		if err != nil {
			return false
		}
		n := nodes[0]
		w, err := g.queue.client.WatchNode(ctx, g.sess, g.queue.path(n))
		switch {
		case err == zk.ErrNoNode && g.holds(n):
			g.state.Lose(errDeleted)
		case errors.Is(err, zkclient.ErrOver):
			g.state.Lose(errOver)
		}
		if err != nil || g.Err() != nil {
			return false
		}
		g.own.Store(w)
	}
	return true
}

// Deadline is the instant until which the nodes are known to exist, if no client deletes them; the
// zero time if the grant has ended.
func (g *Grant) Deadline() time.Time {
	if g.Err() != nil {
		return time.Time{}
	}
	return g.lease.Deadline()
}

// Context returns a context that ends with parent or with the grant.
func (g *Grant) Context(parent context.Context) context.Context { return g.State().Context(parent) }

// Token is the czxid of the nodes that were granted.
func (g *Grant) Token() int64 { return g.token }

// Wrap adds the package, an operation and the path of the lock to an error.
func (g *Grant) Wrap(op string, err error) error { return g.queue.Wrap(op, err) }

// errNotWrite means that there is nothing to downgrade.
var errNotWrite = errors.New("not held for writing")

// Downgrade puts a node of another kind, with the same number, in the place of the one that is
// held, in one transaction: no writer slips in between, and no waiter behind is overtaken. It runs
// to its end whatever ctx says; ctx bounds the wait for the answer.
func (g *Grant) Downgrade(ctx context.Context, from, to znode.Kind) error {
	if err := zkclient.Ended(ctx); err != nil {
		return err
	}
	if err := g.Err(); err != nil {
		return err
	}
	g.mu.Lock()
	if g.pending != nil || len(g.nodes) != 1 || g.nodes[0].Kind != from {
		g.mu.Unlock()
		return errNotWrite
	}
	// Before the request is sent: it deletes the node, which is no loss.
	pending := make(chan struct{})
	g.pending = pending
	old := g.nodes[0]
	g.mu.Unlock()
	// An end from now on waits until it is settled which node to delete. An end before has begun to
	// delete the old one, and would never hear of the new one.
	if err := g.Err(); err != nil {
		g.settle(old)
		return err
	}

	began, result := time.Now(), make(chan error, 1)
	go func() {
		err := g.queue.client.Replace(g.sess, g.queue.dir, old, old.As(to), g.queue.cfg.Data, g.queue.cfg.ACL)
		if err == nil {
			g.call.Load().downgraded(old.As(to)) // while a release still waits
			g.settle(old.As(to))
		} else {
			g.settle(old)
		}
		gone := false
		switch {
		case err == zk.ErrNoNode:
			gone = true
			g.state.Lose(errDeleted)
		case errors.Is(err, zkclient.ErrOver):
			gone = true
			g.state.Lose(errOver)
		}
		// A release that came meanwhile has ended the hold: then the end of the node is no loss,
		// and what the server says of it is not the answer.
		if end := g.Err(); gone || errors.Is(end, hold.ErrLost) {
			err = end
		}
		result <- err
	}()
	select {
	case err := <-result:
		return Explain(err, "WRITE on "+g.queue.path(old)+", CREATE and DELETE on "+g.queue.dir)
	case <-ctx.Done():
		return g.queue.client.GoesOn(ctx, began, "the downgrade goes on")
	}
}

// settle ends a downgrade: n is what is held from now on.
func (g *Grant) settle(n znode.Node) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.nodes[0] != n {
		g.nodes = []znode.Node{n}
		if g.watching {
			g.watchLocked()
		}
		if g.requested != nil {
			go g.watchRequest(n)
		}
	}
	close(g.pending)
	g.pending = nil
}
