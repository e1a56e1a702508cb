// Package hold is the life of one hold: it begins held and ends exactly once,
// released or lost. It is pure: whether the lock can still be ours is a
// question it asks, not one it knows.
package hold

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
)

// The states that callers of every recipe match with errors.Is.
var (
	// ErrBusy: somebody else has the lock, and the caller did not want to wait.
	ErrBusy = errors.New("busy")
	// ErrLost: the hold ended without being released.
	ErrLost = errors.New("lock lost")
	// ErrReleased: the hold has been released.
	ErrReleased = errors.New("lock already released")
)

// Life is one hold from its grant to its end. Its methods may be called from
// any goroutine. As long as nobody wants to be told of the end, it costs no mutex.
type Life struct {
	look func() error // why the lock must be taken for lost, or nil

	// end is nil while held; then ErrReleased, or an error that matches
	// ErrLost. It is set once.
	end atomic.Pointer[error]
	// unlocked: Release was called after a loss.
	unlocked atomic.Bool
	// tied: the end of another is told to this one, see Tie.
	tied atomic.Bool
	// listeners is nil until there are any.
	listeners atomic.Pointer[listeners]
}

// Phase says when a listener is told of the end. The order of the phases is fixed: the life is
// marked as ended, then holders are told, then the nodes are cleaned up, then observers are
// told. So no other process can hold a lost lock by a deletion of ours while Lost is open.
type Phase int

const (
	// Holders are told first: Lost closes and contexts end. A hook of this phase is short and
	// waits for nothing.
	Holders Phase = iota
	// CleanUp gives back what the hold has: nodes, leases, watches.
	CleanUp
	// Observers are told last.
	Observers
	phases
)

// listeners are told of the end of a life.
type listeners struct {
	// telling is held while the holders are told. Lock order: telling, mu.
	telling sync.Mutex

	mu    sync.Mutex
	lost  chan struct{} // nil until Lost is first called
	told  bool          // lost is closed
	hooks [phases]map[*func(error)]struct{}
	// joints are what contexts end by, by the Done channel of their parents, see Life.joint.
	joints map[<-chan struct{}]*joint
}

// Begin starts a life. look is asked whenever somebody asks the life; it must
// be quick and must not call the Life back.
func (l *Life) Begin(look func() error) { l.look = look }

// Look returns nil while the hold lives, and otherwise what ended it. It is
// where a process that was frozen past its session finds out.
func (l *Life) Look() error {
	if end := l.end.Load(); end != nil {
		return *end
	}
	if why := l.look(); why != nil {
		l.Lose(why)
		return *l.end.Load()
	}
	return nil
}

// Lose ends the life as lost; why is kept in the error. It reports whether this
// call was the one that ended it.
func (l *Life) Lose(why error) bool {
	if !errors.Is(why, ErrLost) {
		why = fmt.Errorf("%w: %w", ErrLost, why)
	}
	return l.ends(&why)
}

// Release ends the life as released. It returns an error that matches ErrLost
// if the hold had been lost first, and ErrReleased from the second call on.
func (l *Life) Release() error {
	if l.Look() == nil && l.ends(&released) {
		return nil
	}
	if l.end.Load() == &released || l.unlocked.Swap(true) {
		return ErrReleased
	}
	return *l.end.Load()
}

// released is ErrReleased where it can be pointed at.
var released = ErrReleased

func (l *Life) ends(end *error) bool {
	if !l.end.CompareAndSwap(nil, end) {
		return false
	}
	if all := l.listeners.Load(); all != nil {
		l.tell(all)
	}
	return true
}

// tell tells the listeners of the end, phase by phase. A listener that registers later looks
// for itself whether the life has ended, after it has taken mu: of the two the later one sees
// the other. Two goroutines may both tell: the one that ended the life, and one that found it
// ended, see Tie. Each hook is called once, and when tell returns all holders have been told.
func (l *Life) tell(all *listeners) {
	all.telling.Lock()
	all.mu.Lock()
	all.tellLostLocked(l)
	hooks := all.hooks[Holders]
	all.hooks[Holders] = nil
	all.mu.Unlock() // for hooks may register and forget others
	l.call(hooks)
	all.telling.Unlock()

	all.mu.Lock()
	cleanUp, observers := all.hooks[CleanUp], all.hooks[Observers]
	all.hooks[CleanUp], all.hooks[Observers] = nil, nil
	all.mu.Unlock()
	l.call(cleanUp)
	l.call(observers)
}

func (l *Life) call(hooks map[*func(error)]struct{}) {
	for hook := range hooks {
		(*hook)(*l.end.Load())
	}
}

// tellLostLocked closes the channel if the life has ended as lost.
func (all *listeners) tellLostLocked(l *Life) {
	if end := l.end.Load(); end != nil && end != &released && all.lost != nil && !all.told {
		close(all.lost)
		all.told = true
	}
}

// listen returns the listeners, locked.
func (l *Life) listen() *listeners {
	all := l.listeners.Load()
	if all == nil {
		l.listeners.CompareAndSwap(nil, new(listeners))
		all = l.listeners.Load()
	}
	all.mu.Lock()
	return all
}

// Tie has l lost as soon as the life that other returns ends. Only the first call does
// something; two at the same time may both tie it, which does no harm.
func (l *Life) Tie(other func() *Life) {
	if l.tied.Load() {
		return
	}
	forget := other().OnEnd(Holders, func(end error) {
		if l.Lose(end) {
			return
		}
		// Another goroutine has ended l and may not have told its holders yet. The other
		// life goes on to clean up when this hook returns, so tell them here.
		if all := l.listeners.Load(); all != nil {
			l.tell(all)
		}
	})
	l.OnEnd(CleanUp, func(error) { forget() })
	l.tied.Store(true)
}

// Lost is closed when the hold is lost, and stays open when it is released.
func (l *Life) Lost() <-chan struct{} {
	_ = l.Look()
	all := l.listen()
	defer all.mu.Unlock()
	if all.lost == nil {
		all.lost = make(chan struct{})
	}
	all.tellLostLocked(l)
	return all.lost
}

// OnEnd has hook called once, in its phase, with what ended the life; at once if it has ended.
// The returned function takes the hook back. OnEnd calls no other hook: the caller may hold a
// mutex that another hook wants.
func (l *Life) OnEnd(when Phase, hook func(error)) (forget func()) {
	all := l.listen()
	if end := l.end.Load(); end != nil {
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
