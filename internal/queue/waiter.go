package queue

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"

	"github.com/go-zookeeper/zk"
	"github.com/hashicorp/go-multierror"

	"github.com/zklocks/zklocks/internal/hold"
	"github.com/zklocks/zklocks/internal/zkclient"
	"github.com/zklocks/zklocks/internal/znode"
)

// waiter is a set of nodes in the queue, from their creation to their grant or deletion. One
// goroutine uses it.
type waiter struct {
	queue   *Queue
	request Request
	sess    int64
	epoch   uint64 // of the connection, before the nodes were created
	limit   Limit  // when the nodes were created
	made    zkclient.Claimed
	nodes   []znode.Node
	lease   *zkclient.Lease

	own    []*zkclient.Watch // on its nodes, if an event may grant them
	token  int64             // the czxid of its nodes; 0: not known yet
	local  *localNode        // nil unless its mode is exclusive
	marker bool              // a waiter behind it may wait for its release marker
	queued queued            // what observers were told of the wait
}

// maxRequest is below the server's limit of 1 MiB (jute.maxbuffer). The server answers a larger
// request by closing the connection, which looks like any other lost one.
const maxRequest = 1_000_000

// enqueue is step 1: it creates the nodes, exactly once, in one session. It is to be called again
// if it returns neither a waiter nor an error.
func (q *Queue) enqueue(ctx context.Context, r Request, wait bool) (*waiter, error) {
	sess, err := q.client.Session(ctx)
	if err != nil {
		return nil, err
	}
	epoch := q.client.Epoch()
	limit, err := r.limit(ctx, sess)
	if err == nil && !wait {
		err = q.visiblyBusy(ctx, sess, r, limit)
	}
	switch {
	case errors.Is(err, zkclient.ErrOver):
		return nil, nil
	case err != nil:
		return nil, err
	}
	claim := zkclient.Claim{
		Dir: q.dir, Kind: r.Kind, Nodes: r.Nodes, Data: q.cfg.Data, ACL: q.cfg.ACL,
		Touch: q.touches(r), Check: limit.Check,
	}
	if size := claim.Size(); size > maxRequest {
		return nil, fmt.Errorf("%d nodes make a request of %d bytes, more than a server takes", r.Nodes, size)
	}
	made, err := q.client.Claim(ctx, sess, claim)
	switch touch := modes[q.mode(r)].touch; {
	case err == nil:
		w := &waiter{queue: q, request: r, sess: sess, epoch: epoch, limit: limit, made: made, nodes: made.Nodes}
		w.lease = q.client.Keep(sess)
		return w, nil
	case errors.Is(err, zkclient.ErrOver):
		return nil, nil
	case err == zk.ErrNoNode:
		limit.forget()
		return nil, q.makeDir(ctx)
	case err == zk.ErrBadVersion:
		limit.forget()
		return nil, nil
	case err == zk.ErrNoAuth && claim.Touch && touch == touchOptional:
		q.untouchable.Store(true)
		return nil, nil
	case err == zk.ErrNoAuth && touch == touchRequired:
		return nil, explain(err, "CREATE and WRITE on "+q.dir)
	}
	return nil, explain(err, "CREATE on "+q.dir)
}

func (q *Queue) mode(r Request) Mode { return q.cfg.Names.mode(znode.Node{Kind: r.Kind}) }

func (q *Queue) rule(r Request, l Limit) rule {
	return rule{names: q.cfg.Names, mode: q.mode(r), allowed: l.AllowedAhead}
}

// visiblyBusy returns hold.ErrBusy if nodes created now would have to wait.
func (q *Queue) visiblyBusy(ctx context.Context, sess int64, r Request, limit Limit) error {
	nodes, _, err := q.list(ctx, sess)
	if err != nil {
		return err
	}
	q.crowded.Store(len(nodes) > limit.AllowedAhead)
	if b := q.rule(r, limit).blockers(nodes, znode.Node{Seq: math.MaxInt64}); !b.clear() {
		return hold.ErrBusy
	}
	return nil
}

// A survey is one listing and what the waiter has learned since.
type survey struct {
	limit    Limit
	epoch    uint64
	blockers blockers
	watches  watchSet
}

