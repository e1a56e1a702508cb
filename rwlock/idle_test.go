package rwlock_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/queue"
	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/contract"
	"github.com/zklocks/zklocks/internal/test/locks"
	"github.com/zklocks/zklocks/rwlock"
)

const maxIdle = 20 * time.Second

// keeper is a client that keeps its lock, for writing or for reading.
type keeper struct {
	*client
	lock func(context.Context) (*zklocks.Hold, error)
}

func (k keeper) take() *zklocks.Hold {
	k.Helper()
	return contract.Begin(k, k.Ctx, k.lock).Granted()
}

// idle uses the lock until it is idle, and returns its token.
func (k keeper) idle() (token int64) {
	k.Helper()
	for range 100 {
		h := k.take()
		token = h.Token()
		release(k.Stage, h)
		if len(test.Children(k, k.Witness.Client(), k.Dir)) == 1 {
			return token
		}
	}
	k.Fatal("the lock is not kept")
	return 0
}

// eachIdle runs a test with a lock that is kept for writing, and with a lock kept for reading.
func eachIdle(t *testing.T, test func(k keeper), opts ...rwlock.Option) {
	for _, mode := range []string{"write", "read"} {
		t.Run(mode, func(t *testing.T) {
			contract.InMemory(t, "", func(s *contract.Stage) {
				makeDir(s)
				c := behind(s).with(append(opts, rwlock.WithMaxIdle(maxIdle))...)
				k := keeper{c, c.Lock}
				if mode == "read" {
					k.lock = c.RLock
				}
				test(k)
				c.conn.Close() // or the lock might stay for a while
			})
		})
	}
}

func TestAnIdleLockIsAcquiredWithoutARequest(t *testing.T) {
	eachIdle(t, func(k keeper) {
		release(k.Stage, k.take())
		k.EmptyNow() // a lock that is used once is not kept
		token, before := k.idle(), requests(k.client)
		for range 1000 {
			h := k.take()
			if h.Token() != token || !h.Held() {
				k.Fatal("another node")
			}
			release(k.Stage, h)
			k.Is(h.Release(k.Ctx), zklocks.ErrReleased)
		}
		if n := requests(k.client) - before; n > 1 { // Held watches the node
			k.Errorf("%d requests", n)
		}
		time.Sleep(maxIdle / 2) // virtual
		k.InLine(1)
		time.Sleep(maxIdle / 2)
		k.EmptyNow()
	})
}

// A lock that is kept is confirmed every few seconds.
func TestWhatAnIdleLockCosts(t *testing.T) {
	for name, pause := range map[string]time.Duration{"busy": time.Millisecond, "now and then": time.Second} {
		eachIdle(t, func(k keeper) {
			const uses = 40
			k.idle()
			before, most := requests(k.client), int64(1)
			if pause == time.Second {
				most = uses / 2 // without the option two for each
			}
			for range uses {
				release(k.Stage, k.take())
				time.Sleep(pause) // virtual
			}
			if n := requests(k.client) - before; n > most {
				k.Errorf("%s: %d requests for %d uses, at most %d", name, n, uses, most)
			}
		})
	}
}

// A client that acquires an idle lock waits for two round trips more than for a free lock.
func TestAnIdleLockIsGivenUpWhenItIsWanted(t *testing.T) {
	eachIdle(t, func(k keeper) {
		other := direct(k.Stage)
		for range 3 {
			token := k.idle()
			h := other.write()
			if h.Token() <= token {
				k.Error("the token did not grow")
			}
			release(k.Stage, h)
		}
		// While it is held, nobody enters it after the event.
		k.idle()
		h := k.take()
		writer := other.waitWrite(2)
		k.CatchUp(k.conn)
		next := contract.Begin(k, k.Ctx, k.lock)
		next.Waits()
		release(k.Stage, h)
		got := writer.Granted()
		next.Waits()
		release(k.Stage, got)
		release(k.Stage, next.Granted())
	})
}

