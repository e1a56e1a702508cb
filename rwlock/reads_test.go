package rwlock_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"
	"weak"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/contract"
	"github.com/zklocks/zklocks/internal/test/locks"
	"github.com/zklocks/zklocks/internal/test/proxy"
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
			release(s, h)
			s.Is(h.Release(s.Ctx), zklocks.ErrReleased)
			s.Is(h.Verify(s.Ctx), zklocks.ErrReleased)
			s.Is(h.Err(), zklocks.ErrReleased)
			_, err = h.Multi(s.Ctx) // although the node still exists
			s.Is(err, zklocks.ErrReleased)
			if !h.ValidUntil().IsZero() || try.ValidUntil().IsZero() {
				s.Errorf("deadlines: %v of the one that has ended, %v of the other", h.ValidUntil(), try.ValidUntil())
			}
			release(s, try)
		}
		if n := requests(c) - before; n > 2 { // the second reader may watch the directory for writers, and the node
			s.Errorf("%d requests for 200 shared reads", n)
		}
		s.Must(first.Verify(s.Ctx))
		release(s, first)
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
		s.Settle() // all have called
		s.InLine(2)
		readers[0].Stop() // the other readers still wait
		second := w.waitWrite(3)
		s.CatchUp(c.conn)
		late := c.waitRead(4) // behind that writer
		release(s, h)
		for _, a := range readers[1:] {
			release(s, a.Granted())
		}
		h = second.Granted()
		late.Waits()
		release(s, h)
		release(s, late.Granted())
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
		release(s, h)
		release(s, c.read())
	})
}

// Readers that come after the read that found the node gone, and before the next create, share the
// new node.
func TestReadersComeWhileTheWaitersNodeIsMadeAgain(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		c, other := behind(s), s.Connect()
		release(s, direct(s).read()) // the directory exists now, and c has not listed it without writers
		made := c.proxy.Next(proxy.CreateOp, proxy.HoldReply)
		first := contract.Begin(s, s.Ctx, c.RLock)
		<-made.Fired()
		for _, name := range test.Children(s, other.Client(), s.Path) {
			s.Must(other.Client().Delete(s.Path+"/"+name, -1))
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
		release(s, h)
		release(s, second.Granted())
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
				release(s, first)
				writer.Waits()
				release(s, joined)
				h := writer.Granted()
				late.Waits()
				release(s, h)
				release(s, late.Granted())
			})
		})
	}
}

func TestTheLossOfTheNodeEndsAllThatShareIt(t *testing.T) {
	for name, lose := range map[string]func(*contract.Stage, *client){
		"deleted": func(s *contract.Stage, _ *client) {
			for _, name := range test.Children(s, s.Witness.Client(), s.Dir) {
				s.Must(s.Witness.Client().Delete(s.Dir+"/"+name, -1))
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
				for _, h := range holds {
					ends = append(ends, h.Context(s.Ctx))
				}
				silent, quiet := c.read(), c.read() // no goroutine calls their methods
				early := c.read()
				ended := early.Context(s.Ctx)
				release(s, early)
				s.Is(context.Cause(ended), zklocks.ErrReleased)

				lose(s, c)
				for i, h := range holds {
					s.Lost(ends[i].Done()) // no goroutine has called a method of the hold since
					s.Lost(h.Lost())
					s.Is(context.Cause(ends[i]), zklocks.ErrLost)
					s.Is(h.Err(), zklocks.ErrLost)
					s.Is(h.Release(s.Ctx), zklocks.ErrLost)
				}
				s.Is(quiet.Release(s.Ctx), zklocks.ErrLost) // not the last hold: the others keep the grant
				if silent.Held() {
					s.Error("still held")
				}
				s.Is(silent.Release(s.Ctx), zklocks.ErrLost)
				if name != "closed" {
					release(s, c.read())
				}
			})
		})
	}
}

// Successive readers may hold the node for a long time: no memory is kept of readers that have
// left.
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
			release(s, h)
			return weak.Make(h)
		}()
		test.Eventually(s, soon, "it is forgotten", func() bool {
			runtime.GC()
			return gone.Value() == nil
		})
		if !stays.Held() {
			s.Error("lost")
		}
		release(s, stays)
	})
}

// What a process read on the previous connection may be out of date: a writer may have queued while
// it was disconnected.
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
			release(s, h)
		}
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
		release(s, r)
		release(s, h)
	})
}

// A writer has used a directory in another life, whatever its data and its version were then. A
// reader has listed the present directory, at the same version, and relies on announcements: it
// waits for the writer.
func TestAReaderInADirectoryThatTheWriterKnewInAnotherLife(t *testing.T) {
	for versions := range int32(4) {
		t.Run(fmt.Sprint("version ", versions), func(t *testing.T) {
			contract.InMemory(t, "", func(s *contract.Stage) {
				c, w := behind(s), direct(s)
				release(s, w.write())
				for range versions {
					release(s, w.write())
				}
				_, stat, err := s.Witness.Client().Exists(s.Dir)
				s.Must(err)
				s.Must(s.Witness.Client().Delete(s.Dir, -1))
				makeDir(s)
				for left := stat.Version - 1; left >= 0; left-- {
					_, err := s.Witness.Client().Set(s.Dir, []byte("theirs")[:min(left, 6)], -1)
					s.Must(err)
				}
				seesNoWriter(s, c)
				h := w.write()
				reader := c.waitRead(2)
				s.CatchUp(c.conn)
				reader.Waits()
				release(s, h)
				release(s, reader.Granted())
			})
		})
	}
}

// READ on the directory is revoked for a moment, in which the server withholds a writer's
// announcement. The readers' process detects the writer at its next listing.
func TestAWriterOfWhomNoEventTells(t *testing.T) {
	withheld := func(s *contract.Stage, c *client) *attempt {
		_, err := s.Witness.Client().SetACL(s.Dir, zk.WorldACL(zk.PermAll&^zk.PermRead), -1)
		s.Must(err)
		_, err = s.Witness.Client().Set(s.Dir, nil, -1)
		s.Must(err)
		_, err = s.Witness.Client().SetACL(s.Dir, zk.WorldACL(zk.PermAll), -1)
		s.Must(err)
		s.CatchUp(c.conn)
		return direct(s).waitWrite(2)
	}
	const atMost = 6 * time.Second // virtual: five seconds until the listing, and one between two readers
	t.Run("while readers join", func(t *testing.T) {
		contract.InMemory(t, "", func(s *contract.Stage) {
			c := behind(s)
			h := c.read()
			for range 3 { // the process lists again each time
				release(s, c.read())
				time.Sleep(atMost) // virtual: until it has listed again
			}
			release(s, c.read())
			w := withheld(s, c)
			for began := time.Now(); ; time.Sleep(time.Second) { // virtual: a reader each second
				next, err := c.TryRLock(s.Ctx)
				if took := time.Since(began); err == nil && took > atMost {
					s.Fatalf("a reader joins after %v", took)
				}
				release(s, h)
				if err != nil {
					s.Is(err, zklocks.ErrBusy)
					break
				}
				h = next
			}
			release(s, w.Granted())
		})
	})
}

func canceled(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	return ctx
}
