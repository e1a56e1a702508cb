// Package hold is the state of one hold: it begins held and ends exactly once, released or lost. It
// does no I/O: a function given to Begin decides whether the lock is lost.
package hold

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
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

// IsEnd reports whether err is the end of a hold.
func IsEnd(err error) bool { return errors.Is(err, ErrLost) || errors.Is(err, ErrReleased) }

// State is the state of one hold, from its grant to its end. Its methods may be called from any
// goroutine. Until the first listener is added it locks no mutex.
type State struct {
	look func() error      // returns why the lock must be considered lost, or nil
	name func(error) error // see Begin

	// end is nil while held; then ErrReleased, or an error that matches ErrLost. It is set once.
	end atomic.Pointer[error]
	// unlocked means that Release was called after a loss.
	unlocked atomic.Bool
	// tied means that the end of another state ends this one, see EndWith.
	tied atomic.Bool
	// listeners is nil until the first one is added.
	listeners atomic.Pointer[listeners]
}

// Phase is when a hook is called. The order is fixed: the state is marked as ended, then the
// holders' hooks run, then the deletion of the nodes begins, then the observers' hooks run. So
// Lost is closed before this process begins to let the next one in.
type Phase int

const (
	// Holders is the first phase: Lost is closed and contexts end. A hook of this phase must be
	// short and must not block.
	Holders Phase = iota
	// CleanUp gives up what the hold has: leases, watches and, if it was lost, its nodes, whose
	// deletion it begins.
	CleanUp
	// Observers is the last phase.
	Observers
	phases
)

// listeners are the hooks that run when the hold ends. Lock order: telling, mu.
type listeners struct {
	// telling is held while the hooks of phase Holders run.
	telling sync.Mutex

	mu    sync.Mutex
	lost  chan struct{} // nil until Lost is first called
	told  bool          // lost is closed
	hooks [phases]map[*func(error)]struct{}
}

// Begin begins a hold. The methods call look to check the hold; look must be quick and must not
// call the State. name adds what was held to the error of a loss; nil: the error has it.
func (s *State) Begin(look func() error, name func(error) error) { s.look, s.name = look, name }

// Look returns nil while the hold lives, and then what ended it. In a process that was stopped for
// longer than its session lives, Look detects the loss.
func (s *State) Look() error {
	if end := s.end.Load(); end != nil {
		return *end
	}
	if why := s.look(); why != nil {
		s.Lose(why)
		return *s.end.Load()
	}
	return nil
}

// Lose ends the hold as lost, with why in the error. It reports whether this call has ended it.
func (s *State) Lose(why error) bool {
	if !errors.Is(why, ErrLost) {
		why = fmt.Errorf("%w: %w", ErrLost, why)
		if s.name != nil {
			why = s.name(why)
		}
	}
	return s.ends(&why)
}

// Release ends the hold as released. If the hold was lost before, it returns an error that matches
// ErrLost. From the second call on it returns ErrReleased.
func (s *State) Release() error {
	if s.Look() == nil && s.ends(&released) {
		return nil
	}
	if s.end.Load() == &released || s.unlocked.Swap(true) {
		return ErrReleased
	}
	return *s.end.Load()
}

// released is a variable because end points to it.
var released = ErrReleased

func (s *State) ends(end *error) bool {
	if !s.end.CompareAndSwap(nil, end) {
		return false
	}
	s.Tell()
	return true
}

// tell calls the hooks, phase by phase. A hook that is added later is not missed: OnEnd locks mu
// and then checks end, so either it sees the end or tell sees the hook. Two goroutines may both
// call tell: the one that ended the hold, and one that found it ended, see Tie. Each hook is
// called once, and when tell returns all hooks of phase Holders have returned.
func (s *State) tell(all *listeners) {
	all.telling.Lock()
	all.mu.Lock()
	all.tellLostLocked(s)
	hooks := all.hooks[Holders]
	all.hooks[Holders] = nil
	all.mu.Unlock() // because hooks may add and remove other hooks
	s.call(hooks)
	all.telling.Unlock()

	all.mu.Lock()
	cleanUp, observers := all.hooks[CleanUp], all.hooks[Observers]
	all.hooks[CleanUp], all.hooks[Observers] = nil, nil
	all.mu.Unlock()
	s.call(cleanUp)
	s.call(observers)
}

// Tell tells the listeners of an end that another goroutine may still be telling. When it returns
// all holders have been told. The hold has ended.
func (s *State) Tell() {
	if all := s.listeners.Load(); all != nil {
		s.tell(all)
	}
}

func (s *State) call(hooks map[*func(error)]struct{}) {
	for hook := range hooks {
		(*hook)(*s.end.Load())
	}
}

// tellLostLocked closes the lost channel if the hold was lost; caller holds mu.
func (all *listeners) tellLostLocked(s *State) {
	if end := s.end.Load(); end != nil && end != &released && all.lost != nil && !all.told {
		close(all.lost)
		all.told = true
	}
}

// listen returns the listeners, locked.
func (s *State) listen() *listeners {
	all := s.listeners.Load()
	if all == nil {
		s.listeners.CompareAndSwap(nil, new(listeners))
		all = s.listeners.Load()
	}
	all.mu.Lock()
	return all
}

// EndWith ties this state to another, once: s is that of one hold, and other returns that of the
// grant which it rests on. other is called by the first call of EndWith only; of two calls at the
// same time both may call it, which does no harm.
func (s *State) EndWith(other func() *State) {
	if s.tied.Load() {
		return
	}
	s.Tie(other())
	s.tied.Store(true)
}

// Tie has the end of another state end this one as lost, with the same error. Lock order: other's
// telling, then that of s.
func (s *State) Tie(other *State) {
	forget := other.OnEnd(Holders, func(end error) {
		if s.Lose(end) {
			return
		}
		// Another goroutine has ended this state and may not have called its hooks yet. When this
		// hook returns, the other state goes on to phase CleanUp, so call them here.
		s.Tell()
	})
	s.OnEnd(CleanUp, func(error) { forget() })
}

// Lost returns a channel that is closed when the hold is lost. It stays open when the hold is
// released.
func (s *State) Lost() <-chan struct{} {
	_ = s.Look()
	all := s.listen()
	defer all.mu.Unlock()
	if all.lost == nil {
		all.lost = make(chan struct{})
	}
	all.tellLostLocked(s)
	return all.lost
}

// OnEnd registers a hook, which is called once, in its phase, with the error that ended the hold.
// If the hold has ended, OnEnd calls it at once. forget removes the hook. OnEnd calls no other
// hook: the caller may hold a mutex that another hook locks.
func (s *State) OnEnd(when Phase, hook func(error)) (forget func()) {
	all := s.listen()
	if end := s.end.Load(); end != nil {
		all.mu.Unlock()
		hook(*end)
		return func() {}
	}
	defer all.mu.Unlock()
	if all.hooks[when] == nil {
		all.hooks[when] = make(map[*func(error)]struct{})
	}
	key := &hook
	all.hooks[when][key] = struct{}{}
	return func() {
		all.mu.Lock()
		defer all.mu.Unlock()
		delete(all.hooks[when], key)
	}
}
