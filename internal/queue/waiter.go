package queue

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/hold"
	"github.com/zklocks/zklocks/internal/wire"
	"github.com/zklocks/zklocks/internal/zkclient"
	"github.com/zklocks/zklocks/internal/znode"
)

// waiter is a set of nodes in the queue, from their creation to their grant or deletion. One
// goroutine uses it.
type waiter struct {
	queue   *Queue
	request Request
	sess    int64
	// epoch and limit are as of the last listing; before the first one, as of the create.
	epoch uint64
	limit Limit
	made  zkclient.Claimed
	nodes []znode.Node
	lease *zkclient.Lease
	// noWriter is the reader's view that the create has checked; nil: none.
	noWriter *view
	together waiters // whose nodes the same transaction has created, this one among them

	own      []*zkclient.Watch // on its nodes, if an event may grant them
	watches  []*zkclient.Watch // on its blockers; nil: the node did not exist
	bug      bug               // found since the last listing
	token    int64             // the czxid of its nodes; 0: unknown
	marker   bool              // a waiter behind it may watch for its release marker
	queued   bool              // observers were notified that it waits
	patience doubt             // how long it waits for an event
	listed   time.Time         // when it sent the last listing, or the create
	busy     time.Time         // until when it waits, if it tries; zero: it has not waited yet
	began    time.Time         // when it was created
	says     time.Time         // when it next logs for whom it waits
	line     int               // the number of nodes in the last listing
	ahead    *atomic.Int64     // how many nodes have to go before its turn; 0: unknown
}

// waiters have nodes that one transaction has created, each in another directory. There is more
// than one only for zklocks.All.
type waiters []*waiter

// enqueue is step 1: it creates the nodes of all parts, exactly once, in one session. If an error
// concerns one of several locks, enqueue also returns the queue of that lock.
func enqueue(ctx context.Context, parts []Part, wait bool) (all waiters, at *Queue, err error) {
	client := parts[0].Queue.client
	claims, err := claimsOf(parts)
	if err != nil {
		return nil, nil, err
	}
	sess, err := client.Session(ctx)
	if err != nil {
		return nil, nil, err
	}
	lease := client.Keep(sess) // while requests take long, heartbeats must move the deadline on
	defer func() {
		if err != nil {
			lease.End()
		}
	}()
	epoch := client.Epoch()
	all = make(waiters, len(parts))
	for i, p := range parts {
		limit, err := p.limit(ctx, sess)
		switch {
		case err != nil, limit.Missing > 0:
		case wait:
			err = p.Queue.look(ctx, sess)
		default:
			err = p.visiblyBusy(ctx, sess, limit)
		}
		if err != nil {
			return nil, p.Queue, err
		}
		claims[i].Make = p.Queue.dirs(max(limit.Missing, int(p.Queue.missing.Load())))
		claims[i].Touch = p.Queue.touches(p.Kind)
		all[i] = &waiter{queue: p.Queue, request: p.Request, sess: sess, epoch: epoch, limit: limit, began: time.Now(), ahead: p.ahead}
		all[i].listed, all[i].says = all[i].began, all[i].began.Add(client.Timeout())
		if p.ahead == nil {
			all[i].ahead = new(atomic.Int64)
		}
		claims[i].Check = limit.Check
		if p.shared != nil {
			if v := p.Queue.view.noWriter(); v != nil {
				all[i].noWriter, claims[i].Check = v, v.check
			}
		}
	}
	made, step, err := client.Claim(ctx, sess, claims...)
	if err != nil {
		return nil, parts[step.Claim].Queue, all[step.Claim].refused(claims[step.Claim], step.Does, err)
	}
	token := tokenOf(made)
	for i, w := range all {
		if len(claims[i].Make) > 0 {
			w.queue.missing.Store(0)
		}
		if w.limit.Made != nil {
			w.limit.Made()
		}
		w.made, w.nodes, w.lease, w.token, w.together = made[i], made[i].Nodes, lease, token, all
	}
	return all, nil, nil
}

// claimsOf describes the nodes of all parts. If the request for them would be larger than servers
// accept, it returns an error, before anything is created.
func claimsOf(parts []Part) ([]zkclient.Claim, error) {
	claims := make([]zkclient.Claim, len(parts))
	nodes, size := uint64(0), 0
	for i, p := range parts {
		q := p.Queue
		claims[i] = zkclient.Claim{
			Dir: q.dir, Kind: p.Kind, Nodes: p.Nodes, Data: q.cfg.Data, ACL: q.cfg.ACL,
		}
		if p.Checked != "" {
			claims[i].Check = &zk.CheckVersionRequest{Path: p.Checked}
		}
		nodes, size = nodes+uint64(p.Nodes), size+claims[i].Size()
		if size > zkclient.MaxRequest { // further parts might make more nodes than can be counted
			return nil, fmt.Errorf("%d nodes make a request of over %d bytes, more than a server takes", nodes, zkclient.MaxRequest)
		}
	}
	return claims, nil
}

