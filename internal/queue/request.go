package queue

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/wire"
	"github.com/zklocks/zklocks/internal/zkclient"
)

// A client asks a member of a queue to release the lock by a write into the first of the member's
// nodes: the data become a word. The member's holder watches the node, reads the word, and decides
// for itself. Nothing else in a queue reads the data, so a request grants and ends nothing. A
// member that still waits is asked, too: its holder reads the word once it holds.
//
// The word and the place are those of Curator's Revoker, LockInternals.REVOKE_MESSAGE, so each side
// can ask the other. Curator's holders compare the whole data with the word. A node of ours keeps
// what it contained, in the lines behind the word, so that Queue still shows whose node it is.

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
		// In the version that was read, so that clients which ask at the same time, and one that
		// repeats a write whose answer was lost, write once: each write wakes the waiters behind.
		if err := client.Set(ctx, path, requestFor(path, data), stat.Version); err != zk.ErrBadVersion {
			return Explain(err, "WRITE on "+path)
		}
	}
}

// A request is a context that ends when a client asks for the release of a grant.
type request struct {
	context.Context
	tell context.CancelFunc
}

// ReleaseRequested returns a channel that is closed when the first of a grant's nodes contains a
// request; the first in any of its queues, if it has several. The first call has the nodes read and
// watched, off the caller's path. All holds on the grant have the same channel. After the end of
// the hold it has no meaning.
func (g *Grant) ReleaseRequested() <-chan struct{} {
	if g.request.Load() == nil {
		var r request
		r.Context, r.tell = context.WithCancel(context.Background())
		nodes := g.held.Load().first()
		if g.request.CompareAndSwap(nil, &r) {
			for _, n := range nodes {
				go g.watchRequest(n)
			}
		}
	}
	return g.request.Load().Done()
}

// watchRequest reads the node, and again after each write into it, until it contains a request or
// is gone. What the holder writes itself, in a downgrade, is not a request.
func (g *Grant) watchRequest(n nodeRef) {
	parent, cancel := context.WithCancel(context.Background())
	defer cancel() // or the hold would keep ctx
	ctx := g.self.Context(parent)
	for ctx.Err() == nil {
		w, err := g.client.Watch(ctx, g.sess, n.path())
		switch {
		case err != nil:
			return // the node, its session, the connection or the grant is gone
		case isReleaseRequest(w.Data):
			g.request.Load().tell()
			return
		}
		wire.Wait(ctx, nil, w)
	}
}

// Write replaces what the first of the nodes contains, in a transaction that takes place only while
// the hold lives. A request that is overwritten has been told: the node is written in the version
// that was read.
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
			h.request.Load().tell()
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
