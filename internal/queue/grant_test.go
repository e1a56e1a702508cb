package queue

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/hold"
	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/internal/test/venue"
	"github.com/zklocks/zklocks/internal/znode"
	"github.com/zklocks/zklocks/observe"
)

// holds acquires the lock, and begins many holds on the grant.
func (x *testQueue) holds(n int) (*Grant, []<-chan struct{}) {
	x.Helper()
	grant, err := x.queue.Join(x.Context(), Request{Kind: x.kind, Nodes: 1}, true)
	x.must(nil, err)
	lost := make([]<-chan struct{}, n)
	for i := range lost {
		var h Hold
		h.Begin(grant, x.queue, nil, nil)
		lost[i] = h.State().Lost()
	}
	return grant, lost
}

// The process that has lost a hold deletes the node, and so lets the next holder in. Every holder
// must be notified before, also if a hook takes long.
func TestALostHoldIsToldBeforeItsNodeIsDeleted(t *testing.T) {
	t.Parallel()
	venue.InMemory(t, func(t *testing.T, v venue.Venue) {
		x := newTestQueue(t, v, 10*time.Second)
		grant, lost := x.holds(3)
		told := make(chan struct{})
		grant.OnEnd(func(error) {
			time.Sleep(time.Second) // virtual
			close(told)
		})
		sent, open := openAt(x.proxy, proxy.DeleteOp, append(lost, told))
		grant.state.Lose(errors.New("test"))
		test.Within(t, 20*time.Second, "the node is deleted", func() { <-sent })
		if n := open.Load(); n > 0 {
			t.Errorf("%d of 4 have not been told when the node is deleted", n)
		}
		test.AssertEmpty(t, x.witness.Client(), x.queue.dir)
	})
}

// A grant whose release waits for the server is not held any more: the error of a caller that gives
// up does not blame its own process.
func TestAGrantThatIsBeingReleasedIsNotHeld(t *testing.T) {
	t.Parallel()
	venue.InMemory(t, func(t *testing.T, v venue.Venue) {
		x := newTestQueue(t, v, 10*time.Second)
		grant, _ := x.holds(1)
		says := func(q *Queue, want string) {
			t.Helper()
			if got := q.mine(Request{Kind: q.cfg.Names[0].Kind}, 1); !strings.HasPrefix(got, "; this connection "+want) {
				t.Errorf("%q, want %q", got, want)
			}
		}
		says(x.queue, "has held 1 for ")
		beside := newQueue(t, x.conn, x.queue.dir+"-beside", x.queue.cfg)
		says(beside, "holds none")
		says(newQueue(t, x.conn, x.queue.dir, with(Default(), permitNames)), "holds none")
		f := x.proxy.Next(proxy.DeleteOp, proxy.HoldRequest)
		done := make(chan error)
		go func() { done <- grant.GiveUp(context.Background()) }()
		<-f.Fired()
		says(x.queue, "holds none")
		f.Release()
		x.must(nil, <-done)

		grant, _ = x.holds(1)
		x.must(x.witness.Client().SetACL(x.queue.dir, zk.WorldACL(zk.PermAll&^zk.PermDelete), -1))
		if err := grant.GiveUp(t.Context()); !errors.Is(err, zk.ErrNoAuth) {
			t.Error(err)
		}
		says(x.queue, "has released 1 that the server refuses to delete")
		says(beside, "holds none")
	})
}

// A call that is under way when its grant is lost does not wait for a server, whoever detects the
// loss: the monitor, or a caller who asks for the state.
func TestACallDoesNotOutliveItsGrant(t *testing.T) {
	t.Parallel()
	venue.InMemory(t, func(t *testing.T, v venue.Venue) {
		x := newTestQueue(t, v, 10*time.Second)
		grant, _ := x.holds(1)
		began, server, ended := make(chan struct{}), make(chan struct{}), make(chan error)
		defer close(server)
		go func() {
			ended <- grant.Finish(t.Context(), "it goes on", func() error { close(began); <-server; return nil })
		}()
		<-began
		grant.state.Lose(errDeleted)
		test.Within(t, 20*time.Second, "the call returns", func() {
			if err := <-ended; !errors.Is(err, hold.ErrLost) || !errors.Is(err, errDeleted) {
				t.Error(err)
			}
		})
		later := grant.Finish(t.Context(), "it goes on", func() error { <-server; return nil })
		if !errors.Is(later, hold.ErrLost) {
			t.Error(later)
		}
	})
}

