package zklocks_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/contract"
	"github.com/zklocks/zklocks/internal/test/locks"
	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/internal/wire"
	"github.com/zklocks/zklocks/observe"
	"github.com/zklocks/zklocks/rwlock"
	"github.com/zklocks/zklocks/semaphore"
)

// A pair is two locks, a client that takes both, and another client.
type pair struct {
	*contract.Stage
	conn  *wire.Conn
	proxy *proxy.Proxy
	other *wire.Conn
	paths [2]string
}

// inPair runs a test of two locks, which must have no node left at its end.
func inPair(t *testing.T, play func(p *pair)) {
	t.Helper()
	contract.InMemory(t, "", func(s *contract.Stage) {
		conn, through := s.Behind()
		p := &pair{Stage: s, conn: conn, proxy: through, other: s.Connect(), paths: [2]string{s.Path + "-a", s.Path + "-b"}}
		play(p)
		for _, path := range p.paths {
			test.AssertEmpty(s, s.Witness, path)
		}
	})
}

// lock is the client's value of lock i.
func (p *pair) lock(i int, opts ...rwlock.Option) *rwlock.RWMutex {
	return rwlock.New(locks.On(p.conn), p.paths[i], opts...)
}

// both are the client's locks as one.
func (p *pair) both() zklocks.Locker { return zklocks.All(p.lock(0), p.lock(1)) }

// held has the other client hold lock i.
func (p *pair) held(i int) *zklocks.Hold {
	p.Helper()
	return p.take(rwlock.New(locks.On(p.other), p.paths[i]).Lock)
}

// take takes what is free.
func (p *pair) take(lock func(context.Context) (*zklocks.Hold, error)) *zklocks.Hold {
	p.Helper()
	return contract.Begin(p, p.Ctx, lock).Granted()
}

func (p *pair) release(h *zklocks.Hold) { p.Helper(); p.Must(h.Release(p.Ctx)) }

// nodes asserts how many nodes stand in the two directories.
func (p *pair) nodes(want ...int) {
	p.Helper()
	p.Settle()
	for i, path := range p.paths {
		if names := test.Children(p, p.Witness, path); len(names) != want[i] {
			p.Fatalf("%s has %q, want %d nodes", path, names, want[i])
		}
	}
}

// own is the path of the client's node in directory i.
func (p *pair) own(i int) string {
	p.Helper()
	for _, name := range test.Children(p, p.Witness, p.paths[i]) {
		node := p.paths[i] + "/" + name
		_, stat, err := p.Witness.Exists(node)
		p.Must(err)
		if stat.EphemeralOwner == p.conn.SessionID() {
			return node
		}
	}
	p.Fatalf("the client has no node in %s", p.paths[i])
	return ""
}

// kill deletes the client's node in directory i, as an operator would.
func (p *pair) kill(i int) { p.Helper(); p.Must(p.Witness.Delete(p.own(i), -1)); p.CatchUp(p.conn) }

// each runs a test for the one and for the other of two locks.
func each(t *testing.T, play func(p *pair, one, other int)) {
	for one := range 2 {
		t.Run(fmt.Sprintf("lock %d", one), func(t *testing.T) {
			inPair(t, func(p *pair) { play(p, one, 1-one) })
		})
	}
}

// One transaction creates all nodes, and another one deletes them.
func TestAllTakesItsLocksInOneTransaction(t *testing.T) {
	inPair(t, func(p *pair) {
		p.release(p.take(p.both().Lock)) // makes the directories
		before := p.proxy.Seen(proxy.AnyOp)
		hold := p.take(p.both().Lock)
		for i := range p.paths {
			_, stat, err := p.Witness.Exists(p.own(i))
			p.Must(err)
			if stat.Czxid != hold.Token() {
				p.Errorf("node %d: czxid %#x, token %#x", i, stat.Czxid, hold.Token())
			}
		}
		p.release(hold)
		p.nodes(0, 0)
		if n := p.proxy.Seen(proxy.AnyOp) - before; n != 2 {
			p.Errorf("%d requests, want 2", n)
		}
		p.Is(hold.Release(p.Ctx), zklocks.ErrReleased)
		p.Is(hold.Err(), zklocks.ErrReleased)
	})
}

