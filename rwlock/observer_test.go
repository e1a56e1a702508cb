package rwlock_test

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/contract"
	"github.com/zklocks/zklocks/internal/test/locks"
	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/internal/test/venue"
	"github.com/zklocks/zklocks/observe"
	"github.com/zklocks/zklocks/rwlock"
)

// observed returns a lock with an observer that records the events.
func observed(s *contract.Stage, opts ...rwlock.Option) (*rwlock.RWMutex, *contract.Events) {
	s.Helper()
	e := contract.NewEvents(s)
	return rwlock.New(locks.On(s.Connect()), s.Path, append(opts, zklocks.WithObserver(e.Observer()))...), e
}

type asker struct{}

// caller returns who made the call that an event belongs to.
func caller(ctx context.Context) any { return ctx.Value(asker{}) }

// The context of a call has the span of the request that makes the call.
func TestTheEventsOfACallHaveItsContext(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		mu, events := observed(s)
		by := func(who string) context.Context { return context.WithValue(s.Ctx, asker{}, who) }
		first, err := mu.Lock(by("first"))
		s.Must(err)
		_, err = mu.TryLock(by("second"))
		s.Is(err, zklocks.ErrBusy)
		third := contract.Begin(s, by("third"), mu.Lock)
		contract.Next[observe.Queued](events, 1)
		s.Must(first.Release(by("release")))
		hold := third.Granted()
		s.Must(mu.Downgrade(by("downgrade"), hold))
		s.Must(hold.Release(s.Ctx))
		events.Balanced()

		var got []any
		for _, event := range contract.Of[any](events) {
			switch e := event.(type) {
			case observe.Called:
				got = append(got, "called", caller(e.Context))
			case observe.Queued:
				got = append(got, "queued", caller(e.Context))
			case observe.Granted:
				got = append(got, "granted", caller(e.Context))
			case observe.Failed:
				got = append(got, "failed", caller(e.Context))
			}
		}
		if want := []any{
			"called", "first", "granted", "first", "called", "second", "failed", "second",
			"called", "third", "queued", "third", "granted", "third", "called", "downgrade", "granted", "downgrade",
		}; !slices.Equal(got, want) {
			s.Errorf("%v, want %v", got, want)
		}
	})
}

// A hold may live for months. It must not keep what the request that acquired it refers to.
func TestAHoldDropsTheContextOfItsCall(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		mu := rwlock.New(locks.On(s.Connect()), s.Path, zklocks.WithObserver(observe.Observer{}))
		collected := new(atomic.Bool)
		lock := func() *zklocks.Hold {
			r := new([1 << 10]byte) // what the request refers to
			runtime.AddCleanup(r, func(done *atomic.Bool) { done.Store(true) }, collected)
			hold, err := mu.Lock(context.WithValue(context.Background(), asker{}, r))
			s.Must(err)
			return hold
		}
		hold := lock()
		test.Eventually(s, soon, "the garbage collector takes the request", func() bool {
			runtime.GC()
			return collected.Load()
		})
		s.Must(hold.Release(s.Ctx))
	})
}

// A panic of an observer passes through the method that was called. A queued node remains until its
// session ends.
func TestAPanicOfAnObserverLeavesTheLockUsable(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		h := direct(s).write()
		var once sync.Once
		conn := s.Connect()
		mu := rwlock.New(locks.On(conn), s.Path, zklocks.WithObserver(observe.Observer{Queued: func(observe.Queued) {
			once.Do(func() { panic("observed") })
		}}))
		func() {
			defer func() {
				if got := recover(); got != "observed" {
					s.Errorf("recovered %v", got)
				}
			}()
			_, _ = mu.Lock(s.Ctx)
		}()
		s.InLine(2)
		release(s, h)
		for _, name := range test.Children(s, s.Witness.Client(), s.Dir) {
			s.Must(s.Witness.Client().Delete(s.Dir+"/"+name, -1))
		}
		hold, err := mu.Lock(s.Ctx)
		s.Must(err)
		release(s, hold)
		s.Must(conn.Close()) // the panic has left the waiter in the queue
	})
}

func TestObserversAreNotifiedOfTheLossOfEachReader(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		mu, events := observed(s)
		const readers = 3
		var holds []*zklocks.Hold
		for range readers {
			h, err := mu.RLock(s.Ctx)
			s.Must(err)
			holds = append(holds, h)
		}
		lost := holds[0].Lost()
		s.Must(holds[readers-1].Release(s.Ctx))
		s.InLine(1)
		s.Must(s.Witness.Client().Delete(contract.NodeOf(holds[0]), -1))
		s.Lost(lost)
		contract.Next[observe.Lost](events, readers-1)
		for _, h := range holds[:readers-1] {
			s.Is(h.Release(s.Ctx), zklocks.ErrLost)
		}
		for _, l := range contract.Of[observe.Lost](events) {
			s.Is(l.Cause, zklocks.ErrLost)
		}
		if n := len(contract.Of[observe.Released](events)); n != 1 {
			s.Errorf("%d released, want 1", n)
		}
		events.Balanced()
	})
}

// A downgrade ends one hold and begins another, for the observer. A Release whose ctx was canceled
// does not wait for a downgrade under way; its event comes after the events of the downgrade.
func TestTheEventsOfADowngradeComeBeforeTheEndOfTheHold(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		events := contract.NewEvents(s)
		c := behind(s).with(zklocks.WithObserver(events.Observer()))
		h := c.write()
		s.Pass(time.Second)
		f, down := c.downgrading(h, proxy.HoldRequest)
		s.Is(h.Release(canceled(s.Ctx)), context.Canceled)
		s.Settle()
		f.Release()
		down.Ended()
		s.Empty()
		s.Settle()
		var kinds []observe.Kind
		for _, e := range contract.Of[any](events) {
			switch e := e.(type) {
			case observe.Called:
				kinds = append(kinds, "?"+e.Kind)
			case observe.Granted:
				kinds = append(kinds, e.Kind)
				if e.Joined != (e.Kind == observe.KindRead) || e.Token != h.Token() {
					s.Errorf("%+v", e)
				}
			case observe.Released:
				kinds = append(kinds, "-"+e.Kind+observe.Kind(e.Held.Round(time.Second).String()))
			}
		}
		if want := []observe.Kind{"?write", "write", "-write1s", "?read", "read", "-read0s"}; !slices.Equal(kinds, want) {
			s.Errorf("called (?), granted and released (-): %v, want %v", kinds, want)
		}
	})
}

// Without an observer a read has one allocation, the Hold.
func TestAReadWithoutObserversAllocatesItsHoldAlone(t *testing.T) {
	venue.InMemory(t, func(t *testing.T, v venue.Venue) { // no other test may allocate at the same time
		s := contract.NewStage(t, v, "")
		allocs := func(opts ...rwlock.Option) float64 {
			mu := rwlock.New(locks.On(s.Connect()), s.Path, opts...)
			first, err := mu.RLock(s.Ctx)
			s.Must(err)
			defer func() { s.Must(first.Release(s.Ctx)) }()
			return testing.AllocsPerRun(1000, func() {
				h, err := mu.RLock(s.Ctx)
				s.Must(err)
				s.Must(h.Release(s.Ctx))
			})
		}
		if n := allocs(); n != 1 {
			s.Errorf("%v allocations, want 1", n)
		}
		if n := allocs(zklocks.WithObserver(observe.Observer{})); n <= 1 {
			s.Errorf("%v allocations with an observer: the count above proves nothing", n)
		}
		s.Empty()
	})
}
