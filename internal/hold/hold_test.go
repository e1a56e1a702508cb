package hold

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func alive() error { return nil }

// life is a grant and one hold on it.
type life struct {
	Hold
	grant   State
	look    func() error
	cleanUp func()
}

func (l *life) Alive() error        { return l.look() }
func (l *life) Named(e error) error { return e }
func (l *life) CleanUp(error)       { l.cleanUp() }

func begin(look func() error) *life {
	l := &life{look: look, cleanUp: func() {}}
	l.grant.Grant, l.State = l, &l.grant
	return l
}

// release calls Release with a context that never ends.
func release(h *Hold) error {
	_, stop, err := h.Release(context.Background())
	stop()
	return err
}

// lose ends the grant, and reports whether this has ended the hold.
func (l *life) lose(why error) bool {
	before := l.Settle()
	l.grant.Lose(why)
	return before == nil && errors.Is(l.Settle(), ErrLost)
}

func open(c <-chan struct{}) bool {
	select {
	case <-c:
		return false
	default:
		return true
	}
}

func TestALossIsToldToAll(t *testing.T) {
	l := begin(alive)
	ctx := l.Context(t.Context())
	lost, done := l.Lost(), ctx.Done() // of a goroutine that waits already
	why := errors.New("session expired")
	if !l.lose(why) || l.lose(why) {
		t.Fatal("loss must happen exactly once")
	}
	if open(lost) || open(done) || open(ctx.Done()) {
		t.Fatal("the loss was not reported")
	}
	for _, err := range []error{l.Settle(), context.Cause(ctx), release(&l.Hold)} {
		if !errors.Is(err, ErrLost) || !errors.Is(err, why) || strings.Count(err.Error(), ErrLost.Error()) != 1 {
			t.Errorf("%v does not say that and why the lock was lost", err)
		}
	}
	if err := release(&l.Hold); !errors.Is(err, ErrReleased) {
		t.Fatalf("second release after a loss: %v", err)
	}
	named := begin(alive)
	if end := errors.Join(ErrLost, why); !named.lose(end) || named.Settle() != end {
		t.Errorf("%v says twice that the lock is lost", named.Settle())
	}
	unaware := Hold{State: &l.grant} // nobody has checked it
	var told error
	if unaware.OnEnd(func(end error) { told = end }); !errors.Is(told, ErrLost) {
		t.Errorf("a hook that is added after the loss receives %v", told)
	}
	late := l.Context(t.Context())
	if late.Err() == nil || !errors.Is(context.Cause(late), ErrLost) {
		t.Fatal("a context made after the loss is alive")
	}
}

// When a paused process resumes, no timer has fired yet: the first call must report the loss.
func TestTheFirstLookTellsWhicheverItIs(t *testing.T) {
	for name, look := range map[string]func(*life, context.Context) bool{
		"Settle":      func(l *life, _ context.Context) bool { return l.Settle() != nil },
		"Lost":        func(l *life, _ context.Context) bool { return !open(l.Lost()) },
		"Release":     func(l *life, _ context.Context) bool { return errors.Is(release(&l.Hold), ErrLost) },
		"the grant's": func(l *life, _ context.Context) bool { return errors.Is(l.grant.Release(), ErrLost) },
		"Context":     func(l *life, _ context.Context) bool { return l.Context(context.Background()).Err() != nil },
		"ctx.Err":     func(_ *life, ctx context.Context) bool { return ctx.Err() != nil },
		"ctx.Done":    func(_ *life, ctx context.Context) bool { return !open(ctx.Done()) },
		"derived ctx": func(_ *life, ctx context.Context) bool { _ = ctx.Err(); return context.Cause(ctx) != nil },
	} {
		t.Run(name, func(t *testing.T) {
			var dead atomic.Bool
			l := begin(func() error {
				if dead.Load() {
					return errors.New("deadline passed")
				}
				return nil
			})
			ctx := l.Context(t.Context())
			if l.Settle() != nil || ctx.Err() != nil {
				t.Fatal("dead from the start")
			}
			dead.Store(true)
			if !look(l, ctx) {
				t.Error("the first look said held")
			}
		})
	}
}

func TestContextEndsWithItsParentAndIsForgotten(t *testing.T) {
	l := begin(alive)
	parent, cancel := context.WithCancel(t.Context())
	ctx := l.Context(parent)
	cancel()
	<-ctx.Done()
	if !errors.Is(context.Cause(ctx), context.Canceled) {
		t.Fatalf("cause %v", context.Cause(ctx))
	}
	if l.Settle() != nil {
		t.Fatal("the parent's end ended the hold")
	}
	for deadline := time.Now().Add(10 * time.Second); ; runtime.Gosched() {
		all := l.listen()
		n := len(l.hooks)
		all.mu.Unlock()
		if n == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the hold keeps a context that has ended")
		}
	}
	_ = release(&l.Hold)
}

