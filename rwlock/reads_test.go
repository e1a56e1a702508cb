package rwlock_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"weak"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/contract"
	"github.com/zklocks/zklocks/internal/test/locks"
	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/observe"
	"github.com/zklocks/zklocks/rwlock"
)

// requests returns the number of the client's requests, without pings and heartbeats.
func requests(c *client) int64 { return c.proxy.Seen(proxy.AnyOp) - c.proxy.Seen(proxy.CheckOp) }

// with returns another value for the same lock on the same connection.
func (c *client) with(opts ...rwlock.Option) *client {
	return &client{c.Stage, rwlock.New(locks.On(c.conn), c.Path, opts...), c.conn, c.proxy}
}

func TestASharedReadCostsNoRequest(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		c := behind(s)
		first := c.read()
		before := requests(c)
		for range 100 {
			h, err := c.RLock(s.Ctx)
			s.Must(err)
			if h.Token() != first.Token() || !h.Held() {
				s.Fatal("not the same read lock")
			}
			try, err := c.TryRLock(s.Ctx)
			s.Must(err)
			unlock(s, h)
			s.Is(h.Release(s.Ctx), zklocks.ErrReleased)
			s.Is(h.Verify(s.Ctx), zklocks.ErrReleased)
			s.Is(h.Err(), zklocks.ErrReleased)
			_, err = h.Multi(s.Ctx) // although the node still exists
			s.Is(err, zklocks.ErrReleased)
			if !h.ValidUntil().IsZero() || try.ValidUntil().IsZero() {
				s.Errorf("deadlines: %v of the one that has ended, %v of the other", h.ValidUntil(), try.ValidUntil())
			}
			unlock(s, try)
		}
		if n := requests(c) - before; n != 0 {
			s.Errorf("%d requests for 200 shared reads", n)
		}
		s.Must(first.Verify(s.Ctx))
		unlock(s, first)
		s.Empty()
	})
}

func TestReadersThatWaitShareOneNode(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		w, c := direct(s), direct(s)
		h := w.write()
		var readers []*attempt
		for range 20 {
			readers = append(readers, contract.Begin(s, s.Ctx, c.RLock))
		}
		s.InLine(2)
		readers[0].Stop() // the other readers still wait
		second := w.waitWrite(3)
		s.CatchUp(c.conn)
		late := c.waitRead(4) // behind that writer
		unlock(s, h)
		for _, a := range readers[1:] {
			unlock(s, a.Granted())
		}
		h = second.Granted()
		late.Waits()
		unlock(s, h)
		unlock(s, late.Granted())
		s.Empty()
	})
}

// A reader whose ctx never ends acquires on its own goroutine, also for the readers that share its
// wait.
func TestAReaderThatNeverGivesUpWaitsForOthers(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		w, c := direct(s), direct(s)
		h := w.write()
		patient := contract.Begin(s, s.Ctx, func(context.Context) (*zklocks.Hold, error) { return c.RLock(context.Background()) })
		s.InLine(2)
		var others []*attempt
		for range 5 {
			others = append(others, contract.Begin(s, s.Ctx, c.RLock))
		}
		s.CatchUp(c.conn)
		for _, a := range others[1:] {
			a.Stop()
		}
		s.InLine(2)
		patient.Waits()
		unlock(s, h)
		unlock(s, patient.Granted())
		unlock(s, others[0].Granted())
		s.Empty()
	})
}

func TestReadersThatAllGiveUpLeaveTheQueue(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		w, c := direct(s), direct(s)
		h := w.write()
		var readers []*attempt
		for range 5 {
			readers = append(readers, contract.Begin(s, s.Ctx, c.RLock))
		}
		s.InLine(2)
		for _, a := range readers {
			a.Stop()
		}
		s.InLine(1)
		unlock(s, h)
		unlock(s, c.read())
		s.Empty()
	})
}