// refused handles the server's refusal of an act of a claim: it returns errNoNode if another try may
// succeed, or explains the error.
func (w *waiter) refused(claim zkclient.Claim, act zkclient.Act, err error) error {
	q := w.queue
	announced := announced(w.request.Kind)
	var unfound *zkclient.Unfound
	switch right := err == zk.ErrNoAuth; {
	case w.noWriter != nil && (right || err == zk.ErrBadVersion || err == zk.ErrNoNode): // the check is the first operation
		w.noWriter.writers.Miss()
	case errors.As(err, &unfound):
		err = Explain(err, "READ on "+q.dir+", to find and delete a node after a lost reply")
		return fmt.Errorf("%w; the search is repeated as long as the session lives", err)
	case act == zkclient.Makes && err == zk.ErrNoNode: // nor does the parent of the highest exist
		q.missing.Store(int32(len(claim.Make)) + 1)
	case act == zkclient.Makes && err == zk.ErrNodeExists: // another client was first
		q.missing.Store(unread)
	case act == zkclient.Makes:
		return Explain(err, "CREATE on the parents of "+q.dir)
	case err == zk.ErrNoNode:
		w.limit.forget()
		q.missing.Store(1)
	case err == zk.ErrBadVersion, right && act == zkclient.Checks: // the next reading names the missing right
		w.limit.forget()
	case right && act == zkclient.Touches && !announced:
		q.untouchable.Store(true)
	case announced:
		return Explain(err, "CREATE and WRITE on "+q.dir)
	default:
		return Explain(err, "CREATE on "+q.dir)
	}
	return errNoNode
}

// visiblyBusy returns hold.ErrBusy if nodes created now would have to wait.
func (p Part) visiblyBusy(ctx context.Context, sess int64, limit Limit) error {
	q := p.Queue
	nodes, dir, err := q.listAhead(ctx, sess, math.MaxInt64)
	switch {
	case err != nil:
		return err
	case dir == nil:
		q.missing.CompareAndSwap(0, 1)
		q.missing.CompareAndSwap(unread, 1)
		return nil
	}
	if err := q.Saw(ctx, dir); err != nil {
		return err
	}
	if b := q.rule(p.Request, limit).blockers(nodes, znode.Node{Seq: math.MaxInt64}); !b.clear() {
		return hold.ErrBusy
	}
	return nil
}

// list is step 2. It returns nil if the queue must be listed again. First it reads the token, if
// that is unknown, and watches the directory for writers, if readers may share the node.
func (w *waiter) list(ctx context.Context) (*blockers, error) {
	q := w.queue
	if w.lease.Alive() != nil {
		if err := q.client.Refresh(ctx, w.sess); err != nil {
			return nil, err
		}
	}
	if _, err := q.client.Session(ctx); err != nil { // the epoch is of the connection that lists
		return nil, err
	}
	w.own, w.epoch, w.listed = nil, q.client.Epoch(), time.Now()
	if w.token == 0 {
		if err := w.readToken(ctx); err != nil {
			return nil, err
		}
	}
	var writers *zkclient.Watch
	if w.request.shared != nil && q.view.quiet.Load() {
		writers = q.watchWriters(ctx, w.sess)
	}
	var err error
	if w.limit, err = w.request.limit(ctx, w.sess); err != nil {
		return nil, err
	}
	nodes, dir, err := q.listAhead(ctx, w.sess, w.nodes[0].Seq)
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(w.nodes, func(own znode.Node) bool { return !slices.Contains(nodes, own) }) {
		return nil, errNoNode
	}
	if w.request.shared != nil {
		q.view.listed(w, nodes, dir, writers)
	}
	switch {
	case w.limit.Missing > 0: // it was made again
		return nil, nil
	case w.limit.Dir != 0 && dir.Czxid != w.limit.Dir:
		w.limit.forget() // invariant 9
		return nil, nil
	}
	if err := w.nodes[0].Alone(nodes); err != nil {
		return nil, err
	}
	w.line = len(nodes)
	b := q.rule(w.request, w.limit).blockers(nodes, w.nodes[0])
	if b.ahead() > 1 {
		w.marker = true // a waiter behind may have two nodes ahead, too
	}
	return &b, nil
}

// errNoNode means that nothing is queued: the waiter's nodes were not created, or are gone.
var errNoNode = errors.New("its node is gone")

// startsOver reports whether a waiter queues again, at the tail.
func startsOver(err error) bool {
	return errors.Is(err, errNoNode) || errors.Is(err, zkclient.ErrOver)
}

// readToken reads the czxid of the waiter's nodes, if they still belong to its session. The watch
// remains on the connection, where Grant.Exists finds it.
func (w *waiter) readToken(ctx context.Context) error {
	path := w.queue.path(w.nodes[0])
	own, err := w.queue.client.Watch(ctx, w.sess, path)
	switch {
	case err == zk.ErrNoNode, err == nil && own.Stat.EphemeralOwner != w.sess:
		return errNoNode
	case err != nil:
		return Explain(err, "READ on "+path)
	}
	w.queue.readable.Store(true)
	w.token = own.Stat.Czxid
	return nil
}

