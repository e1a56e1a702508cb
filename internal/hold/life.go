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
// any goroutine.
type Life struct {
	look func() error // why the lock must be taken for lost, or nil

	// end is nil while held; then ErrReleased, or an error that matches
	// ErrLost. It is set once, under mu, and read without: many goroutines look
	// at one hold that they share.
	end atomic.Pointer[error]

	mu       sync.Mutex
	released bool // Release was called, before or after a loss
	lost     chan struct{}
	onEnd    map[*func(error)]struct{}
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
	l.mu.Lock()
	if l.end.Load() != nil {
		l.mu.Unlock()
		return false
	}
	l.end.Store(&why)
	if l.lost == nil {
		l.lost = make(chan struct{})
	}
	close(l.lost)
	l.tellLocked()
	return true
}

// Release ends the life as released. It returns an error that matches ErrLost
// if the hold had been lost first, and ErrReleased from the second call on.
func (l *Life) Release() error {
	_ = l.Look()
	l.mu.Lock()
	if l.released {
		l.mu.Unlock()
		return ErrReleased
	}
	l.released = true
	if end := l.end.Load(); end != nil {
		l.mu.Unlock()
		return *end
	}
	l.end.Store(&released)
	l.tellLocked()
	return nil
}

// released is ErrReleased where it can be pointed at.
var released = ErrReleased

// tellLocked runs the hooks; it unlocks mu first, for hooks do as they please.
func (l *Life) tellLocked() {
	hooks, end := l.onEnd, *l.end.Load()
	l.onEnd = nil
	l.mu.Unlock()
	for hook := range hooks {
		(*hook)(end)
	}
}

// Lost is closed when the hold is lost, and stays open when it is released.
func (l *Life) Lost() <-chan struct{} {
	_ = l.Look()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lost == nil {
		l.lost = make(chan struct{})
	}
	return l.lost
}

// OnEnd has hook called once, with what ended the life; at once if it has ended.
// The returned function takes the hook back.
func (l *Life) OnEnd(hook func(error)) (forget func()) {
	l.mu.Lock()
	if end := l.end.Load(); end != nil {
		l.mu.Unlock()
		hook(*end)
		return func() {}
	}
	defer l.mu.Unlock()
	if l.onEnd == nil {
		l.onEnd = make(map[*func(error)]struct{})
	}
	key := &hook
	l.onEnd[key] = struct{}{}
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.onEnd, key)
	}
}