// Behind the holder of one of the locks: a create, a listing, a request for all watches, a delete.
func TestAllBehindOneHolderTakesFourRequests(t *testing.T) {
	each(t, func(p *pair, one, other int) {
		p.release(p.take(p.both().Lock)) // makes the directories
		busy := p.held(one)
		before := p.proxy.Seen(proxy.AnyOp)
		waiting := contract.Begin(p, p.Ctx, p.both().Lock)
		p.nodes(2-one, 1+one) // the lock that is held has two nodes
		p.CatchUp(p.conn)
		p.release(busy)
		p.release(waiting.Granted())
		exists := p.proxy.Seen(proxy.ExistsOp) // what CatchUp asks
		if n := p.proxy.Seen(proxy.AnyOp) - before - exists; n != 4 {
			p.Errorf("%d requests, want 4", n)
		}
	})
}

// The turn at one lock has come, and its node is deleted while the other lock is waited for. The
// caller then queues again at both, behind the client that holds the one.
func TestANodeThatIsDeletedAfterItsTurnHasComeGrantsNothing(t *testing.T) {
	each(t, func(p *pair, one, other int) {
		busy := p.held(other)
		waiting := contract.Begin(p, p.Ctx, p.both().Lock)
		p.nodes(1+one, 1+other) // the other lock has two nodes
		p.kill(one)
		taken := p.held(one)
		p.release(busy)
		waiting.Waits()
		p.release(taken)
		hold := waiting.Granted()
		p.Must(hold.Verify(p.Ctx))
		p.nodes(1, 1)
		p.release(hold)
	})
}

// The number of permits shrinks after the turn at the semaphore has come.
func TestALimitThatShrinksAfterTheTurnHasComeIsKept(t *testing.T) {
	inPair(t, func(p *pair) {
		path := p.Path + "-permits"
		theirs := semaphore.New(locks.On(p.other), path, 2)
		permit := p.take(theirs.Locker(1).Lock)
		busy := p.held(1)
		both := zklocks.All(semaphore.New(locks.On(p.conn), path, 2).Locker(1), p.lock(1))
		waiting := contract.Begin(p, p.Ctx, both.Lock)
		p.nodes(0, 2)
		p.Must(theirs.Resize(p.Ctx, 1))
		p.CatchUp(p.conn)
		p.release(busy)
		waiting.Waits()
		p.release(permit)
		p.release(waiting.Granted())
		test.AssertEmpty(p, p.Witness, path+"/queue")
	})
}

// The same without an event: the caller finds out when it has waited for about as long again.
func TestALimitThatShrinksUnheardAfterTheTurnHasComeIsKept(t *testing.T) {
	inPair(t, func(p *pair) {
		path := p.Path + "-permits"
		theirs := semaphore.New(locks.On(p.other), path, 2)
		permit := p.take(theirs.Locker(1).Lock)
		busy := p.held(1)
		both := zklocks.All(semaphore.New(locks.On(p.conn), path, 2).Locker(1), p.lock(1))
		waiting := contract.Begin(p, p.Ctx, both.Lock)
		p.nodes(0, 2)
		const long = 10 * time.Second
		time.Sleep(long) // virtual: it looks
		_, err := p.Witness.SetACL(path, zk.WorldACL(zk.PermAll&^zk.PermRead), -1)
		p.Must(err)
		_, err = p.Witness.Set(path, []byte("1"), -1)
		p.Must(err)
		_, err = p.Witness.SetACL(path, zk.WorldACL(zk.PermAll), -1)
		p.Must(err)
		time.Sleep(long) // virtual: it looks once more
		p.release(busy)
		waiting.Waits()
		p.release(permit)
		p.release(waiting.Granted())
		test.AssertEmpty(p, p.Witness, path+"/queue")
	})
}