// Readers that come after the read that found the node gone, and before the next create, share the
// new node.
func TestReadersComeWhileTheWaitersNodeIsMadeAgain(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		c, other := behind(s), s.Connect()
		unlock(s, direct(s).read()) // the directory exists now, and c has not listed it without writers
		made := c.proxy.Next(proxy.CreateOp, proxy.HoldReply)
		first := contract.Begin(s, s.Ctx, c.RLock)
		<-made.Fired()
		for _, name := range test.Children(s, other, s.Path) {
			s.Must(other.Delete(s.Path+"/"+name, -1))
		}
		again := c.proxy.Next(proxy.CreateOp, proxy.HoldRequest)
		made.Release()
		<-again.Fired()
		second := contract.Begin(s, s.Ctx, c.RLock)
		second.Waits()
		again.Release()
		h := first.Granted()
		if h.Token() != second.Granted().Token() {
			s.Error("they do not share a node")
		}
		unlock(s, h)
		unlock(s, second.Granted())
		s.Empty()
	})
}

func TestAQueuedWriterEndsTheJoining(t *testing.T) {
	for _, where := range []string{"another process", "this process"} {
		t.Run(where, func(t *testing.T) {
			contract.InMemory(t, "", func(s *contract.Stage) {
				c, w := direct(s), direct(s)
				if where == "this process" {
					w = c
				}
				first := c.read()
				joined := c.read()
				writer := w.waitWrite(2)
				s.CatchUp(c.conn) // the event of its touch has arrived
				late := c.waitRead(3)
				_, err := c.TryRLock(s.Ctx)
				s.Is(err, zklocks.ErrBusy)
				unlock(s, first)
				writer.Waits()
				unlock(s, joined)
				h := writer.Granted()
				late.Waits()
				unlock(s, h)
				unlock(s, late.Granted())
				s.Empty()
			})
		})
	}
}

// A writer that queued after the readers' node and before their listing touches a directory that no
// client watches yet. The listing shows the writer: it blocks no reader ahead of it, and is not
// overtaken.
func TestAWriterThatCameBeforeTheLookEndsTheJoining(t *testing.T) {
	for name, linger := range map[string]time.Duration{"without linger": 0, "with linger": time.Hour} {
		t.Run(name, func(t *testing.T) {
			contract.InMemory(t, "", func(s *contract.Stage) {
				_, err := s.Witness.Create(s.Path, nil, zk.FlagPersistent, zk.WorldACL(zk.PermAll))
				s.Must(err)
				c, w := behind(s).with(rwlock.WithReadLinger(linger)), direct(s)
				made := c.proxy.Next(proxy.CreateOp, proxy.HoldReply)
				first := contract.Begin(s, s.Ctx, c.RLock)
				test.Within(s, soon, "the node is made", func() { <-made.Fired() })
				writer := w.waitWrite(2)
				made.Release()
				h := first.Granted()
				late := c.waitRead(3)
				_, err = c.TryRLock(s.Ctx)
				s.Is(err, zklocks.ErrBusy)
				writer.Waits()
				unlock(s, h)
				h = writer.Granted()
				late.Waits()
				unlock(s, h)
				unlock(s, late.Granted())
				c.conn.Close()
				s.Empty()
			})
		})
	}
}

// A writer that gives up has ended the sharing, too; then later readers share a new node.
func TestAfterAWriterHasGivenUpReadersShareAgain(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		c, w := direct(s), direct(s)
		first := c.read()
		w.waitWrite(2).Stop()
		s.InLine(1)
		s.CatchUp(c.conn)
		second := c.read()
		s.InLine(2)
		third := c.read()
		s.InLine(2)
		for _, h := range []*zklocks.Hold{first, second, third} {
			unlock(s, h)
		}
		s.Empty()
	})
}