// Readers of other processes do not end an idle read lock.
func TestIdleReadersOfSeveralProcesses(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		makeDir(s)
		var all []keeper
		for i := range 3 {
			c := behind(s).with(rwlock.WithMaxIdle(maxIdle))
			all = append(all, keeper{c, c.RLock})
			for range 3 {
				release(s, all[i].take())
			}
			s.InLine(i + 1)
		}
		for range 3 {
			for _, k := range all {
				before := requests(k.client)
				release(s, k.take())
				if requests(k.client) != before {
					s.Error("a request")
				}
			}
		}
		release(s, direct(s).write())
		s.EmptyNow()
	})
}

// TryLock of a process with the option is not refused because another process keeps the lock.
func TestTryLockOfAnIdleLock(t *testing.T) {
	eachIdle(t, func(k keeper) {
		plain, other := direct(k.Stage), direct(k.Stage).with(rwlock.WithMaxIdle(maxIdle))
		k.idle()
		_, err := plain.TryLock(k.Ctx)
		k.Is(err, zklocks.ErrBusy)
		h, err := other.TryLock(k.Ctx)
		k.Must(err)
		for _, try := range []func(context.Context) (*zklocks.Hold, error){k.TryLock, k.TryRLock} {
			began := time.Now()
			_, err = try(k.Ctx)
			k.Is(err, zklocks.ErrBusy)
			if took := time.Since(began); took > 60*time.Millisecond {
				k.Errorf("it is refused after %v", took)
			}
			k.InLine(1)
		}
		release(k.Stage, h)
		k.idle()
		h, err = k.TryLock(k.Ctx)
		k.Must(err)
		_, err = k.TryLock(k.Ctx)
		k.Is(err, zklocks.ErrBusy)
		release(k.Stage, h)
	})
}

// How far the servers are, or whether they answer, does not make a free lock busy.
func TestTryLockFarAway(t *testing.T) {
	eachIdle(t, func(k keeper) {
		other := direct(k.Stage).with(rwlock.WithMaxIdle(maxIdle))
		for _, delay := range []time.Duration{20 * time.Millisecond, 100 * time.Millisecond} {
			k.Venue.Latency(delay)
			for range 3 {
				h, err := other.TryLock(k.Ctx) // free, then kept by k
				k.Must(err)
				release(k.Stage, h)
				k.idle()
			}
			k.Venue.Latency(0)
		}
		k.proxy.Refuse()
		k.proxy.Cut()
		ctx, cancel := context.WithTimeout(k.Ctx, 3*time.Second)
		defer cancel()
		_, err := k.with(rwlock.WithMaxIdle(maxIdle)).TryLock(ctx)
		k.Is(err, zklocks.ErrNoAnswer)
		k.Must(k.proxy.Accept())
		release(k.Stage, k.take()) // it has connected again
	})
}

// Another call of the same value may conflict with an idle lock. It does not wait for an event.
func TestAnIdleLockIsNotAheadOfItsOwnValue(t *testing.T) {
	eachIdle(t, func(k keeper) {
		several := zklocks.All(k.RWMutex, k.with().RLocker())
		for i, take := range []func(context.Context) (*zklocks.Hold, error){
			k.TryLock, k.TryRLock, zklocks.All(k.RWMutex).Lock, zklocks.All(k.RWMutex).TryLock, zklocks.All(k.RLocker()).TryLock, k.Lock, k.RLock,
		} {
			k.idle()
			h, err := take(k.Ctx)
			if err != nil {
				k.Fatalf("call %d: %v", i, err)
			}
			k.Must(h.Verify(k.Ctx))
			release(k.Stage, h)
		}
		_, err := several.TryLock(k.Ctx)
		if err == nil {
			k.Error("the lock is given twice")
		}
	})
}