// One lock cannot be had any more while both are waited for: the call ends at once and names it.
func TestAFailureAtOneLockEndsTheWaitForTheOthers(t *testing.T) {
	inPair(t, func(p *pair) {
		path := p.Path + "-permits"
		theirs := semaphore.New(locks.On(p.other), path, 2)
		permit := p.take(theirs.Locker(1).Lock)
		busy := p.held(0)
		both := zklocks.All(p.lock(0), semaphore.New(locks.On(p.conn), path, 2).Locker(2))
		waiting := contract.Begin(p, p.Ctx, both.Lock)
		p.nodes(2, 0)
		p.Must(theirs.Resize(p.Ctx, 1))
		p.CatchUp(p.conn)
		p.release(busy)
		err := waiting.Failed()
		p.Is(err, semaphore.ErrTooMany)
		if !strings.Contains(err.Error(), ": "+path+": ") {
			p.Errorf("error %q, want one of %s", err, path)
		}
		p.nodes(0, 0)
		p.release(permit)
		test.AssertEmpty(p, p.Witness, path+"/queue")
	})
}

// A writer of the process is queued behind a node whose turn has come, and which waits for the
// other lock. Its observers are told that one node is ahead.
func TestAFollowerOfANodeWhoseTurnHasComeCountsOne(t *testing.T) {
	for name, waited := range map[string]bool{"at once": false, "after a wait": true} {
		t.Run(name, func(t *testing.T) {
			inPair(t, func(p *pair) {
				events := contract.NewEvents(p)
				a := p.lock(0, zklocks.WithObserver(events.Observer()))
				busy := p.held(1)
				told := 0 // how often a node was queued
				var first *zklocks.Hold
				if waited {
					first = p.held(0)
					told++
				}
				waiting := contract.Begin(p, p.Ctx, zklocks.All(a, p.lock(1)).Lock)
				p.Settle()
				if waited {
					p.release(first)
				}
				p.nodes(1, 2)
				next := contract.Begin(p, p.Ctx, a.Lock)
				p.nodes(2, 2)
				queued := contract.Of[observe.Queued](events)
				if len(queued) != told+1 || queued[told].Ahead != 1 {
					p.Fatalf("%+v, want event %d with one node ahead", queued, told+1)
				}
				p.release(busy)
				hold := waiting.Granted()
				next.Waits()
				p.release(hold)
				p.release(next.Granted())
				events.Balanced()
			})
		})
	}
}

// TryLock asks for each of the locks before it writes.
func TestATryOfSeveralThatFindsOneTakenWritesNothing(t *testing.T) {
	each(t, func(p *pair, one, other int) {
		p.release(p.take(p.both().Lock)) // makes the directories
		taken := p.held(one)
		before := p.proxy.Seen(proxy.CreateOp)
		_, err := p.both().TryLock(p.Ctx)
		p.Is(err, zklocks.ErrBusy)
		if err != nil && !strings.HasSuffix(err.Error(), p.paths[one]+": busy") {
			p.Errorf("error %q, want one of %s", err, p.paths[one])
		}
		if n := p.proxy.Seen(proxy.CreateOp) - before; n != 0 {
			p.Errorf("%d creates", n)
		}
		p.nodes(other, one)
		// Nor the number of permits of a semaphore that does not exist.
		fresh := p.paths[other] + "-fresh"
		var some [2]zklocks.Locker
		some[other], some[one] = semaphore.New(locks.On(p.conn), fresh, 5).Locker(1), p.lock(one)
		_, err = zklocks.All(some[0], some[1]).TryLock(p.Ctx)
		p.Is(err, zklocks.ErrBusy)
		if there, _, err := p.Witness.Exists(fresh); there || err != nil {
			p.Errorf("%s exists: %v, %v", fresh, there, err)
		}
		p.release(taken)
	})
}

// Another client has taken one of the locks between the look and the create.
func TestATryOfSeveralThatCameSecondLeavesNothing(t *testing.T) {
	each(t, func(p *pair, one, other int) {
		create := p.proxy.Next(proxy.CreateOp, proxy.HoldRequest)
		p.release(p.held(0)) // makes the directories
		p.release(p.held(1))
		try := contract.Begin(p, p.Ctx, p.both().TryLock)
		<-create.Fired()
		taken := p.held(one)
		create.Release()
		p.Is(try.Failed(), zklocks.ErrBusy)
		p.nodes(other, one)
		p.release(taken)
	})
}