// After the event of a writer has arrived, no reader joins before the writer has held the lock,
// however many try.
func TestAStormOfReadersDoesNotHoldAWriterUp(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		c, w := direct(s), direct(s)
		ctx, stop := context.WithCancel(s.Ctx)
		defer stop()
		var heard, written atomic.Int64 // number of the last writer
		var joins, late atomic.Int64
		var all sync.WaitGroup
		for i := range 64 {
			all.Go(func() {
				random := rand.New(rand.NewPCG(1, uint64(i)))
				for ctx.Err() == nil {
					knew := heard.Load()
					h, err := c.RLock(ctx)
					if err != nil {
						if !errors.Is(err, context.Canceled) {
							s.Error(err)
						}
						return
					}
					joins.Add(1)
					if knew > written.Load() {
						late.Add(1)
					}
					timer := time.NewTimer(time.Duration(random.IntN(3000)) * time.Microsecond)
					<-timer.C
					if err := h.Release(context.Background()); err != nil {
						s.Error(err)
					}
				}
			})
		}
		for number := range int64(20) {
			before := joins.Load()
			test.Eventually(s, soon, "the storm is on", func() bool { return joins.Load() > before+100 })
			writer := contract.Begin(s, s.Ctx, func(ctx context.Context) (*zklocks.Hold, error) {
				h, err := w.Lock(ctx)
				written.Store(number + 1)
				return h, err
			})
			test.Eventually(s, soon, "the writer is queued, or holds", func() bool {
				q, err := w.Queue(s.Ctx)
				s.Must(err)
				for _, m := range q {
					if m.Kind == observe.KindWrite {
						return true
					}
				}
				return false
			})
			s.CatchUp(c.conn)
			heard.Store(number + 1)
			h := writer.Granted()
			unlock(s, h)
		}
		stop()
		all.Wait()
		if n := late.Load(); n != 0 {
			s.Errorf("%d of %d readers came in before a writer of whom their process had heard", n, joins.Load())
		}
		s.Empty()
	})
}

func TestReadersThatComeAndGoElsewhereCauseNoTraffic(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		c, other := behind(s), direct(s)
		h := c.read()
		c.read()
		before := requests(c)
		for range 50 {
			unlock(s, other.read())
		}
		s.CatchUp(other.conn)
		if n := requests(c) - before; n != 0 {
			s.Errorf("%d requests", n)
		}
		if n := c.proxy.Notifications(); n != 0 {
			s.Errorf("woken %d times", n)
		}
		unlock(s, h)
		c.conn.Close()
		s.Empty()
	})
}

func TestTheLossOfTheNodeEndsAllThatShareIt(t *testing.T) {
	for name, lose := range map[string]func(*contract.Stage, *client){
		"deleted": func(s *contract.Stage, _ *client) {
			for _, name := range test.Children(s, s.Witness, s.Dir) {
				s.Must(s.Witness.Delete(s.Dir+"/"+name, -1))
			}
		},
		"expired": func(s *contract.Stage, c *client) { s.Expire(c.conn) },
		"closed":  func(_ *contract.Stage, c *client) { c.conn.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			contract.InMemory(t, "", func(s *contract.Stage) {
				c := direct(s)
				holds := []*zklocks.Hold{c.read(), c.read(), c.read()}
				var ends []context.Context
				var lost, done []<-chan struct{} // the waiters do not call Look
				for _, h := range holds {
					ctx := h.Context(s.Ctx)
					ends, lost, done = append(ends, ctx), append(lost, h.Lost()), append(done, ctx.Done())
				}
				silent, quiet := c.read(), c.read() // no goroutine checks these
				early := c.read()
				ended := early.Context(s.Ctx)
				unlock(s, early)
				s.Is(context.Cause(ended), zklocks.ErrReleased)

				lose(s, c)
				for i, h := range holds {
					s.Lost(lost[i])
					s.Lost(done[i])
					s.Is(context.Cause(ends[i]), zklocks.ErrLost)
					s.Is(h.Err(), zklocks.ErrLost)
					if !h.ValidUntil().IsZero() {
						s.Errorf("a lost hold has a deadline: %v", h.ValidUntil())
					}
					s.Is(h.Release(s.Ctx), zklocks.ErrLost)
				}
				s.Is(quiet.Release(s.Ctx), zklocks.ErrLost) // not the last: the other holds keep the grant
				if silent.Held() {
					s.Error("still held")
				}
				s.Is(silent.Release(s.Ctx), zklocks.ErrLost)
				if name != "closed" {
					unlock(s, c.read())
				}
				s.Empty()
			})
		})
	}
}

