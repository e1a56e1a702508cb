package rwlock_test

import (
	"context"
	"slices"
	"testing"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/contract"
	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/rwlock"
)

// queued starts a Lock of the same value after those before it have queued, so that the order is
// defined.
func (c *client) queued(n int) []*attempt {
	c.Helper()
	var line []*attempt
	for range n {
		line = append(line, contract.Begin(c, c.Ctx, c.Lock))
		c.Settle()
	}
	return line
}

func TestHandoffGoesRoundInTheProcess(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		c := behind(s).with(rwlock.WithHandoff(100))
		h := c.write()
		line := c.queued(10)
		s.InLine(1)
		s.CatchUp(c.conn)
		token, before := h.Token(), requests(c)
		ctx := h.Context(s.Ctx)
		for i, a := range line {
			release(s, h)
			s.Is(context.Cause(ctx), zklocks.ErrReleased)
			s.Is(h.Err(), zklocks.ErrReleased)
			_, err := h.Multi(s.Ctx) // although the node still exists
			s.Is(err, zklocks.ErrReleased)
			s.Is(h.Release(s.Ctx), zklocks.ErrReleased)
			h = a.Granted() // in the order of arrival
			ctx = h.Context(s.Ctx)
			if h.Token() != token || !h.Held() {
				s.Errorf("hand-over %d: token %#x, held %v", i, h.Token(), h.Held())
			}
		}
		if n := requests(c) - before; n > 1 { // the watch on the shared node
			s.Errorf("%d requests for 10 hand-overs", n)
		}
		release(s, h)
	})
}

// A waiter in another process is granted the lock after at most limit handoffs.
func TestHandoffEndsAfterItsLimit(t *testing.T) {
	const limit = 3
	contract.InMemory(t, "", func(s *contract.Stage) {
		c, other := direct(s).with(rwlock.WithHandoff(limit)), direct(s)
		h := c.write()
		waits := other.waitWrite(2)
		line := c.queued(limit + 2)
		for i, a := range line[:limit] {
			release(s, h)
			h = a.Granted()
			s.Must(h.Verify(s.Ctx))
			select {
			case <-waits.Done:
				s.Fatalf("two holders after %d hand-overs", i+1)
			default:
			}
		}
		token := h.Token()
		release(s, h)
		theirs := waits.Granted()
		if theirs.Token() <= token {
			s.Error("the token did not grow")
		}
		line[limit].Waits()
		release(s, theirs)
		h = line[limit].Granted()
		if h.Token() <= theirs.Token() {
			s.Error("the token did not grow")
		}
		token = h.Token()
		release(s, h)
		h = line[limit+1].Granted()
		if h.Token() != token {
			s.Error("the second row is shorter than the first")
		}
		release(s, h)
	})
}

func TestHandoffPassesOverWaitersThatHaveLeft(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		c := direct(s).with(rwlock.WithHandoff(100))
		h := c.write()
		line := c.queued(5)
		_, err := c.TryLock(s.Ctx)
		s.Is(err, zklocks.ErrBusy)
		line[0].Stop()
		line[3].Stop()
		release(s, h)
		for _, i := range []int{1, 2, 4} {
			h = line[i].Granted()
			release(s, h)
		}
		h, err = c.TryLock(s.Ctx) // the lock is free again
		s.Must(err)
		release(s, h)
	})
}

func TestWaitersThatAllGoAwayLeaveTheQueue(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		c, other := direct(s).with(rwlock.WithHandoff(100)), direct(s)
		h := other.write()
		line := c.queued(5)
		s.InLine(2)
		for _, a := range line {
			a.Stop()
		}
		s.InLine(1)
		a := c.waitWrite(2)
		release(s, h)
		release(s, a.Granted())
	})
}

func TestALostLockIsNotHandedOn(t *testing.T) {
	for name, lose := range map[string]func(*contract.Stage, *client){
		"deleted": func(s *contract.Stage, c *client) {
			for _, name := range test.Children(s, s.Witness.Client(), s.Dir) {
				s.Must(s.Witness.Client().Delete(s.Dir+"/"+name, -1))
			}
		},
		"expired": func(s *contract.Stage, c *client) { s.Expire(c.conn) },
	} {
		t.Run(name, func(t *testing.T) {
			contract.InMemory(t, "", func(s *contract.Stage) {
				c := direct(s).with(rwlock.WithHandoff(100))
				h := c.write()
				line := c.queued(3)
				lost := h.Lost()
				s.CatchUp(c.conn)
				lose(s, c)
				s.Lost(lost)
				next := line[0].Granted() // the next waiter does not wait for the holder that has lost the lock
				if next.Token() <= h.Token() {
					s.Error("the lost lock was handed on")
				}
				s.Is(h.Release(s.Ctx), zklocks.ErrLost)
				for _, a := range line[1:] {
					release(s, next)
					next = a.Granted()
				}
				release(s, next)
			})
		})
	}
}

