package hold

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func alive() error { return nil }

func begin(look func() error) *Life {
	l := new(Life)
	l.Begin(look)
	return l
}

func open(c <-chan struct{}) bool {
	select {
	case <-c:
		return false
	default:
		return true
	}
}

func TestReleaseEndsTheLifeOnce(t *testing.T) {
	l := begin(alive)
	ctx := l.Context(t.Context())
	lost, done := l.Lost(), ctx.Done()
	if err := l.Release(); err != nil {
		t.Fatal(err)
	}
	if open(done) { // those who wait do not look
		t.Error("the context goes on")
	}
	if err := l.Release(); !errors.Is(err, ErrReleased) {
		t.Fatalf("second release: %v", err)
	}
	if l.Lose(errors.New("late")) {
		t.Fatal("a released hold was lost")
	}
	if !open(lost) {
		t.Fatal("Lost closed on release")
	}
	if ctx.Err() == nil || !errors.Is(context.Cause(ctx), ErrReleased) {
		t.Fatalf("context: %v, cause %v", ctx.Err(), context.Cause(ctx))
	}
	if !errors.Is(l.Look(), ErrReleased) {
		t.Fatalf("Look: %v", l.Look())
	}
}

func TestLossIsToldToEverybody(t *testing.T) {
	l := begin(alive)
	ctx := l.Context(t.Context())
	lost := l.Lost()
	why := errors.New("session expired")
	if !l.Lose(why) || l.Lose(why) {
		t.Fatal("loss must happen exactly once")
	}
	if open(lost) || open(ctx.Done()) {
		t.Fatal("loss was not told")
	}
	for _, err := range []error{l.Look(), context.Cause(ctx), l.Release()} {
		if !errors.Is(err, ErrLost) || !errors.Is(err, why) {
			t.Errorf("%v does not say that and why the lock was lost", err)
		}
	}
	if err := l.Release(); !errors.Is(err, ErrReleased) {
		t.Fatalf("second release after a loss: %v", err)
	}
	late := l.Context(t.Context())
	if late.Err() == nil || !errors.Is(context.Cause(late), ErrLost) {
		t.Fatal("a context made after the loss is alive")
	}
}

// A frozen process wakes up: nothing has fired yet, the first look must tell.
func TestTheFirstLookTellsWhicheverItIs(t *testing.T) {
	for name, look := range map[string]func(*Life, context.Context) bool{
		"Look":        func(l *Life, _ context.Context) bool { return l.Look() != nil },
		"Lost":        func(l *Life, _ context.Context) bool { return !open(l.Lost()) },
		"Release":     func(l *Life, _ context.Context) bool { return errors.Is(l.Release(), ErrLost) },
		"Context":     func(l *Life, _ context.Context) bool { return l.Context(context.Background()).Err() != nil },
		"ctx.Err":     func(_ *Life, ctx context.Context) bool { return ctx.Err() != nil },
		"ctx.Done":    func(_ *Life, ctx context.Context) bool { return !open(ctx.Done()) },
		"derived ctx": func(_ *Life, ctx context.Context) bool { _ = ctx.Err(); return context.Cause(ctx) != nil },
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
			if l.Look() != nil || ctx.Err() != nil {
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
	if l.Look() != nil {
		t.Fatal("the parent's end ended the hold")
	}
	for deadline := time.Now().Add(10 * time.Second); ; runtime.Gosched() {
		all := l.listen()
		n := len(all.hooks)
		all.mu.Unlock()
		if n == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the hold keeps a context that has ended")
		}
	}
	_ = l.Release()
}

func TestOneEndAmongMany(t *testing.T) {
	for range 200 {
		l := begin(alive)
		var ends, told atomic.Int32
		l.OnEnd(func(error) { told.Add(1) })
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				if i%2 == 0 {
					if l.Lose(errors.New("x")) {
						ends.Add(1)
					}
				} else if l.Release() == nil {
					ends.Add(1)
				}
				l.OnEnd(func(error) { told.Add(1) })()
			})
		}
		all.Wait()
		if ends.Load() != 1 || told.Load() != 9 {
			t.Fatalf("ended %d times, told %d", ends.Load(), told.Load())
		}
	}
}

// Whoever ends a life tells one after the other. The others do not wait for that.
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
		contexts = append(contexts, l.Context(t.Context()))
		l.OnEnd(slow) // as many, for they are called in no order, and some contexts are to come after one
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.Lose(errors.New("deadline passed"))
	}()
	<-telling
	for i, ctx := range contexts {
		if ctx.Err() == nil || open(ctx.Done()) || !errors.Is(context.Cause(ctx), ErrLost) {
			t.Errorf("context %d: %v, cause %v, and the life is over", i, ctx.Err(), context.Cause(ctx))
		}
	}
	close(told)
	<-done
}

// Whoever begins to listen may hold a mutex that others want when they are told.
func TestToListenTellsNobodyElse(t *testing.T) {
	l := begin(alive)
	var mu sync.Mutex
	var others, own atomic.Int32
	l.OnEnd(func(error) {
		mu.Lock()
		defer mu.Unlock()
		others.Add(1)
	})
	why := error(ErrLost)
	l.end.Store(&why) // it is lost, and whoever says so has not come to tell
	mu.Lock()
	listens := make(chan struct{})
	go func() {
		defer close(listens)
		l.OnEnd(func(error) { own.Add(1) })
	}()
	select {
	case <-listens:
	case <-time.After(10 * time.Second):
		t.Error("it waits for somebody else's hook")
	}
	mu.Unlock()
	<-listens
	if open(l.Lost()) {
		t.Error("Lost is open")
	}
	l.tell(l.listeners.Load())
	if own.Load() != 1 || others.Load() != 1 {
		t.Errorf("told %d and %d times", own.Load(), others.Load())
	}
}