// The node may be held for a long time, by one reader after the other: nothing is kept of readers
// that have left.
func TestASharedReadThatHasEndedIsForgotten(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		c := direct(s)
		stays := c.read()
		gone := func() weak.Pointer[zklocks.Hold] {
			h, err := c.RLock(s.Ctx)
			s.Must(err)
			if h.Context(s.Ctx).Err() != nil || !h.Held() {
				s.Error("not held")
			}
			unlock(s, h)
			return weak.Make(h)
		}()
		test.Eventually(s, soon, "it is forgotten", func() bool {
			runtime.GC()
			return gone.Value() == nil
		})
		if !stays.Held() {
			s.Error("lost")
		}
		unlock(s, stays)
		s.Empty()
	})
}

// What a process knew on the last connection may be out of date: a writer may have queued while it
// was disconnected.
func TestNoReaderJoinsAcrossAReconnect(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		c := behind(s)
		first := c.read()
		c.proxy.Refuse()
		test.Eventually(s, soon, "it is disconnected", func() bool { return c.conn.State() != zk.StateHasSession })
		during := contract.Begin(s, s.Ctx, c.RLock)
		_, err := c.TryRLock(canceled(s.Ctx))
		s.Is(err, context.Canceled)
		during.Waits()
		s.Must(c.proxy.Accept())
		second := during.Granted()
		s.InLine(2)
		third := c.read()
		s.InLine(2) // readers may join the new grant
		for _, h := range []*zklocks.Hold{first, second, third} {
			unlock(s, h)
		}
		s.Empty()
	})
}

func TestNoReaderJoinsADowngradedHold(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		c := direct(s)
		h := c.write()
		s.Must(c.Downgrade(s.Ctx, h))
		r := c.read()
		s.InLine(2)
		if r.Token() <= h.Token() {
			s.Error("the reader has the token of the writer")
		}
		unlock(s, r)
		unlock(s, h)
		s.Empty()
	})
}

// A reader that is granted and canceled at the same time must not stay counted.
func TestCanceledJoinsLeaveNoHold(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		c, w := direct(s), direct(s)
		random := rand.New(rand.NewPCG(2, 3))
		for range 100 {
			h := w.write()
			var readers []*attempt
			for range 8 {
				readers = append(readers, contract.Begin(s, s.Ctx, c.RLock))
			}
			released := make(chan error, 1)
			go func() { released <- h.Release(s.Ctx) }()
			for _, a := range readers {
				for range random.IntN(2000) {
				}
				a.Cancel()
			}
			for _, a := range readers {
				a.Ended()
				if a.Err == nil {
					unlock(s, a.Hold)
				} else {
					s.Is(a.Err, context.Canceled)
				}
			}
			s.Must(<-released)
		}
		s.Empty()
	})
}