// A caller that stops waiting leaves no node in any directory.
func TestACanceledWaitForSeveralLeavesNothing(t *testing.T) {
	each(t, func(p *pair, one, other int) {
		events := contract.NewEvents(p)
		busy := p.held(one)
		var some [2]zklocks.Locker
		for i := range some {
			some[i] = p.lock(i, zklocks.WithObserver(events.Observer()))
		}
		began := time.Now()
		waiting := contract.Begin(p, p.Ctx, zklocks.All(some[0], some[1]).Lock)
		p.nodes(1+other, 1+one)
		time.Sleep(time.Second) // virtual: the wait lasts
		waiting.Stop()
		p.nodes(other, one)
		contract.Next[observe.Failed](events, 2)
		for i, failed := range contract.Of[observe.Failed](events) {
			if failed.Path != p.paths[i] || failed.Waited > time.Since(began) || failed.Cause != waiting.Err {
				p.Errorf("%+v, want that of %s", failed, p.paths[i])
			}
		}
		p.release(busy)
		events.Balanced()
	})
}

// All of All takes the locks of both.
func TestAllMayBeNested(t *testing.T) {
	inPair(t, func(p *pair) {
		third := p.Path + "-c"
		nested := zklocks.All(zklocks.All(p.lock(0)), zklocks.All(zklocks.All(p.lock(1).RLocker()), rwlock.New(locks.On(p.conn), third)))
		hold := p.take(nested.Lock)
		p.nodes(1, 1)
		if n := len(test.Children(p, p.Witness, third)); n != 1 || len(hold.Guard()) != 3 {
			p.Errorf("%d nodes in the third directory, guard %v", n, hold.Guard())
		}
		p.release(hold)
		test.AssertEmpty(p, p.Witness, third)
	})
}

// The turn at one lock ends, because there are fewer permits now, and comes again.
func TestATurnThatEndsIsWaitedForAgain(t *testing.T) {
	inPair(t, func(p *pair) {
		path := p.Path + "-permits"
		theirs, ours := semaphore.New(locks.On(p.other), path, 2), semaphore.New(locks.On(p.conn), path, 2)
		permit := p.take(theirs.Locker(1).Lock)
		busy := p.held(0)
		waiting := contract.Begin(p, p.Ctx, zklocks.All(p.lock(0), ours.Locker(1)).Lock)
		p.nodes(2, 0)
		p.Must(theirs.Resize(p.Ctx, 1))
		p.CatchUp(p.conn)
		p.Settle() // it has listed
		before := p.proxy.Seen(proxy.AnyOp)
		p.release(busy)
		waiting.Waits()
		p.Settle()
		if n := p.proxy.Seen(proxy.AnyOp) - before; n > 5 { // it reads the number, lists, and sets its watches
			p.Errorf("%d requests after one of two turns has come", n)
		}
		p.release(permit)
		p.release(waiting.Granted())
	})
}

// The same, where the news of both comes at once: in each round the client may take either first.
func TestALimitThatShrinksWithTheLastTurnIsKept(t *testing.T) {
	atDesk(t, func(d *desk) {
		take := func(lock zklocks.Locker) *zklocks.Hold {
			h, err := lock.Lock(d.Context())
			if err != nil {
				d.Fatal(err)
			}
			return h
		}
		release := func(h *zklocks.Hold) {
			if err := h.Release(d.Context()); err != nil {
				d.Error(err)
			}
		}
		theirs := semaphore.New(d.other, "/permits", 2)
		both := zklocks.All(semaphore.New(d.conn, "/permits", 2).Locker(1), d.lock)
		for range 20 {
			permit, busy := take(theirs.Locker(1)), take(rwlock.New(d.other, path))
			granted := make(chan *zklocks.Hold)
			go func() { granted <- take(both) }()
			synctest.Wait()
			time.Sleep(100 * time.Millisecond) // virtual: its turn at the semaphore has come
			d.host.Freeze()
			if err := theirs.Resize(d.Context(), 1); err != nil {
				d.Fatal(err)
			}
			release(busy)
			d.host.Thaw()
			select {
			case h := <-granted:
				d.Error("granted, although the only permit is held")
				release(h)
				release(permit)
			case <-time.After(time.Second): // virtual: the news has arrived
				release(permit)
				release(<-granted)
			}
			if err := theirs.Resize(d.Context(), 2); err != nil {
				d.Fatal(err)
			}
		}
	})
}