// The next writer does not wait until a holder that has not called Held releases a deleted node.
func TestAWriterDoesNotWaitForTheHolderOfADeletedNode(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		c, other := direct(s).with(rwlock.WithHandoff(100)), direct(s)
		h := other.write()
		line := c.queued(2) // both before the grant
		release(s, h)
		h = line[0].Granted()
		line[1].Waits()
		s.Must(s.Witness.Client().Delete(contract.NodeOf(h), -1))
		release(s, line[1].Granted())
		s.Is(h.Release(s.Ctx), zklocks.ErrLost)
	})
}

// The holder has not called Held. Its Release must not hand on a deleted node, and must report the
// loss.
func TestADeletedNodeIsNotHandedOn(t *testing.T) {
	for name, deadUnlock := range map[string]bool{"": false, "the context of Unlock has ended": true} {
		t.Run(name, func(t *testing.T) {
			contract.InMemory(t, "", func(s *contract.Stage) {
				c := behind(s).with(rwlock.WithHandoff(100))
				for _, row := range []struct{ watched, cut bool }{{true, false}, {true, true}, {false, false}} {
					h := c.write()
					name := test.Children(s, s.Witness.Client(), s.Dir)[0]
					watch := c.proxy.Where(func(r proxy.Request) bool {
						return r.Is(proxy.ReadOp) && slices.Contains(r.Paths, s.Dir+"/"+name)
					}, 1, proxy.HoldRequest)
					line := c.queued(2)
					s.Fired(watch)
					want := zklocks.ErrLost
					if row.watched { // the deletion is detected
						watch.Release()
						s.CatchUp(c.conn)
					} else if deadUnlock {
						want = context.Canceled
					}
					s.Must(s.Witness.Client().Delete(s.Dir+"/"+name, -1))
					if row.watched {
						s.CatchUp(c.conn)
					}
					if row.cut {
						c.proxy.Cut()
					}
					ctx := s.Ctx
					if deadUnlock {
						ctx = canceled(ctx)
					}
					up := contract.Begin(s, context.Background(), func(context.Context) (any, error) { return nil, h.Release(ctx) })
					if !row.watched && !deadUnlock {
						line[0].Waits()
						up.Waits()
						watch.Release()
					}
					s.Is(up.Failed(), want)
					watch.Release()
					for _, a := range line {
						next := a.Granted()
						if next.Token() <= h.Token() {
							s.Errorf("a node that is gone was handed on: %+v", row)
						}
						s.Must(next.Verify(s.Ctx))
						release(s, next)
					}
					s.Empty()
				}
			})
		})
	}
}

func TestADowngradedLockIsNotHandedOn(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		c, other := direct(s).with(rwlock.WithHandoff(100)), direct(s)
		h := c.write()
		line := c.queued(2)
		s.Must(c.Downgrade(s.Ctx, h))
		s.InLine(2)
		r, err := other.RLock(canceled(s.Ctx))
		if r != nil {
			s.Error("granted")
		}
		s.Is(err, context.Canceled)
		line[0].Waits()
		release(s, h)
		for _, a := range line {
			release(s, a.Granted())
		}
	})
}

// A downgrade that does not begin does not end the series.
func TestALockThatIsNotDowngradedIsHandedOn(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		c := direct(s).with(rwlock.WithHandoff(100))
		h := c.write()
		token, line := h.Token(), c.queued(2)
		s.Is(c.Downgrade(canceled(s.Ctx), h), context.Canceled)
		release(s, h)
		for _, a := range line {
			if h = a.Granted(); h.Token() != token {
				s.Errorf("token %#x, want that of the row, %#x", h.Token(), token)
			}
			release(s, h)
		}
	})
}

// Both callers wait for the same create when the server refuses it.
func TestHandoffTellsAllWhatIsWrong(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		closedDir := []zk.ACL{{Perms: zk.PermRead, Scheme: "world", ID: "anyone"}}
		_, err := s.Witness.Client().Create(s.Path, nil, 0, closedDir)
		s.Must(err)
		c := behind(s).with(rwlock.WithHandoff(100))
		create := c.proxy.Next(proxy.CreateOp, proxy.HoldRequest)
		line := c.queued(3)
		create.Release()
		for _, a := range line {
			s.Is(a.Failed(), zk.ErrNoAuth)
		}
	})
}

// newOther returns a client at another path.
func newOther(s *contract.Stage) *client {
	stage := *s
	stage.Path += "-other"
	stage.Dir = stage.Path
	return direct(&stage)
}
