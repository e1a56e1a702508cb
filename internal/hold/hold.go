package hold

import "sync/atomic"

// Hold is the state of one hold on a grant, of several or the only one. It ends once: when it is
// released, or else with the grant. Its methods may be called from any goroutine.
type Hold struct {
	state *State
	// end is nil while held; then ErrReleased, or the end of the grant, from the first call on that
	// has checked the grant. It is set once.
	end       atomic.Pointer[error]
	unlocked  atomic.Bool // Release was called after a loss
	listening atomic.Bool // lost or hooks may be set; it is set under the listeners' mu

	// The listeners' mu guards what follows.
	lost  chan struct{}             // nil until Lost is first called, and when it is closed
	hooks map[*func(error)]struct{} // see OnEnd
}

// Begin begins a hold on the grant of s.
func (h *Hold) Begin(s *State) { h.state = s }

// Look returns nil while the hold lives, and then what ended it. It checks the grant first.
func (h *Hold) Look() error {
	if end := h.end.Load(); end != nil {
		return *end
	}
	if h.state.Look() != nil {
		return *h.ended()
	}
	return nil
}

// ended returns what has ended the hold, nil if it lives. Unlike Look it does not ask whether the
// grant must be considered lost.
func (h *Hold) ended() *error {
	if end := h.state.end.Load(); end != nil {
		h.end.CompareAndSwap(nil, end)
	}
	return h.end.Load()
}

// Release ends the hold as released. If the grant was lost before, Release returns an error that
// matches ErrLost. From the second call on it returns ErrReleased. When it returns, the contexts of
// the hold have ended, also if another goroutine has ended it.
func (h *Hold) Release() error {
	first := h.Look() == nil && h.end.CompareAndSwap(nil, &released)
	if h.listening.Load() {
		all := h.state.listeners.Load()
		all.telling.Lock()
		h.tell(all)
		all.telling.Unlock()
	}
	switch end := h.end.Load(); {
	case first:
		return nil
	case end == &released, h.unlocked.Swap(true):
		return ErrReleased
	default:
		return *end
	}
}

// tell notifies of the end of the hold; caller holds telling.
func (h *Hold) tell(all *listeners) {
	all.mu.Lock()
	end, hooks := h.ended(), h.hooks
	if h.lost != nil && end != &released {
		close(h.lost)
	}
	h.lost, h.hooks = nil, nil
	delete(all.holds, h)
	all.mu.Unlock() // because hooks may add and remove other hooks
	for hook := range hooks {
		(*hook)(*end)
	}
}

// listen returns the listeners, locked. If the hold lives, it is one of them.
func (h *Hold) listen() *listeners {
	all := h.state.listen()
	h.listening.Store(true)
	if h.ended() == nil {
		all.holds[h] = struct{}{}
	}
	return all
}

// Lost returns a channel that is closed when the hold is lost. It stays open when the hold is
// released.
func (h *Hold) Lost() <-chan struct{} {
	_ = h.Look()
	all := h.listen()
	defer all.mu.Unlock()
	if end := h.ended(); end != nil && end != &released {
		return closed
	}
	if h.lost == nil {
		h.lost = make(chan struct{})
	}
	return h.lost
}

var closed = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// OnEnd registers a hook, which is called once, with the error that ended the hold. The hook must
// not block: the clean-up of a lost grant waits for it. If the hold has ended, OnEnd calls the hook
// at once. forget removes the hook. OnEnd calls no other hook: the caller may hold a mutex that
// another hook locks.
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