func TestOneEndAmongMany(t *testing.T) {
	for range 200 {
		l := begin(alive)
		var ends, told atomic.Int32 // releases, and hooks that were called
		l.OnEnd(func(error) { told.Add(1) })
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				if i%2 == 0 {
					l.grant.Lose(errors.New("x"))
				} else if release(&l.Hold) == nil {
					ends.Add(1)
				}
				l.OnEnd(func(error) { told.Add(1) })()
			})
		}
		all.Wait()
		if errors.Is(l.Settle(), ErrLost) {
			ends.Add(1)
		}
		if ends.Load() != 1 || told.Load() != 9 {
			t.Fatalf("ended %d times, %d hooks called", ends.Load(), told.Load())
		}
	}
}

// The goroutine that ends a hold calls the hooks one after the other. A context reports the end
// before its hook is called.
func TestContextsDoNotWaitToBeTold(t *testing.T) {
	l := begin(alive)
	telling, told := make(chan struct{}), make(chan struct{})
	var once sync.Once
	slow := func(error) {
		once.Do(func() { close(telling) })
		<-told
	}
	var contexts []context.Context
	for range 20 {
		parent, cancel := context.WithCancel(t.Context())
		defer cancel()
		contexts = append(contexts, l.Context(parent))
		l.OnEnd(slow) // hooks are called in any order: some contexts come after a slow hook
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.grant.Lose(errors.New("deadline passed"))
	}()
	<-telling
	for i, ctx := range contexts {
		if ctx.Err() == nil || open(ctx.Done()) || !errors.Is(context.Cause(ctx), ErrLost) {
			t.Errorf("context %d: %v, cause %v, but the hold has ended", i, ctx.Err(), context.Cause(ctx))
		}
	}
	close(told)
	<-done
}

// A goroutine that calls OnEnd may hold a mutex that another hook locks.
func TestAListenerThatIsAddedTellsNoOther(t *testing.T) {
	l := begin(alive)
	var mu sync.Mutex
	var others, own atomic.Int32
	l.OnEnd(func(error) {
		mu.Lock()
		defer mu.Unlock()
		others.Add(1)
	})
	why := error(ErrLost)
	l.grant.end.Store(&why) // the grant is lost, and the hooks have not been called yet
	mu.Lock()
	listens := make(chan struct{})
	go func() {
		defer close(listens)
		l.OnEnd(func(error) { own.Add(1) })
	}()
	select {
	case <-listens:
	case <-time.After(10 * time.Second):
		t.Error("OnEnd waits for another hook")
	}
	mu.Unlock()
	<-listens
	if open(l.Lost()) {
		t.Error("Lost is open")
	}
	l.grant.tell()
	if own.Load() != 1 || others.Load() != 1 {
		t.Errorf("hooks called %d and %d times", own.Load(), others.Load())
	}
}

// The clean-up begins when all holds have been told, once. Another goroutine may have detected the
// loss of a hold, and not told it yet.
func TestHoldersAreToldBeforeTheCleanUp(t *testing.T) {
	for name, end := range map[string]func(*life){
		"lost":     func(l *life) { l.grant.Lose(errors.New("test")) },
		"released": func(l *life) { _, _ = release(&l.Hold), l.grant.Release() },
		"found":    func(l *life) { l.look = func() error { return errors.New("test") }; _ = l.Settle() },
	} {
		t.Run(name, func(t *testing.T) {
			l := begin(alive)
			told, cleaned := 0, 0
			var holds [10]Hold
			var lost [10]<-chan struct{}
			why := error(ErrLost)
			for i := range holds {
				holds[i].State = &l.grant
				holds[i].OnEnd(func(error) { told++ })
				if lost[i] = holds[i].Lost(); i%2 == 0 && name != "released" {
					holds[i].end.Store(&why)
				}
			}
			l.cleanUp = func() {
				if cleaned++; told != len(holds) {
					t.Errorf("the clean-up begins when %d hooks of %d have been called", told, len(holds))
				}
				for i, c := range lost {
					if open(c) != (name == "released") {
						t.Errorf("when the clean-up begins, Lost of hold %d is open: %v", i, open(c))
					}
				}
			}
			end(l)
			if _ = release(&l.Hold); told != len(holds) || cleaned != 1 {
				t.Errorf("%d hooks called, %d clean-ups", told, cleaned)
			}
		})
	}
}

// When Lose or Release returns, the holders are notified, also if another goroutine has ended the
// grant.
func TestALossWaitsForTheGoroutineThatTells(t *testing.T) {
	for i := range 200 {
		l := begin(alive)
		telling := make(chan struct{})
		var second, told atomic.Bool
		l.OnEnd(func(error) {
			close(telling)
			for i := 0; i < 20; runtime.Gosched() { // long enough for a Lose that does not wait to return
				if second.Load() {
					i++
				}
			}
			told.Store(true)
		})
		var first sync.WaitGroup
		first.Go(func() { l.grant.Lose(errors.New("first")) })
		<-telling
		second.Store(true)
		if i%2 == 0 {
			l.grant.Lose(errors.New("second"))
		} else if err := release(&l.Hold); !errors.Is(err, ErrLost) {
			t.Error(err)
		}
		if !told.Load() {
			t.Fatal("Lose or Release has returned, and the holder has not been told")
		}
		first.Wait()
	}
}

