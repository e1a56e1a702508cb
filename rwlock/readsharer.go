package rwlock

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/zklocks/zklocks/internal/queue"
	"github.com/zklocks/zklocks/internal/zkclient"
	"github.com/zklocks/zklocks/internal/znode"
)

// readSharer lets the readers of one RWMutex value share a node while no writer is known to be
// queued behind it.
type readSharer struct {
	queue *queue.Queue
	kind  znode.Kind
	alone bool // each reader creates its own node

	// current is the grant to join; it may have ended.
	current atomic.Pointer[sharedGrant]

	mu      sync.Mutex
	pending *pendingRead // an acquire under way that new readers may share, or nil; guarded by mu
}

// pendingRead is an acquire for several readers.
type pendingRead struct {
	sharing *queue.NodeSharing
	async   *queue.Async
	waiting int // readers that wait for it; guarded by readSharer.mu

	done   chan struct{} // closed when the acquire has ended: shared or err is set, unless no reader waits any more
	shared *sharedGrant
	err    error
}

func (r *readSharer) request() queue.Request {
	q := queue.Request{Kind: r.kind, Nodes: 1}
	if !r.alone {
		q.Sharing = r.queue.NewSharing()
	}
	return q
}

// lock joins the current grant, or waits with other readers for a new one.
func (r *readSharer) lock(ctx context.Context) (*sharedGrant, error) {
	if err := zkclient.Ended(ctx); err != nil {
		return nil, err
	}
	if r.alone {
		return r.own(r.queue.Acquire(ctx, r.request(), true))
	}
	if g := r.join(ctx); g != nil {
		return g, nil
	}
	r.ensureWatch(ctx)
	p := r.wait()
	select {
	case <-p.done:
	case <-ctx.Done():
		err := p.async.Canceled(ctx)
		if r.quit(p) {
			err = p.async.Leaving(err)
		}
		return nil, err
	}
	if p.err != nil {
		return nil, p.err
	}
	if err := zkclient.Ended(ctx); err != nil {
		_ = p.shared.leave(ctx)
		return nil, err
	}
	return p.shared, nil
}

// try joins the current grant, or acquires the lock if it is free.
func (r *readSharer) try(ctx context.Context) (*sharedGrant, error) {
	if err := zkclient.Ended(ctx); err != nil {
		return nil, err
	}
	if r.alone {
		return r.own(r.queue.Acquire(ctx, r.request(), false))
	}
	if g := r.join(ctx); g != nil {
		return g, nil
	}
	request := r.request()
	grant, err := r.queue.Acquire(ctx, request, false)
	if err != nil {
		return nil, err
	}
	return r.open(grant, request.Sharing, 1), nil
}

// own returns a grant that no other reader may join.
func (r *readSharer) own(grant *queue.Grant, err error) (*sharedGrant, error) {
	if err != nil {
		return nil, err
	}
	return newSharedGrant(grant, nil, 1), nil
}

// join joins the current grant. It usually sends no request and locks no mutex.
func (r *readSharer) join(ctx context.Context) *sharedGrant {
	if g := r.current.Load(); g != nil && g.join(ctx) {
		return g
	}
	return nil
}

// ensureWatch makes the acquire under way detect writers, so that more readers may share it.
func (r *readSharer) ensureWatch(ctx context.Context) {
	r.mu.Lock()
	p := r.pending
	r.mu.Unlock()
	if p != nil {
		p.sharing.EnsureWatch(ctx)
	}
}

// wait adds the caller to a pending acquire. The acquire runs on a goroutine of its own, because
// the reader that started it may stop waiting before the others.
func (r *readSharer) wait() *pendingRead {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p := r.pending; p != nil && p.sharing.CanJoin() {
		p.waiting++
		return p
	}
	request := r.request()
	p := &pendingRead{sharing: request.Sharing, waiting: 1, done: make(chan struct{})}
	p.async = r.queue.AcquireAsync(request, func(grant *queue.Grant, err error) { r.deliver(p, grant, err) })
	r.pending = p
	return p
}

func (r *readSharer) deliver(p *pendingRead, grant *queue.Grant, err error) {
	r.mu.Lock()
	if r.pending == p {
		r.pending = nil
	}
	p.err = err
	if err == nil && p.waiting > 0 {
		p.shared = r.open(grant, p.sharing, p.waiting)
	}
	close(p.done)
	r.mu.Unlock()
	if err == nil && p.shared == nil {
		_ = grant.Release(queue.NoWait)
	}
}

// quit is called by a reader that stops waiting. It reports whether no reader waits any more.
func (r *readSharer) quit(p *pendingRead) (last bool) {
	r.mu.Lock()
	select {
	case <-p.done:
		r.mu.Unlock()
		if p.shared != nil {
			_ = p.shared.leave(queue.NoWait)
		}
		return false
	default:
	}
	defer r.mu.Unlock()
	if p.waiting--; p.waiting == 0 {
		p.async.GiveUp()
		if r.pending == p {
			r.pending = nil
		}
	}
	return p.waiting == 0
}

// open makes a grant the current grant. Readers no longer join the previous grant, which its last
// reader releases.
func (r *readSharer) open(grant *queue.Grant, sharing *queue.NodeSharing, readers int) *sharedGrant {
	g := newSharedGrant(grant, sharing, readers)
	r.current.Store(g)
	return g
}