// READ on the directory is taken away for a moment. The announcement of a writer is withheld then,
// so the readers' process looks for it.
func TestAWriterOfWhomNoEventTells(t *testing.T) {
	withheld := func(s *contract.Stage, c *client) *attempt {
		_, err := s.Witness.SetACL(s.Dir, zk.WorldACL(zk.PermAll&^zk.PermRead), -1)
		s.Must(err)
		_, err = s.Witness.Set(s.Dir, nil, -1)
		s.Must(err)
		_, err = s.Witness.SetACL(s.Dir, zk.WorldACL(zk.PermAll), -1)
		s.Must(err)
		s.CatchUp(c.conn)
		return direct(s).waitWrite(2)
	}
	const atMost = 6 * time.Second // virtual: five until it looks, and one between two readers
	t.Run("while readers join", func(t *testing.T) {
		contract.InMemory(t, "", func(s *contract.Stage) {
			c := behind(s)
			h := c.read()
			for range 3 { // it looks again and again
				unlock(s, c.read())
				time.Sleep(atMost) // virtual: until it has looked
			}
			unlock(s, c.read())
			w := withheld(s, c)
			for began := time.Now(); ; time.Sleep(time.Second) { // virtual: a reader each second
				next, err := c.TryRLock(s.Ctx)
				if took := time.Since(began); err == nil && took > atMost {
					s.Fatalf("a reader joins after %v", took)
				}
				unlock(s, h)
				if err != nil {
					s.Is(err, zklocks.ErrBusy)
					break
				}
				h = next
			}
			unlock(s, w.Granted())
		})
	})
	t.Run("while the lock is idle", func(t *testing.T) {
		contract.InMemory(t, "", func(s *contract.Stage) {
			c := behind(s).with(rwlock.WithReadLinger(time.Hour))
			unlock(s, c.read())
			time.Sleep(10 * time.Second) // virtual: it has looked after 5 s, and looks after 15
			w := withheld(s, c)
			began := time.Now()
			unlock(s, w.Granted())
			if took := time.Since(began); took > atMost {
				s.Errorf("the idle lock goes after %v", took)
			}
			unlock(s, c.read())
			s.InLine(1)
		})
	})
	t.Run("after the last reader has joined", func(t *testing.T) {
		contract.InMemory(t, "", func(s *contract.Stage) {
			c := behind(s).with(rwlock.WithReadLinger(time.Hour))
			unlock(s, c.read())
			time.Sleep(100 * time.Second) // virtual: the idle lock looks after 75 s, and after 155
			w := withheld(s, c)
			unlock(s, c.read())
			time.Sleep(atMost) // virtual: it has looked again
			w.Waits()
			r := contract.Begin(s, s.Ctx, c.RLock) // does not join
			unlock(s, w.Granted())
			unlock(s, r.Granted())
		})
	})
}

