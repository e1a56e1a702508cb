// Package hold is the state of a grant and of the holds on it. A grant begins held and ends exactly
// once, released or lost, and so does each hold on it. The package does no I/O: the Grant decides
// whether the lock is lost.
package hold

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/go-multierror"
)

// Sentinels of every lock type, for errors.Is.
var (
	// ErrBusy is returned by the Try methods when the lock is held or waited for.
	ErrBusy = errors.New("busy")
	// ErrLost means that the hold ended without being released.
	ErrLost = errors.New("lock lost")
	// ErrReleased means that the hold has been released.
	ErrReleased = errors.New("lock already released")
)

// And returns err together with the error of the clean-up after it.
func And(err, cleanup error) error {
	return &multierror.Error{
		Errors:      []error{err, cleanup},
		ErrorFormat: func(both []error) string { return fmt.Sprintf("%v; and %v", both[0], both[1]) },
	}
}

// NeedContext panics if ctx is nil, which is a bug in the caller. Each method that takes a context
// calls NeedContext before it changes anything: a panic in the middle of a Release would leave the
// node behind, with no goroutine that deletes it.
func NeedContext(ctx context.Context) {
	if ctx == nil {
		panic("zklocks: the context is nil")
	}
}

// A Backing is what a State needs of its grant.
type Backing interface {
	// Alive returns why the lock must be considered lost, or nil. It must be quick, and must not
	// call the State.
	Alive() error
	// Named adds the name of the lock to the error of a loss.
	Named(loss error) error
	// CleanUp is called once, when all holders have been notified. If the grant was lost, CleanUp
	// begins to delete its nodes, and so lets the next holder in.
	CleanUp(end error)
}

// State is the state of one grant. Its methods may be called from any goroutine. They lock no mutex
// until a hold has a channel of Lost, a context or another hook.
type State struct {
	Grant Backing // set before the first use
	// end is nil while held; then ErrReleased, or an error that matches ErrLost. It is set once.
	end atomic.Pointer[error]
	// listeners is nil until a hold has a channel of Lost or a hook.
	listeners atomic.Pointer[listeners]
}

// listeners are the holds to notify of the end of their grant.
type listeners struct {
	telling sync.Mutex // tier 2; held while holds are notified. A hook may take that of another grant

	mu    sync.Mutex // tier 3; guards holds, Hold.lost and Hold.hooks
	holds map[*Hold]struct{}
}

// Settle returns nil while the grant lives, and then what ended it. It ends a grant that must be
// considered lost: in a process that was paused for too long, Settle detects the loss before any
// timer fires.
func (s *State) Settle() error {
	if end := s.end.Load(); end != nil {
		return *end
	}
	if why := s.Grant.Alive(); why != nil {
		s.Lose(why)
		return *s.end.Load()
	}
	return nil
}

// Lose ends the grant as lost, with why in the error, unless it has ended already. When it returns,
// all holders have been notified, also if another goroutine has ended the grant.
func (s *State) Lose(why error) {
	if !errors.Is(why, ErrLost) {
		why = s.Grant.Named(fmt.Errorf("%w: %w", ErrLost, why))
	}
	s.ends(&why)
}

// Release ends the grant as released. If it has ended already, Release returns what ended it.
func (s *State) Release() error {
	if s.Settle() == nil && s.ends(&released) {
		return nil
	}
	return *s.end.Load()
}

// released is a variable because end points to it.
var released = ErrReleased

// ends ends the grant, and reports whether it had not ended before.
func (s *State) ends(end *error) bool {
	first := s.end.CompareAndSwap(nil, end)
	s.tell()
	if first {
		s.Grant.CleanUp(*end)
	}
	return first
}

// tell notifies the holds of the end of the grant. It misses no hold that gets a hook at the same
// time: listen locks mu and then checks end, so either listen sees the end or tell sees the hold.
func (s *State) tell() {
	all := s.listeners.Load()
	if all == nil {
		return
	}
	all.telling.Lock()
	defer all.telling.Unlock()
	all.mu.Lock()
	holds := all.holds
	all.holds = nil
	all.mu.Unlock()
	for h := range holds {
		h.tell(all)
	}
}

// Hold is the state of one hold. A grant may have several holds. A hold ends once: when it is
// released, or else with the grant. Its methods may be called from any goroutine.
type Hold struct {
	State *State // of its grant; set before the first use
	// end is nil while held; then ErrReleased, or the end of the grant, once a call has checked the
	// grant. It is set once.
	end       atomic.Pointer[error]
	late      atomic.Bool // Release was called after a loss
	listening atomic.Bool // lost or hooks may be set; written under the listeners' mu

	lost  chan struct{}             // nil before the first Lost, and once it is closed; guarded by the listeners' mu
	hooks map[*func(error)]struct{} // of OnEnd; guarded by the listeners' mu
}

