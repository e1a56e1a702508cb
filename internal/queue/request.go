package queue

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/hold"
	"github.com/zklocks/zklocks/internal/wire"
	"github.com/zklocks/zklocks/internal/zkclient"
	"github.com/zklocks/zklocks/internal/znode"
)

// A client asks a member of a queue to release the lock by a write into the first of the member's
// nodes: the data become a word. The member's holder watches the node, reads the word, and decides
// for itself. Nothing else in a queue reads the data, so a request grants and ends nothing. A
// member that still waits is asked, too: its holder reads the word once it holds.
//
// The word and the place are those of Curator's Revoker, LockInternals.REVOKE_MESSAGE, so each side
// can ask the other. Curator's holders compare the whole data with the word. A node of ours keeps
// what it contained, in the lines behind the word, so that Queue still shows whose node it is.

// releaseRequest is the data of a node whose member is asked to release the lock, or their first
// line.
const releaseRequest = "__REVOKE__"

func isReleaseRequest(data []byte) bool {
	rest, ok := bytes.CutPrefix(data, []byte(releaseRequest))
	return ok && (len(rest) == 0 || rest[0] == '\n')
}

// withoutRequest returns what a node contained before a request was written into it.
func withoutRequest(data []byte) []byte {
	if !isReleaseRequest(data) {
		return data
	}
	return bytes.TrimPrefix(data[len(releaseRequest):], []byte("\n"))
}

// requestFor returns the request to write into the node at path, which contains data. A node that
// may be Curator's gets the word alone: only ours have these kinds or our identity.
func requestFor(path string, data []byte) []byte {
	_, ours := znode.Parse(path[strings.LastIndexByte(path, '/')+1:], znode.Read, znode.Write, znode.Permit)
	if _, pid := identify(data); len(data) > 0 && (ours || pid != 0) {
		return slices.Concat([]byte(releaseRequest), []byte("\n"), data)
	}
	return []byte(releaseRequest)
}

// RequestRelease asks the member at path, whose first node has this token as its czxid. It returns
// zk.ErrNoNode if the node is gone.
func RequestRelease(ctx context.Context, conn *wire.Conn, path string, token int64) error {
	client := zkclient.Of(conn)
	for caughtUp := int64(0); ; { // the session
		data, stat, err := client.Get(ctx, path)
		asks := err == nil && stat.Czxid == token && !isReleaseRequest(data)
		if !asks && !client.In(caughtUp) && zkclient.Ended(ctx) == nil { // the server may be behind
			if caughtUp, err = client.CatchUp(ctx); err != nil {
				return err
			}
			continue
		}
		switch {
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

// ReleaseRequested returns a channel that is closed when the first of the nodes contains a request.
// The first call has the node read and watched, off the caller's path. All holds on the grant have
// the same channel. It tells nothing after the end of the grant.
func (g *Grant) ReleaseRequested() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.requested == nil {
		g.requested = make(chan struct{})
		go g.watchRequest(g.nodes[0])
	}
	return g.requested
}

// watchRequest reads the node, and again after each write into it, until it contains a request or
// is gone. What the holder writes itself, in a downgrade, is not a request.
func (g *Grant) watchRequest(n znode.Node) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	defer g.state.OnEnd(hold.CleanUp, func(error) { cancel() })()
	for ctx.Err() == nil {
		w, err := g.queue.client.Watch(ctx, g.sess, g.queue.path(n))
		switch {
		case err != nil:
			return // the node, its session, the connection or the grant is gone
		case isReleaseRequest(w.Data):
			g.tellRequested()
			return
		}
		wire.Wait(ctx, nil, w)
	}
}

// tellRequested closes the channel, unless a request to the node that a downgrade has replaced has
// closed it.
func (g *Grant) tellRequested() {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-g.requested:
	default:
		close(g.requested)
	}
}

// Write replaces what the first of the nodes contains, in a transaction that takes place only while
// the grant lives. A request that is overwritten has been told: the node is written in the version
// that was read.
func (g *Grant) Write(ctx context.Context, data []byte) error {
	if isReleaseRequest(data) {
		return fmt.Errorf("%q is what asks a holder to release the lock", data)
	}
	for {
		path := g.Guard()[0].Path
		if err := g.Err(); err != nil {
			return err
		}
		old, stat, err := g.queue.client.Get(ctx, path)
		switch {
		case err == zk.ErrNoNode:
			if err := (grants{g}).verify(ctx, g.Err); err != nil {
				return err
			}
			continue
		case err != nil:
			return endOr(g.Err, Explain(err, "READ on "+path))
		case isReleaseRequest(old):
			g.ReleaseRequested()
			g.tellRequested()
		}
		_, err = grants{g}.multi(ctx, g.Err, []any{&zk.SetDataRequest{Path: path, Data: data, Version: stat.Version}})
		switch {
		case errors.Is(err, zk.ErrBadVersion):
		case errors.Is(err, zk.ErrNoAuth):
			return Explain(err, "WRITE on "+path)
		default:
			return err
		}
	}
}

// ReleaseRequested returns a channel that is closed when one of the grants is asked: the hold can
// only be released as a whole.
func (j *Joint) ReleaseRequested() <-chan struct{} { return j.listen() }

func (j *Joint) requests() <-chan struct{} {
	asked, over := make(chan struct{}), make(chan struct{})
	tell := sync.OnceFunc(func() { close(asked) })
	j.state.OnEnd(hold.CleanUp, func(error) { close(over) })
	for _, g := range j.grants {
		go func() {
			select {
			case <-g.ReleaseRequested():
				tell()
			case <-over:
			}
		}()
	}
	return asked
}
