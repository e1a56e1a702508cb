package queue

import (
	"bytes"
	"context"
	"errors"
	"reflect"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/zkclient"
)

// A Front is the first member of a queue whose nodes are all exclusive: the member that holds.
// While its node exists, no other can be first, because numbers only grow. So the watch on that
// node fires at the next change; while the queue is empty, the watch on the directory does.
type Front struct {
	Member  Member // the zero Member: the queue is empty
	Current bool   // see Follow
}

// First returns the first member, and the zero Member if the queue is empty. It asks the quorum
// before it reads, on the same connection, so a server that is behind, or cut off from the others,
// cannot answer with a member that had gone before the call.
func (q *Queue) First(ctx context.Context) (Member, error) {
	if q.err != nil {
		return Member{}, q.err
	}
	for {
		sess, err := q.client.Session(ctx)
		if err != nil {
			return Member{}, err
		}
		epoch := q.client.Epoch()
		m, err := q.firstIn(ctx, sess)
		switch {
		case err == zk.ErrNoNode, errors.Is(err, zkclient.ErrOver):
		case err != nil:
			return Member{}, q.client.ExplainSilence(ctx, err)
		case q.client.Epoch() == epoch: // otherwise another server may have answered the read
			return m, nil
		}
	}
}

// firstIn returns zk.ErrNoNode if the first member has left before it was read.
func (q *Queue) firstIn(ctx context.Context, sess int64) (Member, error) {
	if err := q.client.Barrier(ctx, sess); err != nil {
		return Member{}, err
	}
	nodes, _, err := q.list(ctx, sess)
	if err != nil || len(nodes) == 0 {
		return Member{}, err
	}
	data, stat, err := q.client.Get(ctx, q.path(nodes[0]))
	if err != nil {
		return Member{}, Explain(err, "READ on "+q.path(nodes[0]))
	}
	m := q.member(nodes[0], 1, data, stat)
	m.Holding = true
	return m, nil
}

// Follow calls yield with the first member, and again after each change of the member, of what its
// node contains, and of Current. It returns nil when yield returns false, and otherwise an error.
// If changes follow each other quickly, some may be left out.
//
// Follow has a lease, so the connection sends heartbeats, which go through the quorum. The events
// of all changes before a heartbeat was sent arrive before its answer. So until the deadline of the
// session, which counts from such a heartbeat, the last Front is no older than the session timeout:
// it is current. Follow yields the last Front again, with Current false, in three cases: the
// connection is lost; the deadline passes; or the event of a change has come, and the change was
// not read by the deadline that the session had then. Later heartbeats do not make the last Front
// current again.
func (q *Queue) Follow(ctx context.Context, yield func(Front) bool) error {
	if q.err != nil {
		return q.err
	}
	f := follower{queue: q, yield: yield}
	for !f.stopped {
		if err := f.follow(ctx); err != nil && !errors.Is(err, zkclient.ErrOver) {
			return q.client.ExplainSilence(ctx, err)
		}
		f.tell(Front{Member: f.last.Member})
	}
	return nil
}

// ended reports whether a watch has ended with its connection.
func ended(w *zkclient.Watch) bool {
	if w == nil {
		return false
	}
	event, _ := w.Fired()
	return event.Type == zk.EventNotWatching
}

// A follower is one call of Follow.
type follower struct {
	queue   *Queue
	yield   func(Front) bool
	last    Front     // the last argument of yield; zero before the first call
	until   time.Time // when last stops being current, after a change is known; zero: no change is known
	stopped bool      // yield has returned false
}

// tell calls yield, unless front is equal to the last argument.
func (f *follower) tell(front Front) {
	f.until = time.Time{}
	if !f.stopped && !reflect.DeepEqual(f.last, front) {
		f.last, f.stopped = front, !f.yield(front)
	}
}

// reads calls the function read, with a context that ends when the context known ends, or when the
// last Front may no longer be current. late reports that the context has ended: members may come
// and go faster than they are read, or the server may be overloaded.
func (f *follower) reads(known context.Context, read func(context.Context) error) (late bool, err error) {
	ctx, stop := known, context.CancelFunc(func() {})
	if !f.until.IsZero() {
		ctx, stop = context.WithDeadline(known, f.until)
	}
	defer stop()
	err = read(ctx)
	return ctx.Err() != nil, err
}