// Settle returns nil while the hold lives, and then what ended it. It settles the grant first.
func (h *Hold) Settle() error {
	if end := h.end.Load(); end != nil {
		return *end
	}
	if h.State.Settle() != nil {
		return *h.ended()
	}
	return nil
}

// ended returns what has ended the hold; nil if it lives. Unlike Settle it does not call
// Grant.Alive.
func (h *Hold) ended() *error {
	if end := h.State.end.Load(); end != nil {
		h.end.CompareAndSwap(nil, end)
	}
	return h.end.Load()
}

// Release ends the hold as released. If the grant was lost before, Release returns an error that
// matches ErrLost. From the second call on it returns ErrReleased. When it returns, the contexts of
// the hold have ended, also if another goroutine has ended it.
//
// ctx may be one of these contexts: defer h.Release(ctx) after ctx = h.Context(ctx) is common. So
// Release also returns limit, the context that bounds the caller's wait for the server. That is
// ctx, unless Release has ended ctx: then it is the parent of the hold's context, with the deadline
// of ctx. The caller must call stop when it is done.
func (h *Hold) Release(ctx context.Context) (limit context.Context, stop context.CancelFunc, err error) {
	NeedContext(ctx)
	ended := ctx.Err() != nil // before the release: then ctx is the limit
	first := h.Settle() == nil && h.end.CompareAndSwap(nil, &released)
	if h.listening.Load() {
		all := h.State.listeners.Load()
		all.telling.Lock()
		h.tell(all)
		all.telling.Unlock()
	}
	switch end := h.end.Load(); {
	case first:
	case end == &released, h.late.Swap(true):
		err = ErrReleased
	default:
		err = *end
	}
	// If ctx still lives, it is not derived from a context of the hold, or only by
	// context.WithoutCancel. Contexts are not compared, because a type without equality panics.
	limit, stop = ctx, func() {}
	replaced := false
	for !ended && limit.Err() != nil {
		parent, ok := limit.Value(parentKey{h}).(context.Context)
		if !ok {
			break
		}
		limit, replaced = parent, true
	}
	if at, ok := ctx.Deadline(); ok && replaced {
		limit, stop = context.WithDeadline(limit, at)
	}
	return limit, stop, err
}

// tell closes lost and calls the hooks; caller holds telling.
func (h *Hold) tell(all *listeners) {
	all.mu.Lock()
	end, hooks := h.ended(), h.hooks
	if h.lost != nil && end != &released {
		close(h.lost)
	}
	h.lost, h.hooks = nil, nil
	delete(all.holds, h)
	all.mu.Unlock() // hooks may add and remove other hooks
	for hook := range hooks {
		(*hook)(*end)
	}
}

// listen locks the listeners and returns them. If the hold lives, it is one of them.
func (h *Hold) listen() *listeners {
	all := h.State.listeners.Load()
	if all == nil {
		h.State.listeners.CompareAndSwap(nil, &listeners{holds: make(map[*Hold]struct{})})
		all = h.State.listeners.Load()
	}
	all.mu.Lock()
	h.listening.Store(true)
	if h.ended() == nil {
		all.holds[h] = struct{}{}
	}
	return all
}

// Lost returns a channel that is closed when the hold is lost. It stays open when the hold is
// released.
func (h *Hold) Lost() <-chan struct{} {
	_ = h.Settle()
	all := h.listen()
	defer all.mu.Unlock()
	if end := h.ended(); end != nil {
		lost := make(chan struct{})
		if end != &released {
			close(lost)
		}
		return lost
	}
	if h.lost == nil {
		h.lost = make(chan struct{})
	}
	return h.lost
}

// OnEnd registers a hook, which is called once, with the error that ended the hold. The hook must
// not block, because the clean-up of a lost grant waits for it. If the hold has ended, OnEnd calls
// the hook at once. forget removes the hook. OnEnd calls no other hook: the caller may hold a mutex
// that another hook locks.
func (h *Hold) OnEnd(hook func(error)) (forget func()) {
	all := h.listen()
	if end := h.ended(); end != nil {
		all.mu.Unlock()
		hook(*end)
		return func() {}
	}
	defer all.mu.Unlock()
	if h.hooks == nil {
		h.hooks = make(map[*func(error)]struct{})
	}
	key := &hook
	h.hooks[key] = struct{}{}
	return func() {
		all.mu.Lock()
		defer all.mu.Unlock()
		delete(h.hooks, key)
	}
}
