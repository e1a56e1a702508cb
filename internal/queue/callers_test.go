package queue

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/hold"
	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/internal/test/venue"
	"github.com/zklocks/zklocks/internal/znode"
)

// callers returns a queue of readers and writers, and the callers of a value in it.
func callers(t *testing.T, v venue.Venue, kind znode.Kind, s Sharing) (*testQueue, *Callers) {
	x := shared(t, v)
	return x, x.queue.NewCallers(Request{Kind: kind, Nodes: 1}, s)
}

// enters acquires, and returns the tenure.
func (x *testQueue) enters(of *Callers) *Tenure {
	x.Helper()
	_, by, err := of.Acquire(x.Context(), true)
	x.must(nil, err)
	return by.(*Tenure)
}

// As soon as the last reader has left, no reader may join, although the node still exists.
func TestNoReaderJoinsATenureThatIsOver(t *testing.T) {
	play(t, znode.Read, Sharing{}, func(x *story) {
		tenure := x.first
		if x.enters(x.of) != tenure || tenure.endIdle(x.Context()) != nil || tenure.users.Add(-2) != 0 || !tenure.users.CompareAndSwap(0, gone) {
			x.Fatal("not joined, so there is nothing to see")
		}
		x.must(nil, tenure.grant.Err())
		for range 3 {
			if tenure.join(x.Context()) {
				x.Error("a tenure that was over went on")
			}
		}
		x.must(nil, tenure.grant.GiveUp(x.Context()))
	})
}

// The guard of a tenure ends while pass lets it be idle: after pass has checked that callers may
// enter, and before it stores that there is no holder. Nobody may enter any more, so it must end.
func TestATenureThatIsWantedDoesNotStayIdle(t *testing.T) {
	play(t, znode.Write, Sharing{MaxIdle: maxIdle}, func(x *story) {
		kept := func() *Tenure {
			tenure := x.enters(x.of)
			tenure.kept.Store(true)
			if !tenure.ask(x.Context()) {
				x.Fatal("nobody may enter, so there is nothing to see")
			}
			return tenure
		}
		x.must(nil, x.first.Leave(x.Context(), nil))
		tenure := kept()
		x.of.mu.Lock() // as pass does
		ended := make(chan bool)
		go func() {
			x.of.want(tenure)
			close(ended)
		}()
		for range 1000 {
			runtime.Gosched()
		}
		tenure.users.Store(0)
		x.of.mu.Unlock()
		<-ended
		if tenure.grant.Err() == nil {
			x.Error("it stays")
		}
		tenure = kept()
		x.of.want(tenure) // while it is held
		if passed, _ := x.of.pass(tenure, true); passed {
			x.Error("it becomes idle")
		}
		x.must(nil, tenure.Leave(x.Context(), nil))
	})
}

// All waiting callers may be canceled at the time of the grant.
func TestAGrantThatNoCallerWaitsForIsReleased(t *testing.T) {
	for name, s := range map[string]Sharing{"together": {Together: true}, "in line": {Passes: 1}} {
		t.Run(name, func(t *testing.T) {
			venue.InMemory(t, func(t *testing.T, v venue.Venue) {
				x, of := callers(t, v, znode.Read, s)
				grant, err := x.queue.Join(t.Context(), of.request, true)
				x.must(nil, err)
				tenure, _ := of.tenure()
				of.deliver(tenure, grant, nil)
				synctest.Wait()
				if line, _, err := x.witness.Client().Children(x.queue.dir); err != nil || len(line) > 0 || of.current.Load() != nil {
					t.Errorf("there is a grant without a holder: %q, %v", line, err)
				}
			})
		})
	}
}

// The grant is lost after its holder has begun to release it, and before it is passed on. A hook of
// the grant runs in between, before its watch has fired.
func TestALockLostDuringItsReleaseIsNotPassedOn(t *testing.T) {
	play(t, znode.Write, Sharing{Passes: 100}, func(x *story) {
		x.queues(1)
		if !x.first.grant.Exists(x.Context()) {
			x.Fatal("the node is not known to exist, so nothing would be passed on")
		}
		var known, passed bool
		x.first.grant.OnEnd(func(error) {
			known = x.first.grant.KnownToExist()
			passed, _ = x.of.pass(x.first, false)
		})
		x.conn.Close()
		if !known || passed {
			x.Errorf("the node is known to exist: %v; the lost lock was passed on: %v", known, passed)
		}
		if <-x.line[0].done; !errors.Is(x.line[0].err, zk.ErrClosing) {
			x.Errorf("got %v", x.line[0].err)
		}
	})
}

