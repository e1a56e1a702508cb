package zklocks_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test/contract"
	"github.com/zklocks/zklocks/leader"
	"github.com/zklocks/zklocks/observe"
	"github.com/zklocks/zklocks/once"
	"github.com/zklocks/zklocks/reentrant"
	"github.com/zklocks/zklocks/rwlock"
	"github.com/zklocks/zklocks/zktest"
)

// outage is a process that no server answers from the moment when a test calls begin.
type outage struct {
	*desk
	mine     *zklocks.Conn // with an observer
	events   *contract.Events
	deadline time.Time // of the session, when the outage began
	finish   func()    // is called after the outage; or nil
}

// begin cuts the process off while it holds a lock.
func (o *outage) begin(h *zklocks.Hold) {
	o.host.Partition()
	o.deadline = h.ValidUntil()
}

// lost asserts that the call that ends the last hold returned at the deadline, with the loss, and
// that the observers were notified by then.
func (o *outage) lost(err error, losses int) {
	o.Helper()
	if late := time.Since(o.deadline); late < 0 || late > time.Millisecond {
		o.Errorf("it returned %v after the deadline", late)
	}
	if !errors.Is(err, zklocks.ErrLost) {
		o.Errorf("error %v", err)
	}
	synctest.Wait()
	if n := len(contract.Of[observe.Lost](o.events)); n != losses {
		o.Errorf("observers were notified of %d losses, want %d: %+v", n, losses, contract.Of[any](o.events))
	}
}

// unconfirmed is lost with the text for a hold that was being released.
func (o *outage) unconfirmed(err error, losses int) {
	o.Helper()
	o.lost(err, losses)
	if err == nil || !strings.Contains(err.Error(), "(not confirmed: ") || !strings.Contains(err.Error(), " in the background)") {
		o.Errorf("error %v does not say that the release is not confirmed", err)
	}
}

// No call that ends a hold waits longer than until the session's deadline, and in the end no node
// is left.
func TestAHoldEndsInAnOutage(t *testing.T) {
	forever := context.Background()
	for name, play := range map[string]func(o *outage){
		"the last of several readers": func(o *outage) {
			m := rwlock.New(o.mine, path)
			first, last := take(o, m.RLock), take(o, m.RLock)
			o.begin(first)
			must(o, first.Release(forever)) // the node is not deleted
			o.unconfirmed(last.Release(forever), 1)
		},
		"a lock that was entered again": func(o *outage) {
			m := reentrant.New(o.mine, path)
			outer, inner := take(o, m.Lock), take(o, m.Lock)
			o.begin(outer)
			must(o, inner.Release(forever))
			o.unconfirmed(outer.Release(forever), 1)
		},
		"a lock that is to be handed on": func(o *outage) {
			m := rwlock.New(o.mine, path, rwlock.WithHandoff(10))
			h := take(o, m.Lock)
			o.begin(h)
			next := contract.Begin(o, forever, m.Lock)
			time.Sleep(time.Second) // virtual: it waits, and the node is not watched
			o.unconfirmed(h.Release(forever), 1)
			next.Cancel()
			<-next.Done
		},
		"several locks of which one was entered again": func(o *outage) {
			m := reentrant.New(o.mine, path)
			h := take(o, zklocks.All(m, rwlock.New(o.mine, path+"/b")).Lock)
			again := take(o, m.Lock)
			o.begin(h)
			o.unconfirmed(h.Release(forever), 3)
			o.lost(again.Release(forever), 3)
		},
		"a downgrade": func(o *outage) {
			m := rwlock.New(o.mine, path)
			h := take(o, m.Lock)
			o.begin(h)
			o.lost(m.Downgrade(forever, h), 1)
			o.lost(h.Release(forever), 1)
		},
		"a release during a downgrade": func(o *outage) {
			m := rwlock.New(o.mine, path)
			h := take(o, m.Lock)
			o.begin(h)
			down := make(chan error, 1)
			go func() { down <- m.Downgrade(forever, h) }()
			time.Sleep(time.Second) // virtual
			o.unconfirmed(h.Release(forever), 1)
			if err := <-down; !errors.Is(err, zklocks.ErrReleased) {
				o.Errorf("the downgrade: %v", err)
			}
		},
		"a term": func(o *outage) {
			ctx, cancel := context.WithCancel(forever)
			terms, began, resigned := 0, make(chan struct{}), make(chan struct{})
			o.finish = func() { cancel(); <-resigned }
			go func() {
				defer close(resigned)
				_ = leader.New(o.mine, path).Run(ctx, func(ctx context.Context, h *zklocks.Hold) error {
					if terms++; terms == 1 {
						o.begin(h)
						close(began)
						return nil
					}
					<-ctx.Done()
					return nil
				})
			}()
			<-began
			time.Sleep(time.Until(o.deadline)) // virtual
			o.lost(contract.Next[observe.Lost](o.events, 1).Cause, 1)
			if n := len(contract.Of[observe.Called](o.events)); n != 2 {
				o.Errorf("%d campaigns", n)
			}
		},
		"a job whose record is not confirmed": func(o *outage) {
			o.lost(once.New(o.mine, path).RunSlot(forever, "2026-11-28", func(_ context.Context, h *zklocks.Hold) error {
				o.begin(h)
				return nil
			}), 1)
		},
	} {
		for lasts, session := range map[time.Duration]string{0: "lives", 10 * time.Minute: "is over"} {
			t.Run(name+", the session "+session, func(t *testing.T) {
				atDeskFor(t, 10*time.Second, func(d *desk) {
					o := &outage{desk: d, events: contract.NewEvents(d)}
					o.mine = d.host.Connect(d.T, 10*time.Second, zklocks.WithObserver(o.events.Observer()))
					id := o.mine.Client().SessionID()
					time.Sleep(20 * time.Second) // virtual: heartbeats, if any, would move the deadline
					play(o)
					time.Sleep(lasts)
					o.host.Heal()
					time.Sleep(30 * time.Second) // virtual: it is connected again
					if lives := o.mine.Client().SessionID() == id; lives != (lasts == 0) {
						o.Errorf("the session lives: %v", lives)
					}
					if o.finish != nil {
						o.finish()
					}
					for _, dir := range []string{path, path + "/b", path + "/c/queue", path + "/queue", path + "/lock"} {
						left, _, err := o.other.Client().Children(dir)
						for _, node := range left {
							if strings.HasPrefix(node, "_c_") {
								o.Errorf("%s is left in %s, %v", node, dir, err)
							}
						}
					}
					o.events.Balanced()
				}, zktest.WithTick(time.Second))
			})
		}
	}
}