func TestALingeringReadLock(t *testing.T) {
	t.Run("is taken again without a request", func(t *testing.T) {
		contract.InMemory(t, "", func(s *contract.Stage) {
			c := behind(s).with(rwlock.WithReadLinger(time.Hour))
			h := c.read()
			token := h.Token()
			unlock(s, h)
			before := requests(c)
			for range 50 {
				h := c.read()
				if h.Token() != token {
					s.Fatal("another node")
				}
				unlock(s, h)
			}
			if n := requests(c) - before; n != 0 {
				s.Errorf("%d requests", n)
			}
			s.InLine(1)
			c.conn.Close()
			s.Empty()
		})
	})
	t.Run("ends when its time is up", func(t *testing.T) {
		contract.InMemory(t, "", func(s *contract.Stage) {
			const linger = 50 * time.Millisecond
			c := direct(s).with(rwlock.WithReadLinger(linger))
			for range 3 {
				unlock(s, c.read())
				time.Sleep(linger - 1)
				s.Settle()
				s.InLine(1)
				time.Sleep(time.Nanosecond)
				s.Settle()
				s.EmptyNow()
			}
		})
	})
	t.Run("stays for the full time after each reader", func(t *testing.T) {
		const linger = 300 * time.Millisecond
		contract.InMemory(t, "", func(s *contract.Stage) {
			c := direct(s).with(rwlock.WithReadLinger(linger))
			h := c.read()
			token := h.Token()
			for range 5 {
				unlock(s, h)
				time.Sleep(linger - 1)
				if h = c.read(); h.Token() != token {
					s.Fatal("gone before its time")
				}
			}
			unlock(s, h)
			time.Sleep(linger)
			s.Settle()
			s.EmptyNow()
		})
	})
	t.Run("ends when a writer queues", func(t *testing.T) {
		contract.InMemory(t, "", func(s *contract.Stage) {
			c, w := direct(s).with(rwlock.WithReadLinger(time.Hour)), direct(s)
			for i := range 6 {
				unlock(s, c.read())
				unlock(s, w.write())
				inside, other := c.read(), c.read()
				unlock(s, other)
				if i%2 == 0 { // the grant was idle before
					unlock(s, inside)
					inside = c.read()
				}
				writer := w.waitWrite(2)
				s.CatchUp(c.conn)
				s.Must(inside.Verify(s.Ctx))
				writer.Waits()
				unlock(s, inside)
				unlock(s, writer.Granted())
			}
			unlock(s, c.read())
			unlock(s, c.write())
			s.Empty()
		})
	})
	t.Run("does not keep out TryLock of its own value", func(t *testing.T) {
		contract.InMemory(t, "", func(s *contract.Stage) {
			c := direct(s).with(rwlock.WithReadLinger(time.Hour))
			unlock(s, c.read())
			h, err := c.TryLock(s.Ctx)
			s.Must(err)
			unlock(s, h)
			inside := c.read()
			_, err = c.TryLock(s.Ctx)
			s.Is(err, zklocks.ErrBusy)
			unlock(s, inside)
			c.conn.Close()
			s.Empty()
		})
	})
	t.Run("is the only one of its value", func(t *testing.T) {
		contract.InMemory(t, "", func(s *contract.Stage) {
			c := behind(s).with(rwlock.WithReadLinger(time.Hour))
			for _, first := range []int{0, 1} {
				unlock(s, c.write()) // creates the directory
				both := c.proxy.Next(proxy.CreateOp, proxy.HoldReply)
				line := []*attempt{contract.Begin(s, s.Ctx, c.TryRLock), contract.Begin(s, s.Ctx, c.TryRLock)}
				test.Within(s, soon, "one has made its node", func() { <-both.Fired() })
				both.Release()
				held := []*zklocks.Hold{line[first].Granted(), line[1-first].Granted()}
				for _, h := range held {
					unlock(s, h)
				}
				s.InLine(1)
				h, err := c.TryLock(s.Ctx)
				s.Must(err)
				unlock(s, h)
				s.Empty()
			}
		})
	})
	t.Run("is the only one after reconnects", func(t *testing.T) {
		contract.InMemory(t, "", func(s *contract.Stage) {
			c := behind(s).with(rwlock.WithReadLinger(time.Hour))
			for range 5 {
				unlock(s, c.read())
				c.proxy.Cut()
				s.CatchUp(c.conn)
			}
			unlock(s, c.read())
			s.InLine(1)
			unlock(s, c.write())
			inside := c.read() // of a grant that has never been idle
			c.proxy.Cut()
			s.CatchUp(c.conn)
			unlock(s, c.read()) // which does not join the grant from before the cut
			unlock(s, inside)
			s.InLine(1)
			h, err := c.TryLock(s.Ctx)
			s.Must(err)
			unlock(s, h)
			s.Empty()
		})
	})
	t.Run("ends with the connection", func(t *testing.T) { // after which no reader may join it
		contract.InMemory(t, "", func(s *contract.Stage) {
			c := behind(s).with(rwlock.WithReadLinger(time.Hour))
			for _, joined := range []bool{false, true} {
				h := c.read()
				if joined {
					unlock(s, c.read())
				}
				unlock(s, h)
				time.Sleep(100 * time.Second) // virtual: the idle lock looks after 75 s, and after 155
				c.proxy.Cut()
				s.CatchUp(c.conn)
				s.Empty()
			}
		})
	})
	t.Run("is none of a call that gives up", func(t *testing.T) {
		contract.InMemory(t, "", func(s *contract.Stage) {
			makeDir(s)
			c := behind(s).with(rwlock.WithReadLinger(time.Hour))
			// It ends when the node is there, and does not tell the wait.
			_, err := c.RLock(endingContext{s.Ctx, func() bool { return c.proxy.Seen(proxy.CreateOp) > 0 }})
			s.Is(err, context.Canceled)
			s.Empty()
		})
	})
	t.Run("is gone when its node is deleted", func(t *testing.T) {
		contract.InMemory(t, "", func(s *contract.Stage) {
			c := direct(s).with(rwlock.WithReadLinger(time.Hour))
			h := c.read()
			token := h.Token()
			unlock(s, h)
			for _, name := range test.Children(s, s.Witness, s.Dir) {
				s.Must(s.Witness.Delete(s.Dir+"/"+name, -1))
			}
			s.CatchUp(c.conn)
			if h = c.read(); h.Token() <= token {
				s.Error("the token of the deleted node")
			}
			unlock(s, h)
			c.conn.Close()
			s.Empty()
		})
	})
	t.Run("must not be negative", func(t *testing.T) {
		contract.InMemory(t, "", func(s *contract.Stage) {
			_, err := direct(s).with(rwlock.WithReadLinger(-1)).RLock(s.Ctx)
			if err == nil {
				s.Error("no error")
			}
			s.EmptyNow()
		})
	})
}