// The caller that has begun an acquire for the callers in line is canceled. They go on waiting for
// it, and the first of them holds.
func TestACanceledCallerLeavesTheAcquireToTheNext(t *testing.T) {
	for _, late := range []bool{false, true} {
		play(t, znode.Write, Sharing{Passes: 100}, func(x *story) {
			ctx, cancel := context.WithCancel(context.Background())
			first := x.calls(ctx)
			x.queues(1)
			x.of.mu.Lock()
			if late {
				cancel() // its goroutine is woken, and then waits for mu
			}
			x.of.followLocked(x.first)
			x.of.mu.Unlock()
			synctest.Wait()
			cancel()
			if <-first.done; !errors.Is(first.err, context.Canceled) {
				x.Errorf("got %v", first.err)
			}
			x.must(nil, x.first.Leave(x.Context(), nil))
			<-x.line[0].done
			x.must(nil, x.line[0].err)
		})
	}
}

// What a canceled caller says of those ahead of it, and what it leaves.
func TestWhatACanceledCallerLeaves(t *testing.T) {
	t.Parallel()
	stories(t, "canceled", Sharing{Passes: 100}, func(x *story) {
		stop := func(c *call, cancel context.CancelFunc, ahead string, leaves bool) {
			x.Helper()
			cancel()
			<-c.done
			var leaving *Leaving
			if !errors.Is(c.err, context.Canceled) || !strings.Contains(c.err.Error(), ahead+" ahead in the queue") || errors.As(c.err, &leaving) != leaves {
				x.Errorf("got %v, want %s ahead, and a node to delete: %v", c.err, ahead, leaves)
			}
			if leaving != nil {
				<-leaving.Removed
			}
		}
		begin := func() (*call, context.CancelFunc) {
			ctx, cancel := context.WithCancel(context.Background())
			return x.calls(ctx), cancel
		}
		if !x.of.Together { // behind a holder of the process
			a, cancelA := begin()
			x.queues(2)
			b, cancelB := begin()
			stop(b, cancelB, "4", false)
			stop(a, cancelA, "1", false)
			for _, next := range x.line { // the others have kept their places
				x.must(nil, x.first.Leave(x.Context(), nil))
				<-next.done
				x.first = next.tenure
			}
			x.line = nil
		}
		x.must(nil, x.first.Leave(x.Context(), nil))
		// Behind another client.
		x.comes(znode.Write)
		theirs := x.names()[0]
		a, cancelA := begin()
		b, cancelB := begin()
		stop(b, cancelB, "1", false)
		stop(a, cancelA, "1", true)
		if n := len(x.names()); n != 1 {
			x.Fatalf("%d nodes", n)
		}
		for range 30 { // no caller waits for an acquire that was given up
			c, cancelC := begin()
			cancelC()
			<-c.done
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			_, _, err := x.of.Acquire(ctx, true)
			if cancel(); !errors.Is(err, context.DeadlineExceeded) {
				x.Fatalf("got %v", err)
			}
		}
		x.queues(1)
		x.deletes(theirs)
		if next := x.line[0]; next.waits() {
			x.Error("the next caller waits for an acquire that was given up")
		} else {
			x.must(nil, next.tenure.Leave(x.Context(), nil))
		}
	})
}

// The turn of a caller comes while it is canceled: it holds, or the lock is free.
func TestACallerIsCanceledInItsTurn(t *testing.T) {
	t.Parallel()
	play(t, znode.Write, Sharing{Passes: 100}, func(x *story) {
		for i := range 30 {
			ctx, cancel := context.WithCancel(context.Background())
			c := x.calls(ctx)
			if i%2 == 0 {
				cancel() // the goroutine of the caller is woken, and runs when it has been given its turn
			}
			x.must(nil, x.first.Leave(x.Context(), nil))
			cancel()
			if <-c.done; c.err == nil {
				x.must(nil, c.tenure.Leave(x.Context(), nil))
			}
			synctest.Wait()
			if n := len(x.names()); n != 0 {
				x.Fatalf("%d nodes", n)
			}
			x.first = x.enters(x.of)
		}
		x.must(nil, x.first.Leave(x.Context(), nil))
	})
}

// A hold that has ended does not withdraw the grant that was passed on.
func TestAHoldThatHasEndedWithdrawsNothing(t *testing.T) {
	t.Parallel()
	play(t, znode.Write, Sharing{Passes: 1}, func(x *story) {
		h := new(Hold)
		h.Begin(x.first.grant, x.queue, x.first, nil)
		x.queues(1)
		x.must(nil, h.Release(x.Context()))
		<-x.line[0].done
		if err := h.Release(x.Context()); !errors.Is(err, hold.ErrReleased) || x.first.grant.Err() != nil {
			x.Errorf("released again: %v, and the other hold: %v", err, x.first.grant.Err())
		}
		if err := x.of.Withdraw(h); !errors.Is(err, hold.ErrReleased) || x.of.current.Load() != x.first || x.line[0].tenure != x.first {
			x.Errorf("got %v", err)
		}
	})
}