func TestAnIdleLockThatIsAskedFor(t *testing.T) {
	eachIdle(t, func(k keeper) {
		k.idle()
		other := locks.On(k.Connect())
		members, err := k.Queue(k.Ctx)
		k.Must(err)
		if len(members) != 1 || !members[0].Holding {
			k.Fatalf("%+v", members)
		}
		k.Must(other.RequestRelease(k.Ctx, members[0]))
		time.Sleep(time.Second) // virtual
		k.EmptyNow()

		k.idle() // in its use, it is not kept
		h := k.take()
		asked := h.ReleaseRequested()
		members, err = k.Queue(k.Ctx)
		k.Must(err)
		k.Must(other.RequestRelease(k.Ctx, members[0]))
		<-asked
		release(k.Stage, h)
		k.EmptyNow()

		k.idle() // nor if its holder does not watch for requests
		h = k.take()
		members, err = k.Queue(k.Ctx)
		k.Must(err)
		k.Must(other.RequestRelease(k.Ctx, members[0]))
		time.Sleep(time.Second) // virtual
		release(k.Stage, h)
		k.EmptyNow()
	})
}

// A program that may be about to exit leaves no lock.
func TestACanceledReleaseDoesNotKeepTheLock(t *testing.T) {
	eachIdle(t, func(k keeper) {
		for _, kept := range []bool{false, true} {
			if k.idle(); !kept {
				release(k.Stage, direct(k.Stage).write())
				release(k.Stage, k.take())
			}
			ctx, cancel := context.WithCancel(k.Ctx)
			k.Is(zklocks.Do(ctx, k.lock, func(context.Context, *zklocks.Hold) error { cancel(); return nil }), nil)
			k.EmptyNow()
		}
		k.idle()
		h := k.take()
		_ = h.Release(canceled(k.Ctx))
		k.Settle()
		k.EmptyNow()
		k.idle()
		k.conn.Close()
		k.EmptyNow()
	})
}

func TestAnIdleLockThatIsLost(t *testing.T) {
	for name, lose := range map[string]func(keeper){
		"expired": func(k keeper) { k.Expire(k.conn) },
		"deleted": func(k keeper) {
			k.Must(k.Witness.Client().Delete(k.Dir+"/"+test.Children(k, k.Witness.Client(), k.Dir)[0], -1))
		},
	} {
		t.Run(name, func(t *testing.T) {
			eachIdle(t, func(k keeper) {
				token := k.idle()
				lose(k)
				k.CatchUp(k.conn)
				h := k.take()
				if h.Token() <= token {
					k.Error("the token of the lock that was lost")
				}
				release(k.Stage, h)
			})
		})
	}
}

// The lease of an idle lock ends, and its session lives.
func TestAnIdleLockWhoseDeadlineHasPassed(t *testing.T) {
	eachIdle(t, func(k keeper) {
		token := k.idle()
		k.proxy.Refuse()
		for {
			ctx, cancel := context.WithTimeout(k.Ctx, 10*time.Millisecond)
			h, err := k.lock(ctx)
			cancel()
			if err != nil { // the watches have ended with the connection
				break
			}
			k.Must(h.Err())
			_ = h.Release(canceled(k.Ctx))
		}
		k.Must(k.proxy.Accept())
		release(k.Stage, k.take()) // it has connected again
		h := k.take()
		if h.Token() <= token {
			k.Error("the token of the lost connection")
		}
		release(k.Stage, h)
	})
}

// The directory has one child, which is not the own node.
func TestALockIsNotKeptInPlaceOfAnother(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		makeDir(s)
		c := behind(s).with(rwlock.WithMaxIdle(maxIdle))
		k := keeper{c, c.Lock}
		for range 2 {
			release(s, k.take())
		}
		h := k.take()
		writer := direct(s).waitWrite(2)
		s.Must(s.Witness.Client().Delete(contract.NodeOf(h), -1))
		theirs := writer.Granted()
		s.Is(h.Release(s.Ctx), zklocks.ErrLost)
		s.Must(theirs.Verify(s.Ctx))
		release(s, theirs)
	})
}