// A linger that is shorter than what can be told of time does not keep a processor busy while a
// reader holds that joined the idle lock: in virtual time the test would not end.
func TestAReadLockLingersForANanosecond(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		m := rwlock.New(locks.On(s.Connect()), s.Path, rwlock.WithReadLinger(time.Nanosecond))
		first, err := m.RLock(s.Ctx)
		s.Must(err)
		token := first.Token()
		unlock(s, first)
		joins, err := m.RLock(s.Ctx)
		s.Must(err)
		if joins.Token() != token {
			s.Error("it has not joined the idle lock")
		}
		time.Sleep(time.Second) // virtual
		unlock(s, joins)
		s.Empty()
	})
}

// Readers lock, release and give up, with linger and without, while writers queue: at the end no
// node is left.
func TestLingeringReadersInAStorm(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		c, w := direct(s).with(rwlock.WithReadLinger(2*time.Millisecond)), direct(s)
		var readers, writers, reads, writes, late atomic.Int64
		var all sync.WaitGroup
		for i := range 24 {
			all.Go(func() {
				random := rand.New(rand.NewPCG(7, uint64(i)))
				inside := func() { time.Sleep(time.Duration(random.IntN(3000)) * time.Microsecond) } // so that some waits fail
				for range 60 {
					ctx, cancel := context.WithTimeout(s.Ctx, time.Duration(random.IntN(20_000))*time.Microsecond)
					take := c.RLock
					if i%8 == 0 {
						take = w.Lock
					}
					h, err := take(ctx)
					switch {
					case errors.Is(err, context.DeadlineExceeded):
						late.Add(1)
					case err != nil:
						s.Error(err)
					case i%8 == 0:
						writes.Add(1)
						if n := readers.Load(); n != 0 || writers.Add(1) != 1 {
							s.Errorf("a writer among %d readers", n)
						}
						inside()
						writers.Add(-1)
						s.Must(h.Release(context.Background()))
					default:
						reads.Add(1)
						readers.Add(1)
						if writers.Load() != 0 {
							s.Error("a reader beside a writer")
						}
						inside()
						readers.Add(-1)
						s.Must(h.Release(context.Background()))
					}
					cancel()
				}
			})
		}
		all.Wait()
		if reads.Load() == 0 || writes.Load() == 0 || late.Load() == 0 {
			s.Errorf("%d reads, %d writes, %d waits that have failed", reads.Load(), writes.Load(), late.Load())
		}
		s.Empty()
	})
}

func canceled(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	return ctx
}

// The uses of a context that only an RWMutex has.
func TestANilContextChangesNothing(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		c := direct(s).with(rwlock.WithReadLinger(time.Hour))
		var none context.Context
		h := c.write()
		panics(s, func() { _ = c.Downgrade(none, h) })
		s.Must(c.Downgrade(s.Ctx, h))
		unlock(s, h)

		h = c.read()
		token := h.Token()
		unlock(s, h)
		s.InLine(1) // the node stays
		panics(s, func() { _, _ = c.TryLock(none) })
		panics(s, func() { _, _ = c.TryRLock(none) })
		h = c.read()
		if h.Token() != token {
			s.Error("the read lock that stays is not joined")
		}
		unlock(s, h)
		h, err := c.TryLock(s.Ctx)
		s.Must(err)
		unlock(s, h)
		s.Empty()
	})
}

func panics(t testing.TB, call func()) {
	t.Helper()
	defer func() {
		t.Helper()
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	call()
}

// endingContext ends when ended says so. Its Done channel does not tell.
type endingContext struct {
	context.Context
	ended func() bool
}

func (c endingContext) Err() error {
	if c.ended() {
		return context.Canceled
	}
	return nil
}
