package queue

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"time"

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
	// What the last listing rests on, or, before the first one, the create.
	epoch uint64 // of the connection
	limit Limit
	made  zkclient.Claimed
	nodes []znode.Node
	lease *zkclient.Lease
	// What a reader knew when its create was sent, which had its check; nil: nothing.
	noWriter *view
	// The paths of all nodes that were created together, if there are some in other directories.
	beside []string

	own      []*zkclient.Watch // on its nodes, if an event may grant them
	token    int64             // the czxid of its nodes; 0: not known yet
	marker   bool              // a waiter behind it may wait for its release marker
	queued   bool              // observers were notified that it waits
	patience time.Duration     // how long it waits for an event before it checks its turn without one
	listed   time.Time         // when it sent the last listing, or the create
	line     int               // how many nodes the last listing has shown
	ahead    atomic.Int64      // how many of them have to go before it is its turn
}

// enqueue is step 1: it creates the nodes of all parts, exactly once, in one session. It is to be
// called again if it returns neither waiters nor an error.
func enqueue(ctx context.Context, parts []Part, wait bool) (waiters, error) {
	client := parts[0].Queue.client
	if err := tooLarge(parts); err != nil {
		return nil, err
	}
	sess, err := client.Session(ctx)
	if err != nil {
		return nil, err
	}
	epoch := client.Epoch()
	all := make(waiters, len(parts))
	claims := make([]zkclient.Claim, len(parts))
	if !wait { // before a limit makes a node
		switch q, err := visiblyBusy(ctx, sess, parts); {
		case errors.Is(err, zkclient.ErrOver):
			return nil, nil
		case err != nil:
			return nil, all.named(ctx, q, err)
		}
	}
	for i, p := range parts {
		limit, err := p.limit(ctx, sess)
		switch {
		case errors.Is(err, zkclient.ErrOver):
			return nil, nil
		case err != nil:
			return nil, all.named(ctx, p.Queue, err)
		}
		w := &waiter{queue: p.Queue, request: p.Request, sess: sess, epoch: epoch, limit: limit, patience: FirstRecheck, listed: time.Now()}
		check := limit.Check
		if p.Sharing != nil {
			if w.noWriter = p.Queue.view.noWriter(); w.noWriter != nil {
				check = w.noWriter.check()
			}
		}
		all[i], claims[i] = w, p.Queue.claim(p.Request, check)
	}
	made, at, err := client.Claim(ctx, sess, claims...)
	switch {
	case errors.Is(err, zkclient.ErrOver):
		return nil, nil
	case err != nil:
		return nil, all.named(ctx, parts[at.Claim].Queue, all[at.Claim].refused(ctx, at.Does, err))
	}
	lease := client.Keep(sess)
	for i, w := range all {
		w.made, w.nodes, w.lease = made[i], made[i].Nodes, lease
	}
	for _, w := range all {
		w.token = all.tokenFromReply()
	}
	return all, nil
}

// tooLarge refuses what makes a request that no server takes, before anything is created for it.
func tooLarge(parts []Part) error {
	nodes, size := uint64(0), 0
	for _, p := range parts {
		var check *zk.CheckVersionRequest
		if p.Checked != "" {
			check = &zk.CheckVersionRequest{Path: p.Checked}
		}
		nodes, size = nodes+uint64(p.Nodes), size+p.Queue.claim(p.Request, check).Size()
		if size > zkclient.MaxRequest { // further parts might make more nodes than can be counted
			return fmt.Errorf("%d nodes make a request of over %d bytes, more than a server takes", nodes, zkclient.MaxRequest)
		}
	}
	return nil
}

// named adds to an error of one of several which lock it is of, if it is of one.
func (all waiters) named(ctx context.Context, q *Queue, err error) error {
	switch {
	case len(all) == 1: // the caller does
		return err
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		return err
	}
	return q.Named(err)
}

// claim describes the nodes of a request.
func (q *Queue) claim(r Request, check *zk.CheckVersionRequest) zkclient.Claim {
	return zkclient.Claim{
		Dir: q.dir, Kind: r.Kind, Nodes: r.Nodes, Data: q.cfg.Data, ACL: q.cfg.ACL,
		Touch: q.touches(r), Check: check,
	}
}

// refused does something about the server's refusal of an act, after which the waiter is to try
// again, or returns the error.
func (w *waiter) refused(ctx context.Context, act zkclient.Act, err error) error {
	q := w.queue
	if w.noWriter != nil && (err == zk.ErrBadVersion || err == zk.ErrNoAuth) {
		w.noWriter.writers.Miss()
		return nil
	}
	var unfound *zkclient.Unfound
	switch touch := modes[q.cfg.Names.mode(w.request.Kind)].touch; {
	case errors.As(err, &unfound):
		return Explain(err, "READ on "+q.dir+", to find a node after a lost reply, which may stay as long as the session")
	case err == zk.ErrNoNode:
		w.limit.forget()
		return q.makeDir(ctx)
	case err == zk.ErrBadVersion, err == zk.ErrNoAuth && act == zkclient.Checks: // its next reading says which right it takes
		w.limit.forget()
		return nil
	case err == zk.ErrNoAuth && act == zkclient.Touches && touch == touchOptional:
		q.untouchable.Store(true)
		return nil
	case err == zk.ErrNoAuth && touch == touchRequired:
		return Explain(err, "CREATE and WRITE on "+q.dir)
	}
	return Explain(err, "CREATE on "+q.dir)
}

