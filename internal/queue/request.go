package queue

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/wire"
	"github.com/zklocks/zklocks/internal/zkclient"
)

// A client asks a member of a queue to release the lock: it writes a word into the first of the
// member's nodes. The member's holder watches the node, reads the word, and decides for itself; a
// waiter reads the word once it holds. A request grants and ends nothing.
//
// The word is LockInternals.REVOKE_MESSAGE of Curator, whose Revoker writes it into the same node:
// so each library can ask members of the other. Curator's holders compare all of the data with the
// word, so in a node that may be Curator's the word replaces the data. In a node of this library
// the data follow the word on the next lines, so that Queue still shows which process has created
// it.

// RequestRelease asks the member at path, whose first node has this token as its czxid. It returns
// zk.ErrNoNode if the node is gone.
func RequestRelease(ctx context.Context, conn *wire.Conn, path string, token int64) error {
	client := zkclient.Of(conn)
	for {
		sess, err := client.CatchUp(ctx) // the server may be behind
		if err != nil {
			return err
		}
		data, stat, err := client.Get(ctx, path)
		switch {
		case !client.In(sess) && zkclient.Ended(ctx) == nil: // another server may have answered
			continue
		case err != nil:
			return Explain(err, "READ on "+path)
		case stat.Czxid != token:
			return fmt.Errorf("%w: another one has its name", zk.ErrNoNode)
		case isReleaseRequest(data):
			return nil
		}
		// Each write wakes the waiters behind. Because of the version only one write takes place,
		// also if several clients ask at the same time, or an answer is lost and the write is
		// repeated.
		if err := client.Set(ctx, path, requestFor(path, data), stat.Version); err != zk.ErrBadVersion {
			return Explain(err, "WRITE on "+path)
		}
	}
}

// requests has a request for each queue of a grant. Another request, with the key nil, is for holds
// on several locks, because they can be released only as a whole: it is made when any of the other
// requests is made.
type requests map[*Queue]request

// A request is a context that is canceled when a client makes the request.
type request struct {
	context.Context
	tell context.CancelFunc
}

// ReleaseRequested returns a channel that is closed when the first of the hold's nodes, in any of
// its queues, contains a request. On the first call goroutines begin to read and watch the nodes of
// the grant. All holds on the same nodes have the same channel. After the end of the hold the
// channel has no meaning.
func (h *Hold) ReleaseRequested() <-chan struct{} {
	if h.requests.Load() == nil {
		nodes := h.held.Load().first()
		all := requests{nil: {}}
		for _, n := range h.granted.first() {
			all[n.queue] = request{}
		}
		for q, r := range all {
			r.Context, r.tell = context.WithCancel(context.Background())
			all[q] = r
		}
		if h.requests.CompareAndSwap(nil, &all) {
			for _, n := range nodes {
				go h.watchRequest(n)
			}
		}
	}
	return (*h.requests.Load())[h.in].Done()
}

// requested notifies the holds of a request to the node in a queue.
func (g *Grant) requested(q *Queue) {
	all := *g.requests.Load()
	all[q].tell()
	all[nil].tell()
}

// isRequested reports whether a holder was notified of a request to any of the nodes.
func (g *Grant) isRequested() bool {
	all := g.requests.Load()
	return all != nil && (*all)[nil].Err() != nil
}

// watchRequest reads the node, and again after each write into it, until it contains a request or
// is gone. It also reads the node without an event, after FirstRecheck, twice that, and so on.
func (g *Grant) watchRequest(n nodeRef) {
	ctx, stop := g.living(context.Background())
	defer stop()
	for event := new(doubt); ; {
		var data []byte
		w, err := g.client.Watch(ctx, g.sess, n.path())
		switch {
		case err == nil && isReleaseRequest(w.Data):
			data = w.Data
		case err != nil && err != zk.ErrNoAuth: // below
		case event.wait(ctx, w):
		default: // the server may have withheld the event, for lack of READ
			data, _, err = g.client.Get(ctx, n.path())
		}
		switch {
		case isReleaseRequest(data):
			g.requested(n.queue)
			return
		case err != nil && err != zk.ErrNoAuth:
			return // the node, its session, the connection or the grant is gone
		}
	}
}

// Write replaces the data of the first node, in a transaction that takes place only while the hold
// lives and the data are still what Write has read. If these contain a request, Write closes the
// channel of ReleaseRequested first.
func (h *Hold) Write(ctx context.Context, data []byte) error {
	if isReleaseRequest(data) {
		return fmt.Errorf("%q is what asks a holder to release the lock", data)
	}
	for {
		path := h.Guard()[0].Path
		if err := h.Err(); err != nil {
			return err
		}
		old, stat, err := h.client.Get(ctx, path)
		switch {
		case err == zk.ErrNoNode:
			if err := h.verify(ctx); err != nil {
				return err
			}
			continue
		case err != nil:
			return h.endOr(Explain(err, "READ on "+path))
		case isReleaseRequest(old):
			h.ReleaseRequested()
			h.requested(h.in)
		}
		_, err = h.multi(ctx, []any{&zk.SetDataRequest{Path: path, Data: data, Version: stat.Version}})
		switch {
		case errors.Is(err, zk.ErrBadVersion):
		case errors.Is(err, zk.ErrNoAuth):
			return Explain(err, "WRITE on "+path)
		default:
			return err
		}
	}
}