func TestAnIdleLockAcrossAReconnect(t *testing.T) {
	eachIdle(t, func(k keeper) {
		for range 3 {
			k.idle()
			k.proxy.Cut()
			k.CatchUp(k.conn)
			h := k.take()
			k.Must(h.Verify(k.Ctx))
			writer := contract.Begin(k, k.Ctx, direct(k.Stage).Lock)
			k.Settle()
			writer.Waits()
			release(k.Stage, h)
			release(k.Stage, writer.Granted())
		}
	})
}

func TestADowngradedLockIsNotKept(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		makeDir(s)
		c := behind(s).with(rwlock.WithMaxIdle(maxIdle))
		k := keeper{c, c.Lock}
		k.idle()
		h := k.take()
		s.Must(c.Downgrade(s.Ctx, h))
		release(s, direct(s).read())
		writer := contract.Begin(s, s.Ctx, c.Lock)
		s.Settle()
		writer.Waits()
		release(s, h)
		release(s, writer.Granted())
	})
}

// The server withholds the event of a client that wants the lock, because READ on the directory was
// revoked for a moment. The client waits three seconds and not longer, although the process that
// keeps the lock is busy with it.
func TestAnIdleLockThatIsWantedWithoutAnEvent(t *testing.T) {
	eachIdle(t, func(k keeper) {
		k.idle()
		revoke := func(perms int32) {
			_, err := k.Witness.Client().SetACL(k.Dir, zk.WorldACL(perms), -1)
			k.Must(err)
		}
		revoke(zk.PermAll &^ zk.PermRead)
		_, err := k.Witness.Client().Set(k.Dir, nil, -1)
		k.Must(err)
		_, err = k.Witness.Client().Create(k.Dir+"/x", nil, 0, zk.WorldACL(zk.PermAll))
		k.Must(err)
		k.Must(k.Witness.Client().Delete(k.Dir+"/x", -1))
		revoke(zk.PermAll)
		k.CatchUp(k.conn)
		writer := direct(k.Stage).waitWrite(2)
		began := time.Now()
		for writing := true; writing; {
			select {
			case <-writer.Done:
				writing = false
			default:
				ctx, cancel := context.WithTimeout(k.Ctx, 50*time.Millisecond)
				if h, err := k.lock(ctx); err == nil {
					release(k.Stage, h)
				}
				cancel()
				time.Sleep(100 * time.Millisecond) // virtual
			}
		}
		if took := time.Since(began); took > queue.FirstRecheck+time.Second {
			k.Errorf("it waited for %v", took)
		}
		release(k.Stage, writer.Granted())
	})
}

// With names of other libraries writers keep their lock. Readers do not: writers of these libraries
// send no announcement.
func TestIdleLocksWithOtherNames(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		makeDir(s)
		for _, names := range []rwlock.Option{rwlock.WithCuratorNames(), rwlock.WithKazooNames()} {
			c := behind(s).with(names, rwlock.WithMaxIdle(maxIdle))
			for range 10 {
				release(s, c.read())
				s.EmptyNow()
			}
			keeper{c, c.Lock}.idle()
			release(s, direct(s).with(names).write())
			s.EmptyNow()
		}
	})
}

