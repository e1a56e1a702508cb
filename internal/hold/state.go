// Package hold is the state of one hold: it begins held and ends exactly once, released or lost. It is pure: it asks whether
// the lock must be taken for lost, and does not know.
package hold

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
)

// The states that callers of every recipe match with errors.Is.
var (
	// ErrBusy: another node has the lock or waits for it, and the caller does not wait.
	ErrBusy = errors.New("busy")
	// ErrLost: the hold ended without being released.
	ErrLost = errors.New("lock lost")
	// ErrReleased: the hold has been released.
	ErrReleased = errors.New("lock already released")
)

// State is the state of one hold, from its grant to its end. Its methods may be called from any goroutine. Until the first
// listener is added it takes no mutex.
type State struct {
	look func() error // why the lock must be taken for lost, or nil

	// end is nil while held; then ErrReleased, or an error that matches
	// ErrLost. It is set once.
	end atomic.Pointer[error]
	// unlocked: Release was called after a loss.
	unlocked atomic.Bool
	// tied: the end of another state ends this one, see EndWith.
	tied atomic.Bool
	// listeners is nil until there are any.
	listeners atomic.Pointer[listeners]
}

// Phase says when a listener is told of the end. The order is fixed: the state is marked as ended, then holders are told, then
// the nodes are deleted, then observers are told. So no other process can hold a lost lock by a deletion of this one while Lost
// is open.
type Phase int

const (
	// Holders are told first: Lost closes and contexts end. A hook of this phase is short and waits for nothing.
	Holders Phase = iota
	// CleanUp gives up what the hold has: nodes, leases, watches.
	CleanUp
	// Observers are told last.
	Observers
	phases
)

// listeners are told of the end. Lock order: telling, mu.
type listeners struct {
	// telling is held while holders are told.
	telling sync.Mutex

	mu    sync.Mutex
	lost  chan struct{} // nil until Lost is first called
	told  bool          // lost is closed
	hooks [phases]map[*func(error)]struct{}
	// joints are what contexts end by, by the Done channel of their parents, see State.joint.
	joints map[<-chan struct{}]*joint
}

// Begin begins a hold. look is called whenever the state is asked for; it must be quick and must not call the State.
func (s *State) Begin(look func() error) { s.look = look }

// Look returns nil while the hold lives, and then what ended it. A process that was stopped for longer than its session lives
// finds out here.
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

// Lose ends the hold as lost; why is kept in the error. It reports whether this call has ended it.
func (s *State) Lose(why error) bool {
	if !errors.Is(why, ErrLost) {
		why = fmt.Errorf("%w: %w", ErrLost, why)
	}
	return s.ends(&why)
}

// Release ends the hold as released. It returns an error that matches ErrLost if the hold had been lost first, and ErrReleased
// from the second call on.
func (s *State) Release() error {
	if s.Look() == nil && s.ends(&released) {
		return nil
	}
	if s.end.Load() == &released || s.unlocked.Swap(true) {
		return ErrReleased
	}
	return *s.end.Load()
}

// released is ErrReleased where it can be pointed at.
var released = ErrReleased

func (s *State) ends(end *error) bool {
	if !s.end.CompareAndSwap(nil, end) {
		return false
	}
	if all := s.listeners.Load(); all != nil {
		s.tell(all)
	}
	return true
}

// tell tells the listeners, phase by phase. A listener that is added later looks itself, after it has taken mu, whether the hold
// has ended: of the two goroutines the later one sees the other. Two goroutines may both tell: the one that ended the hold, and
// one that found it ended, see EndWith. Each hook is called once, and when tell returns all holders have been told.
func (s *State) tell(all *listeners) {
	all.telling.Lock()
	all.mu.Lock()
	all.tellLostLocked(s)
	hooks := all.hooks[Holders]
	all.hooks[Holders] = nil
	all.mu.Unlock() // for hooks may register and forget others
	s.call(hooks)
	all.telling.Unlock()

	all.mu.Lock()
	cleanUp, observers := all.hooks[CleanUp], all.hooks[Observers]
	all.hooks[CleanUp], all.hooks[Observers] = nil, nil
	all.mu.Unlock()
	s.call(cleanUp)
	s.call(observers)
}

func (s *State) call(hooks map[*func(error)]struct{}) {
	for hook := range hooks {
		(*hook)(*s.end.Load())
	}
}

// tellLostLocked closes the channel if the hold was lost; the caller holds mu.
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

// EndWith has the end of another state end this one as lost. other is called by the first call of EndWith only; of two calls at
// the same time both may call it, which does no harm.
func (s *State) EndWith(other func() *State) {
	if s.tied.Load() {
		return
	}
	forget := other().OnEnd(Holders, func(end error) {
		if s.Lose(end) {
			return
		}
		// Another goroutine has ended this one and may not have told its holders yet. The other state goes on to clean up
		// when this hook returns, so tell them here.
		if all := s.listeners.Load(); all != nil {
			s.tell(all)
		}
	})
	s.OnEnd(CleanUp, func(error) { forget() })
	s.tied.Store(true)
}

// Lost is closed when the hold is lost, and stays open when it is released.
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

// OnEnd has hook called once, in its phase, with what ended the hold; at once if it has ended. forget takes the hook back. OnEnd
// calls no other hook: the caller may hold a mutex that another hook wants.
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