// Readers that wait together: a later one joins their acquire, unless a writer has come behind it, or
// the acquire has ended while it finds that out.
func TestWhichAcquireAReaderJoins(t *testing.T) {
	t.Parallel()
	play(t, znode.Read, Sharing{}, func(x *story) {
		x.must(nil, x.first.Leave(x.Context(), nil))
		theirs := x.other(znode.Write)
		x.queues(1)
		f := x.proxy.Next(proxy.ReadOp, proxy.HoldRequest)
		x.queues(1)
		<-f.Fired()
		x.deletes(theirs)
		f.Release()
		synctest.Wait()
		for _, c := range x.line {
			if c.waits() {
				x.Fatal("it waits for an acquire that has ended")
			}
			x.must(nil, c.tenure.Leave(x.Context(), nil))
		}
		writes(x)
		theirs = x.names()[0]
		x.queues(2)
		if n := len(x.names()); n != 2 {
			x.Errorf("%d nodes, want one for the readers", n)
		}
		writes(x)
		x.queues(1)
		if n := len(x.names()); n != 4 {
			x.Errorf("%d nodes, want another for the last reader", n)
		}
		x.deletes(theirs)
		if c := x.line; c[2].waits() || c[3].waits() || !c[4].waits() {
			x.Error("the last reader has overtaken a writer, or the others wait for it")
		}
	})
}

// endsLate is canceled between the first and the second call of Err, and closes no channel.
type endsLate struct {
	context.Context
	called bool
}

func (c *endsLate) Err() error {
	if !c.called {
		c.called = true
		return nil
	}
	return context.Canceled
}

func TestACallerThatIsCanceledAtItsGrantDoesNotHold(t *testing.T) {
	t.Parallel()
	stories(t, "canceled", Sharing{Passes: 1}, func(x *story) {
		x.must(nil, x.first.Leave(x.Context(), nil))
		for range 3 {
			_, _, err := x.of.Acquire(&endsLate{Context: context.Background()}, true)
			if synctest.Wait(); !errors.Is(err, context.Canceled) || len(x.names()) > 0 {
				x.Errorf("%v, and %d nodes", err, len(x.names()))
			}
		}
	})
}

// A try is refused without a request while the process holds or waits; readers hold together. No
// call begins with a context that has ended.
func TestWhatATryDoes(t *testing.T) {
	t.Parallel()
	stories(t, "try", Sharing{Passes: 1, MaxIdle: maxIdle}, func(x *story) {
		const leaves = "an idle holder leaves soon"
		try := func(what string, want error) {
			x.Helper()
			before := x.requests()
			g, by, err := x.of.Acquire(x.Context(), false)
			switch {
			case !errors.Is(err, want):
				x.Errorf("%s: got %v, want %v", what, err, want)
			case err != nil && x.requests() != before && what != leaves && !x.of.Together:
				x.Errorf("%s: %d requests", what, x.requests()-before)
			case err == nil:
				if g.Err() != nil || by.(*Tenure).users.Load() < 1 {
					x.Errorf("%s: no hold", what)
				}
				x.must(nil, by.Leave(x.Context(), nil))
			}
		}
		busy := hold.ErrBusy
		if x.of.Together {
			busy = nil
		}
		try("held", busy)
		x.must(nil, x.first.Leave(x.Context(), nil))
		if x.of.Together {
			x.of.pending = new(Tenure)
		}
		try("free; another reader acquires it", nil)
		x.of.pending = nil
		for _, pause := range []time.Duration{20 * time.Millisecond, time.Hour} {
			x.must(x.witness.Client().Set(x.queue.dir, nil, -1))
			theirs, began, want := x.other(znode.Write), time.Now(), error(nil)
			time.AfterFunc(pause, func() { x.goes(theirs) }) // virtual
			if pause == time.Hour {
				want = hold.ErrBusy
			}
			if try(leaves, want); time.Since(began) > 60*time.Millisecond {
				x.Errorf("after %v", time.Since(began))
			}
			time.Sleep(pause + time.Second) // virtual
		}
		x.first = x.enters(x.of)
		x.idle()
		if !x.of.Together {
			if t, err := x.of.wait(x.Context()); t != x.first {
				x.Errorf("a caller that has found it held queues behind the idle grant: %v", err)
			}
			x.must(nil, x.first.Leave(x.Context(), nil))
		}
		if _, _, err := x.of.Acquire(NoWait, true); !errors.Is(err, context.Canceled) || x.first.users.Load() != 0 {
			x.Errorf("a call that was canceled before enters: %v", err)
		}
		try("idle", nil)
		writes(x)
		theirs := x.names()
		x.queues(1)
		try("a caller waits", hold.ErrBusy)
		for _, path := range theirs {
			if strings.Contains(path, "write") && path != x.path() {
				x.deletes(path)
			}
		}
		<-x.line[0].done
		x.must(nil, x.line[0].err)
		x.must(nil, x.line[0].tenure.Leave(x.Context(), nil))
	})
}