// canceled is called with the error of a ctx that has ended. It adds what the waiters were waiting
// for, if that is known without a request.
func (all waiters) canceled(ctx context.Context, err error) error {
	for _, w := range all { // waitTurns waits for them in this order
		if ahead := w.ahead.Load(); ahead > 0 { // else its turn has come, or it has not listed
			lock := ""
			if len(all) > 1 {
				lock = znode.Shown(w.queue.cfg.Path) + ": "
			}
			return w.queue.behind(ctx, err, w.request, ahead, lock)
		}
	}
	return err
}

// behind adds to the error of a ctx that has ended how many nodes or callers have to go before the
// caller's turn; 0: unknown.
func (q *Queue) behind(ctx context.Context, err error, r Request, ahead int64, lock string) error {
	err = q.client.ExplainSilence(ctx, err)
	if ahead == 0 || ctx.Err() == nil || !errors.Is(err, ctx.Err()) || errors.Is(err, wire.ErrNoAnswer) {
		return err
	}
	return fmt.Errorf("%w: %s%d ahead in the queue%s", err, lock, ahead, q.mine(r, ahead))
}

// mine says what this connection has to do with the nodes ahead of the request, so that the text
// shows if a program waits for itself. A reader waits only for writers. If this connection has a
// read hold, none of them can hold, so they wait for it.
func (q *Queue) mine(r Request, ahead int64) string {
	rule, since := q.rule(r, Limit{}), time.Now()
	held, reads, undeleted := 0, 0, 0
	for _, holder := range q.client.Holders() {
		g := holder.(*Grant)
		for _, n := range g.held.Load().nodes {
			if g.state.Settle() != nil || n.queue.dir != q.dir || !slices.Contains(q.kinds, n.node.Kind) {
				continue
			}
			switch {
			case rule.waitsFor(n.node):
				held++
			case rule.mode == Read:
				reads++
			}
			if g.since.Before(since) {
				since = g.since
			}
		}
	}
	for _, path := range q.client.Undeleted() {
		if n, ok := znode.Parse(strings.TrimPrefix(path, q.dir+"/"), q.kinds...); ok && rule.waitsFor(n) {
			undeleted++
		}
	}
	lasted := time.Since(since).Round(time.Millisecond)
	switch {
	case held > 0:
		return fmt.Sprintf("; this connection has held %d for %v", held, lasted)
	case reads > 0 && ahead == 1:
		return fmt.Sprintf(", a writer that waits for a read hold of this connection, held for %v", lasted)
	case reads > 0:
		return fmt.Sprintf(", writers that wait for a read hold of this connection, held for %v", lasted)
	case undeleted > 0:
		return fmt.Sprintf("; this connection has released %d that the server refuses to delete", undeleted)
	}
	return "; this connection holds none"
}

// leave deletes the nodes because of err, and returns the error for the caller. It waits for the
// answer, until ctx ends or the session must be considered lost, and adds the error of the deletion
// to err. If ctx has ended, the waiters start over, or the connection is closed, it does not wait,
// and the deletion continues in the background.
func (all waiters) leave(ctx context.Context, err error) error {
	err = all.canceled(ctx, err)
	removals := make([]zkclient.Removal, len(all))
	lease := all[0].lease // all waiters have the same lease
	defer lease.End()
	for i, w := range all {
		removals[i] = zkclient.Removal{Dir: w.queue.dir, Nodes: w.nodes}
	}
	removed := all[0].queue.client.Remove(all[0].sess, removals...)
	switch {
	case startsOver(err), errors.Is(err, zkclient.ErrClosed):
		return err
	case zkclient.Ended(ctx) != nil:
		return leaving(all[0].queue.client, err, removed)
	}
	left, answered := lease.Await(ctx, removed)
	if !answered && ctx.Err() != nil {
		return err
	}
	switch left {
	case nil, zk.ErrNoNode, zkclient.ErrOver, zkclient.ErrClosed:
		return err
	}
	return hold.And(err, fmt.Errorf("leaving the queue: %w", undeleted(left, removals)))
}

// Leaving is the error of a call whose ctx has ended, while its nodes are being deleted.
type Leaving struct {
	error
	Removed <-chan error  // yields, or is closed, when the nodes are deleted
	Timeout time.Duration // of the session
	Silence time.Duration // how long no server had answered when the call returned
}

func leaving(c *zkclient.Client, err error, removed <-chan error) error {
	return &Leaving{err, removed, c.Timeout(), c.Silence()}
}

func (l *Leaving) Unwrap() error { return l.error }

// undeleted explains the server's refusal to delete nodes.
func undeleted(err error, removals []zkclient.Removal) error {
	var dirs []string
	for _, r := range removals {
		dirs = append(dirs, r.Dir)
	}
	err = Explain(err, "DELETE on "+strings.Join(dirs, " and "))
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w; the delete is repeated as long as the session lives", err)
}