// A connection refers only to grants that have not ended, and sends heartbeats only for these.
func TestAGrantThatHasEndedIsForgotten(t *testing.T) {
	t.Parallel()
	venue.InMemory(t, func(t *testing.T, v venue.Venue) {
		x := newTestQueue(t, v, 10*time.Second)
		for end, call := range map[string]func(*Grant){
			"released": func(g *Grant) { x.must(nil, g.GiveUp(t.Context())) },
			"lost":     func(g *Grant) { g.state.Lose(errors.New("test")) },
		} {
			grant, _ := x.holds(1)
			call(grant)
			if n := len(x.queue.client.Holders()); n > 0 {
				t.Errorf("%s: the connection keeps the grant", end)
			}
			sent := x.proxy.Seen(proxy.CheckOp)
			time.Sleep(time.Minute) // virtual
			if n := x.proxy.Seen(proxy.CheckOp) - sent; n > 0 {
				t.Errorf("%s: %d heartbeats", end, n)
			}
		}
		test.AssertEmpty(t, x.witness.Client(), x.queue.dir)
	})
}

// openAt counts the holders that are not notified when a request of that kind is sent, which closes
// sent.
func openAt(p *proxy.Proxy, kind proxy.Op, lost []<-chan struct{}) (sent <-chan struct{}, open *atomic.Int64) {
	asked := make(chan struct{})
	open = new(atomic.Int64)
	p.OnRequest(func(op proxy.Op) {
		if op != kind {
			return
		}
		for _, c := range lost {
			select {
			case <-c:
			default:
				open.Add(1)
			}
		}
		close(asked)
	})
	return asked, open
}

// The end of the session deletes the node, and so lets the next holder in. The holders must be
// notified before, also if a goroutine that calls Err all the time is the first to detect the loss.
func TestHoldersAreToldBeforeTheSessionOfAClosedConnectionEnds(t *testing.T) {
	t.Parallel()
	for range 10 {
		venue.InMemory(t, func(t *testing.T, v venue.Venue) {
			x := newTestQueue(t, v, 10*time.Second)
			grant, lost := x.holds(10_000)
			sent, open := openAt(x.proxy, proxy.CloseOp, lost)
			var asker sync.WaitGroup
			asker.Go(func() {
				for grant.Err() == nil {
				}
			})
			x.conn.Close()
			asker.Wait()
			test.Within(t, 20*time.Second, "the end of the session is asked for", func() { <-sent })
			if n := open.Load(); n > 0 {
				t.Errorf("%d of %d holders have not been told", n, len(lost))
			}
			test.AssertEmpty(t, x.witness.Client(), x.queue.dir)
		})
	}
}

// lostBehind loses a grant right after the check with which a downgrade begins.
type lostBehind struct{ *Grant }

func (g lostBehind) Alive() error {
	g.state.Grant = g.Grant
	g.state.Lose(errors.New("test"))
	return nil
}

// The end of a hold deletes its node. A downgrade that creates another node after that leaves an
// orphan.
func TestAHoldThatEndsBeforeItsDowngradeIsNotDowngraded(t *testing.T) {
	t.Parallel()
	venue.InMemory(t, func(t *testing.T, v venue.Venue) {
		x := shared(t, v)
		h := lock(t, x.queue, znode.Write)
		h.Grant.state.Grant = lostBehind{h.Grant}
		if err := h.Downgrade(t.Context(), x.queue, znode.Write, znode.Read); !errors.Is(err, hold.ErrLost) {
			t.Errorf("downgraded what was lost: %v", err)
		}
		synctest.Wait()
		if n := x.proxy.Seen(proxy.MoveOp); n != 0 {
			t.Errorf("%d downgrades were sent", n)
		}
		test.AssertEmpty(t, x.witness.Client(), x.queue.dir)
	})
}

// A grant may be lost before its call returns. Observers are notified of both, in this order.
func TestAGrantThatIsLostBeforeItsCallReturns(t *testing.T) {
	t.Parallel()
	venue.InMemory(t, func(t *testing.T, v venue.Venue) {
		x := newTestQueue(t, v, 10*time.Second)
		events := make(chan string, 20)
		cfg := Default()
		cfg.Observers = []observe.Observer{{
			Called:  func(observe.Called) { events <- "called" },
			Failed:  func(observe.Failed) { events <- "failed" },
			Granted: func(observe.Granted) { events <- "granted" },
			Lost:    func(observe.Lost) { events <- "lost" },
		}}
		l := newQueue(t, x.conn, x.queue.dir, with(cfg, lockNames))
		r := Request{Kind: znode.Lock, Nodes: 1}
		call := l.Call(t.Context(), r)
		grant, err := l.Join(t.Context(), r, true)
		if err != nil {
			t.Fatal(err)
		}
		grant.state.Lose(errors.New("test"))
		new(Hold).Begin(grant, l, nil, call)
		seen := []string{<-events, <-events, <-events}
		if want := []string{"called", "granted", "lost"}; !slices.Equal(seen, want) {
			t.Errorf("notified of %q, want %q", seen, want)
		}
		test.AssertEmpty(t, x.witness.Client(), x.queue.dir)
		if len(events) > 0 {
			t.Errorf("and of %s", <-events)
		}
	})
}