// list is step 2. Without a survey the waiter goes on with the turn and the error.
func (w *waiter) list(ctx context.Context) (*survey, turn, error) {
	q := w.queue
	if w.lease.Alive() != nil {
		if err := q.client.Refresh(ctx, w.sess); err != nil {
			return nil, failed, err
		}
	}
	s := &survey{epoch: q.client.Epoch()}
	var err error
	if s.limit, err = w.request.limit(ctx, w.sess); err != nil {
		return nil, failed, err
	}
	w.own = nil
	nodes, dir, err := w.listing(ctx, s.epoch)
	switch {
	case err != nil:
		return nil, failed, err
	case missing(nodes, w.nodes):
		return nil, requeue, errNodeGone
	case s.limit.Dir != 0 && dir.Czxid != s.limit.Dir:
		s.limit.forget() // invariant 9
		return nil, relist, nil
	}
	if err := w.nodes[0].Alone(nodes); err != nil {
		return nil, failed, err
	}
	s.blockers = q.rule(w.request, s.limit).blockers(nodes, w.nodes[0])
	if s.blockers.ahead() > 1 {
		w.marker = true // a waiter behind may have two ahead, too
	}
	q.crowded.Store(len(nodes) > len(w.nodes)+s.limit.AllowedAhead)
	return s, pending, nil
}

// errNodeGone says that the waiter's nodes are gone, or another session's.
var errNodeGone = errors.New("its node is gone")

// listing lists the queue. At the same time it reads the token, if that is not known yet, and
// watches the directory for writers, if readers may share the node.
func (w *waiter) listing(ctx context.Context, epoch uint64) (nodes []znode.Node, dir *zk.Stat, err error) {
	var beside sync.WaitGroup
	var writers *zkclient.Watch
	if w.request.Sharing != nil && w.queue.view.watches() {
		beside.Go(func() { writers = w.queue.watchWriters(ctx, w.sess) })
	}
	var tokenErr error
	if w.token == 0 {
		beside.Go(func() { tokenErr = w.readToken(ctx) })
	}
	nodes, dir, err = w.queue.list(ctx, w.sess)
	beside.Wait()
	switch {
	case err != nil:
		return nil, nil, err
	case tokenErr != nil:
		return nil, nil, tokenErr
	}
	if w.request.Sharing != nil {
		w.queue.view.listed(w, nodes, dir, writers, epoch)
	}
	return nodes, dir, nil
}

// readToken reads the czxid of the waiter's nodes, if these are still those of its session. Its
// watch stays with the client, where Grant.Exists finds it.
func (w *waiter) readToken(ctx context.Context) error {
	path := w.queue.path(w.nodes[0])
	own, err := w.queue.client.Watch(ctx, w.sess, path)
	switch {
	case err == zk.ErrNoNode:
		return errNodeGone
	case err != nil:
		return explain(err, "READ on "+path)
	case own.Stat.EphemeralOwner != w.sess:
		return errNodeGone
	}
	w.queue.readable.Store(true)
	w.token = own.Stat.Czxid
	w.queue.client.VerifyHeaderZxid(w.made.Zxid, w.token)
	return nil
}

// leave deletes the nodes because of err, and returns what the caller is told: nothing if the
// waiter starts over. It waits for the answer unless the caller's ctx has ended or the nodes go
// with their session. A deletion that fails is reported together with err.
func (w *waiter) leave(ctx context.Context, next turn, err error) error {
	q := w.queue
	w.lease.End()
	q.local.unregister(w.local)
	q.tellLeft(w.nodes, w.token, w.queued, err)
	removed := q.client.Remove(w.sess, q.dir, w.nodes)
	told := err
	if next == requeue {
		told = nil
	}
	if zkclient.Ended(ctx) != nil || errors.Is(err, zkclient.ErrOver) || errors.Is(err, zkclient.ErrClosed) {
		return told
	}
	select {
	case left := <-removed:
		switch left {
		case nil, zk.ErrNoNode, zkclient.ErrOver, zkclient.ErrClosed:
			return told
		}
		if next == requeue {
			return nil // the next listing shows what is left
		}
		return also(err, fmt.Errorf("leaving the queue: %w", explain(left, "DELETE on "+q.dir)))
	case <-ctx.Done():
		return told
	}
}

// also adds what went wrong while cleaning up after err.
func also(err, cleanup error) error {
	all := multierror.Append(err, cleanup)
	all.ErrorFormat = func(errs []error) string {
		text := errs[0].Error()
		for _, e := range errs[1:] {
			text += "; and " + e.Error()
		}
		return text
	}
	return all.ErrorOrNil()
}