// 64 callers of a process use a lock without a pause, and another process wants it. No local hold
// begins after the event has arrived. The other process waits for the holds under way, and for two
// round trips, seldom three, more than for a free lock.
func TestIdleLocksAreFair(t *testing.T) {
	const work = time.Millisecond
	for _, delay := range []time.Duration{0, work / 4, 3 * work} {
		eachIdle(t, func(k keeper) {
			other := direct(k.Stage)
			k.idle()
			k.Venue.Latency(delay)
			defer k.Venue.Latency(0)
			ctx, stop := context.WithCancel(k.Ctx)
			var callers sync.WaitGroup
			var mu sync.Mutex
			var began []time.Time // of the local holds
			for i := range 64 {
				callers.Go(func() {
					time.Sleep(time.Duration(i) * work / 64) // virtual
					for ctx.Err() == nil {
						h, err := k.lock(ctx)
						if err != nil {
							continue
						}
						mu.Lock()
						began = append(began, time.Now())
						mu.Unlock()
						time.Sleep(work)
						_ = h.Release(k.Ctx)
					}
				})
			}
			for i := range 20 {
				time.Sleep(50*(work+delay) + time.Duration(i)*work/20)
				h := other.write()
				granted := time.Now()
				_, stat, err := k.Witness.Client().Exists(contract.NodeOf(h))
				k.Must(err)
				queued := time.UnixMilli(stat.Ctime + 1) // rounded up
				// For a free lock it would be delay. The third round trip is necessary if the hold
				// ends after the listing of the other process, and before its watch.
				if waited := granted.Sub(queued); waited > delay+max(work+4*delay, 6*delay) {
					k.Errorf("with a delay of %v it waited for %v", delay, waited)
				}
				mu.Lock()
				for _, at := range began {
					if at.After(queued.Add(delay)) && at.Before(granted) {
						k.Errorf("with a delay of %v a local hold begins %v later", delay, at.Sub(queued))
					}
				}
				mu.Unlock()
				release(k.Stage, h)
			}
			stop()
			callers.Wait()
			if len(began) < 800 {
				k.Errorf("%d local holds", len(began))
			}
		})
	}
}

// The context of a release or of a call is canceled at each instant, while requests are under way.
// Afterwards the lock is free, or idle.
func TestACancellationWhileALockBecomesIdle(t *testing.T) {
	eachIdle(t, func(k keeper) {
		other := direct(k.Stage)
		k.idle()
		k.Venue.Latency(time.Millisecond)
		defer k.Venue.Latency(0)
		for at := time.Duration(0); at < 12*time.Millisecond; at += 500 * time.Microsecond {
			for _, kept := range []bool{false, true} {
				if h := other.write(); !kept {
					release(k.Stage, h)
				} else { // the call waits
					time.AfterFunc(at/2, func() { _ = h.Release(k.Ctx) }) // virtual
				}
				ctx, cancel := context.WithTimeout(k.Ctx, at)
				if h, err := k.lock(ctx); err == nil {
					_ = h.Release(ctx)
				}
				cancel()
				h := k.take()
				k.Must(h.Verify(k.Ctx))
				ctx, cancel = context.WithTimeout(k.Ctx, at)
				_ = h.Release(ctx)
				cancel()
				time.Sleep(20 * time.Millisecond) // virtual: until nothing is under way
				if n := len(test.Children(k, k.Witness.Client(), k.Dir)); n > 1 {
					k.Fatalf("%d nodes after a cancellation at %v", n, at)
				}
			}
		}
	})
}

// The time that a lock is held does not count as a time without a use.
func TestALockThatWasHeldForLongIsKept(t *testing.T) {
	eachIdle(t, func(k keeper) {
		token := k.idle()
		for _, held := range []time.Duration{3 * queue.FirstRecheck / 4, 2 * maxIdle} {
			h := k.take()
			time.Sleep(held) // virtual
			release(k.Stage, h)
			next := k.take()
			if next.Token() != token {
				k.Errorf("held for %v: another node", held)
			}
			release(k.Stage, next)
		}
	})
}

// A release whose ctx is canceled passes the lock on, too.
func TestACanceledReleaseHandsTheLockOn(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		makeDir(s)
		c := behind(s).with(rwlock.WithHandoff(3))
		h := c.write()
		next := contract.Begin(s, s.Ctx, c.Lock)
		s.Settle()
		_ = h.Release(canceled(s.Ctx))
		got := next.Granted()
		if got.Token() != h.Token() {
			s.Error("another node")
		}
		release(s, got)
	})
}