// The loss of the grant ends no hold that has been released.
func TestAReleasedHoldIgnoresTheLossOfItsGrant(t *testing.T) {
	l := begin(alive)
	var other Hold
	other.State = &l.grant
	lost, ctx, others := l.Lost(), l.Context(t.Context()), other.Lost()
	done := ctx.Done()
	if err := release(&l.Hold); err != nil {
		t.Fatal(err)
	}
	if open(done) { // a goroutine that waits for Done does not call Settle
		t.Error("the context is still alive")
	}
	if other.Settle() != nil || !open(others) {
		t.Error("the other hold has ended, too")
	}
	if n := len(l.grant.listeners.Load().holds); n != 1 {
		t.Errorf("the grant refers to %d holds, but one has ended", n)
	}
	l.grant.Lose(errors.New("test"))
	if !open(lost) || !open(l.Lost()) || open(others) {
		t.Errorf("Lost is open: %v, %v; Lost of the other hold: %v", open(lost), open(l.Lost()), open(others))
	}
	for what, err := range map[string]error{"Settle": l.Settle(), "cause": context.Cause(ctx), "Release": release(&l.Hold)} {
		if !errors.Is(err, ErrReleased) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// listed is a context of a type that has no equality.
type listed struct {
	context.Context
	_ []int
}

func TestWhatBoundsARelease(t *testing.T) {
	at := func(ctx context.Context) time.Time { at, _ := ctx.Deadline(); return at }
	for i := range 8 {
		l, other := begin(alive), begin(alive)
		parent, cancel := context.WithDeadline(t.Context(), time.Now().Add(time.Hour))
		own := l.Context(l.Context(parent))
		early, cancelEarly := context.WithTimeout(own, time.Minute)
		c := []struct {
			name          string
			ctx, deadline context.Context // the argument of Release, and the context whose deadline the limit has
			others        bool            // the limit ends when the other hold ends
		}{
			{"any", parent, parent, false},
			{"its own", own, parent, false},
			{"with an earlier deadline", early, early, false},
			{"of another hold", other.Context(parent), parent, true},
			{"its own below that of another hold", l.Context(other.Context(parent)), parent, true},
			{"that of another hold below its own", other.Context(own), parent, false},
			{"any that cannot be compared", listed{Context: parent}, parent, false},
			{"its own that cannot be compared", listed{Context: own}, parent, false},
		}[i]
		limit, stop, err := l.Release(c.ctx)
		if err != nil {
			t.Error(err)
		}
		if limit.Err() != nil || !at(limit).Equal(at(c.deadline)) {
			t.Errorf("%s: %v, deadline %v", c.name, limit.Err(), at(limit))
		}
		if err := release(&other.Hold); err != nil {
			t.Error(err)
		}
		if ended := limit.Err() != nil; ended != c.others {
			t.Errorf("%s: ended with the other hold: %v", c.name, ended)
		}
		cancel()
		if limit.Err() == nil {
			t.Errorf("%s: alive without its parent", c.name)
		}
		stop()
		cancelEarly()
	}
}

// A context that has ended before the release is the limit. If the hold has no context, any context
// is the limit.
func TestAReleaseByAContextThatIsNotOfTheHold(t *testing.T) {
	l, other := begin(alive), begin(alive)
	ended, end := context.WithCancel(l.Context(t.Context()))
	end()
	foreign := l.Context(t.Context())
	for h, ctx := range map[*Hold]context.Context{&other.Hold: foreign, &l.Hold: ended} {
		limit, stop, _ := h.Release(ctx)
		if limit != ctx {
			t.Error("exchanged")
		}
		stop()
	}
}

// A wait that is bounded by a context detached with context.WithoutCancel ends neither with the
// hold nor with the parent, but only with the context's own deadline.
func TestADetachedContextIsNotBoundByTheParent(t *testing.T) {
	for _, when := range []string{"before the call", "during the wait"} {
		for i, name := range []string{"detached", "for an hour", "of the hold again", "of the hold again, for an hour"} {
			l := begin(alive)
			parent, cancel := context.WithCancel(t.Context())
			detached := context.WithoutCancel(l.Context(parent))
			timed, end := context.WithTimeout(detached, time.Hour)
			ctx := []context.Context{detached, timed, l.Context(detached), l.Context(timed)}[i]
			if when == "before the call" {
				cancel()
			}
			limit, stop, _ := l.Release(ctx)
			cancel()
			if limit.Err() != nil {
				t.Errorf("%s: the parent ends %s, and ends the wait: %v", name, when, limit.Err())
			}
			end()
			if own := i%2 == 1; own != (limit.Err() != nil) {
				t.Errorf("%s: the wait after the end of its context: %v", name, limit.Err())
			}
			stop()
		}
	}
}