// visiblyBusy returns hold.ErrBusy, and the queue, if nodes created now would have to wait. A
// queue without nodes is free whatever its limit, which is not asked for then, because that may
// make what is missing.
func visiblyBusy(ctx context.Context, sess int64, parts []Part) (*Queue, error) {
	for _, p := range parts {
		nodes, _, err := p.Queue.list(ctx, sess)
		if err != nil {
			return p.Queue, err
		}
		if len(nodes) == 0 {
			continue
		}
		limit, err := p.limit(ctx, sess)
		if err != nil {
			return p.Queue, err
		}
		if b := p.Queue.rule(p.Request, limit).blockers(nodes, znode.Node{Seq: math.MaxInt64}); !b.clear() {
			return p.Queue, hold.ErrBusy
		}
	}
	return nil, nil
}

// usable returns an error if one of the nodes has a number that grants nothing.
func (w *waiter) usable() error {
	for _, n := range w.nodes {
		if err := n.Usable(); err != nil {
			return err
		}
	}
	return nil
}

// list is step 2. Without blockers the waiter goes on with the turn and the error.
func (w *waiter) list(ctx context.Context) (*blockers, turn, error) {
	q := w.queue
	if w.lease.Alive() != nil {
		if err := q.client.Refresh(ctx, w.sess); err != nil {
			return nil, failed, err
		}
	}
	w.own, w.epoch, w.listed = nil, q.client.Epoch(), time.Now()
	var err error
	if w.limit, err = w.request.limit(ctx, w.sess); err != nil {
		return nil, failed, err
	}
	nodes, dir, err := w.listing(ctx)
	switch {
	case err != nil:
		return nil, failed, err
	case missing(nodes, w.nodes):
		return nil, requeue, errNodeGone
	case w.limit.Dir != 0 && dir.Czxid != w.limit.Dir:
		w.limit.forget() // invariant 9
		return nil, relist, nil
	}
	//invariant 9: w.limit.Dir == 0 || w.limit.Dir == dir.Czxid
	if err := w.nodes[0].Alone(nodes); err != nil {
		return nil, failed, err
	}
	w.line = len(nodes)
	b := q.rule(w.request, w.limit).blockers(nodes, w.nodes[0])
	if b.ahead() > 1 {
		w.marker = true // a waiter behind may have two ahead, too
	}
	return &b, pending, nil
}

// errNodeGone says that the waiter's nodes are gone, or another session's.
var errNodeGone = errors.New("its node is gone")

// listing lists the queue. At the same time it reads the token, if that is not known yet, and
// watches the directory for writers, if readers may share the node.
func (w *waiter) listing(ctx context.Context) (nodes []znode.Node, dir *zk.Stat, err error) {
	var beside sync.WaitGroup
	var writers *zkclient.Watch
	if w.request.Sharing != nil && w.queue.view.quiet.Load() {
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
		w.queue.view.listed(w, nodes, dir, writers)
	}
	return nodes, dir, nil
}

// readToken reads the czxid of the waiter's nodes, if these are still those of its session. Its
// watch stays with the connection, where Grant.Exists finds it.
func (w *waiter) readToken(ctx context.Context) error {
	path := w.queue.path(w.nodes[0])
	own, err := w.queue.client.Watch(ctx, w.sess, path)
	switch {
	case err == zk.ErrNoNode:
		return errNodeGone
	case err != nil:
		return Explain(err, "READ on "+path)
	case own.Stat.EphemeralOwner != w.sess:
		return errNodeGone
	}
	w.queue.readable.Store(true)
	w.token = own.Stat.Czxid
	w.queue.client.VerifyHeaderZxid(w.made.Zxid, w.token)
	return nil
}

// leave deletes the nodes because of err, and returns what the caller is told: nothing if the
// waiters start over. It waits for the answer unless the caller's ctx has ended or the nodes go
// with their session. A deletion that fails is reported together with err.
func (all waiters) leave(ctx context.Context, next turn, err error) error {
	removals := make([]zkclient.Removal, len(all))
	all[0].lease.End() // all have the same
	for i, w := range all {
		removals[i] = zkclient.Removal{Dir: w.queue.dir, Nodes: w.nodes}
	}
	removed := all[0].queue.client.Remove(all[0].sess, removals...)
	told := err
	if next == requeue {
		told = nil
	}
	if errors.Is(err, zkclient.ErrOver) || errors.Is(err, zkclient.ErrClosed) {
		return told
	}
	if zkclient.Ended(ctx) != nil && told != nil {
		return &Leaving{told, removed, all[0].queue.client.Timeout()}
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
		return also(err, fmt.Errorf("leaving the queue: %w", Explain(left, "DELETE on "+dirs(removals))))
	case <-ctx.Done():
		return told
	}
}

// Leaving is the error of a call whose ctx has ended, while its nodes are being deleted.
type Leaving struct {
	error
	Removed <-chan error  // yields the answer, once
	Timeout time.Duration // of the session
}

func (l *Leaving) Unwrap() error { return l.error }

// dirs lists the directories for an error.
func dirs(removals []zkclient.Removal) string {
	var names []string
	for _, r := range removals {
		names = append(names, r.Dir)
	}
	return strings.Join(names, " and ")
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