// follow follows on one connection. It returns nil or zkclient.ErrOver when the connection is lost
// or the deadline of its lease has passed.
func (f *follower) follow(ctx context.Context) error {
	client := f.queue.client
	sess, err := client.Session(ctx)
	if err != nil {
		return err
	}
	epoch := client.Epoch()
	lease := client.Keep(sess)
	defer lease.End()
	if err := client.Refresh(ctx, sess); err != nil {
		return err
	}
	known, end := context.WithCancelCause(ctx) // ends with the session
	defer end(nil)
	lease.OnLoss(nil, end)
	up := func() bool { return client.Up(sess) && client.Epoch() == epoch && lease.Alive() == nil }
	var m Member
	var watch *zkclient.Watch
	defer func() {
		if watch != nil && m.Path == "" {
			watch.Drop() // a directory that does not exist may never be created
		}
	}()
	for !f.stopped && up() && !ended(watch) {
		late, err := f.reads(known, func(ctx context.Context) (err error) {
			m, watch, err = f.queue.watchFirst(ctx, sess)
			return err
		})
		switch {
		case ctx.Err() != nil:
			return zkclient.Ended(ctx)
		case known.Err() != nil:
			return nil
		case late:
			f.tell(Front{Member: f.last.Member})
			continue
		case err == zk.ErrNoNode: // it has left since the listing
			continue
		case err != nil:
			return err
		case !up():
			return nil
		case fired(watch):
			continue
		}
		until := lease.Deadline()
		f.tell(Front{Member: m, Current: true})
		if fired(watch) { // and yield may have taken long
			f.until = until
		} else if !f.stopped {
			if err := f.wait(known, sess, lease, watch); err != nil && known.Err() == nil {
				return err
			}
		}
	}
	return nil
}

// wait waits for the next change, until ctx ends, and sets until. While the client may not read the
// member's node, or the directory of an empty queue, the server withholds the event. So wait also
// reads the node or the directory, after FirstRecheck, twice that, and so on.
func (f *follower) wait(ctx context.Context, sess int64, lease *zkclient.Lease, watch *zkclient.Watch) error {
	for event := new(doubt); ; {
		rung := event.wait(ctx, watch)
		f.until = lease.Deadline()
		if rung || ctx.Err() != nil {
			return nil
		}
		same := false
		late, err := f.reads(ctx, func(ctx context.Context) (err error) {
			same, err = f.queue.isFirst(ctx, sess, f.last.Member.Path, watch)
			return err
		})
		switch {
		case fired(watch):
			return nil
		case late: // the server is overloaded; according to the heartbeats no event is under way
		case !same || err != nil:
			watch.Miss()
			return err
		}
	}
}

// isFirst reports whether the node is as it was when the watch was set; if path is "", whether the
// queue is empty and no child has come since.
func (q *Queue) isFirst(ctx context.Context, sess int64, path string, watch *zkclient.Watch) (bool, error) {
	if path == "" {
		nodes, dir, err := q.list(ctx, sess)
		return err == nil && len(nodes) == 0 && pzxid(dir) == pzxid(watch.Stat), err
	}
	_, stat, err := q.client.Get(ctx, path)
	if err == zk.ErrNoNode {
		return false, nil
	}
	return err == nil && stat.Mzxid == watch.Stat.Mzxid, Explain(err, "READ on "+path)
}

// pzxid returns when a child last came or went; 0 for a directory that does not exist.
func pzxid(dir *zk.Stat) int64 {
	if dir == nil {
		return 0
	}
	return dir.Pzxid
}

// watchFirst reads the first member, and watches for the next change. It returns zk.ErrNoNode if
// the member has left before it was read, or a child has come or gone since the watch was set.
func (q *Queue) watchFirst(ctx context.Context, sess int64) (Member, *zkclient.Watch, error) {
	nodes, _, err := q.list(ctx, sess)
	if err != nil {
		return Member{}, nil, err
	}
	if len(nodes) == 0 {
		empty, err := q.client.WatchChildren(ctx, sess, q.dir)
		if err != nil {
			return Member{}, nil, Explain(err, "READ on "+q.dir)
		}
		same, err := q.isFirst(ctx, sess, "", empty) // a member may have come before the watch was set
		if same || err != nil {
			return Member{}, empty, err
		}
		empty.Miss()
		return Member{}, nil, zk.ErrNoNode
	}
	watch, err := q.client.Watch(ctx, sess, q.path(nodes[0]))
	if err != nil {
		return Member{}, nil, Explain(err, "READ on "+q.path(nodes[0]))
	}
	m := q.member(nodes[0], 1, bytes.Clone(watch.Data), watch.Stat) // others use the watch, too
	m.Holding = true
	return m, watch, nil
}
