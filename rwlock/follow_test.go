package rwlock_test

import (
	"testing"

	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/contract"
	"github.com/zklocks/zklocks/internal/test/locks"
	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/internal/znode"
	"github.com/zklocks/zklocks/reentrant"
	"github.com/zklocks/zklocks/rwlock"
)

// last returns the path of the newest node.
func last(s *contract.Stage) string {
	s.Helper()
	line, err := znode.Sort(test.Children(s, s.Witness, s.Dir), znode.Read, znode.Write)
	s.Must(err)
	return s.Dir + "/" + line[len(line)-1].Name
}

// follow starts one more writer, and waits until it watches its own node and the one ahead. Behind
// a writer of the same process that is its only request after the create.
func (c *client) follow(n int) *attempt {
	c.Helper()
	before := requests(c)
	a := c.waitWrite(n)
	test.Eventually(c, soon, "it has asked", func() bool { return requests(c)-before >= 2 })
	c.CatchUp(c.conn)
	return a
}

// Consecutive writers of one process send three requests each: a create, a watch, a delete. None
// lists.
func TestWritersOfAProcessFollowEachOther(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		makeDir(s)
		c := behind(s)
		held := c.write()
		asked := func() (n int64) {
			for _, op := range []proxy.Op{proxy.CreateOp, proxy.ReadOp, proxy.ListOp, proxy.DeleteOp} {
				n += c.proxy.Seen(op)
			}
			return n
		}
		before, lists, told := asked(), c.proxy.Seen(proxy.ListOp), c.proxy.Notifications()
		var waiting []*attempt
		const writers = 5
		for n := range writers {
			waiting = append(waiting, c.follow(n+2))
		}
		token := held.Token()
		unlock(s, held)
		for i, a := range waiting {
			h := a.Granted()
			if h.Token() <= token {
				s.Errorf("token %d after %d", h.Token(), token)
			}
			token = h.Token()
			for _, later := range waiting[i+1:] {
				later.Waits()
			}
			unlock(s, h)
		}
		// And the request of the test's own holder, which deletes its node.
		if n := asked() - before; n != 3*writers+1 {
			s.Errorf("%d requests for %d writers", n, writers)
		}
		if n := c.proxy.Seen(proxy.ListOp) - lists; n != 0 {
			s.Errorf("%d listings", n)
		}
		if n := c.proxy.Notifications() - told; n > writers+1 {
			s.Errorf("%d notifications for %d writers", n, writers)
		}
		s.Empty()
	})
}

// The deletion of the node ahead is enough for a grant only if its waiter has held the lock.
func TestAWriterThatNeverHeldIsNotFollowed(t *testing.T) {
	for name, gives := range map[string]bool{"it gives up": true, "its node is deleted": false} {
		t.Run(name, func(t *testing.T) {
			contract.InMemory(t, "", func(s *contract.Stage) {
				makeDir(s)
				c := behind(s)
				held := direct(s).write()
				ahead := c.waitWrite(2)
				node := last(s)
				follower := c.follow(3)
				if gives {
					ahead.Stop()
				} else {
					s.Must(s.Witness.Delete(node, -1))
				}
				test.Eventually(s, soon, "it has gone", func() bool {
					gone, _, err := s.Witness.Exists(node)
					return err == nil && !gone
				})
				s.CatchUp(c.conn)
				follower.Waits()
				unlock(s, held)
				unlock(s, follower.Granted())
				if !gives { // it has queued again
					unlock(s, ahead.Granted())
				}
				s.Empty()
			})
		})
	}
}

// A follower whose own node is gone is not granted the lock.
func TestAFollowerWithoutANodeQueuesAgain(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		makeDir(s)
		c := behind(s)
		held := c.write()
		follower := c.follow(2)
		node := last(s)
		other := direct(s).waitWrite(3)
		s.Must(s.Witness.Delete(node, -1))
		test.Eventually(s, soon, "it is queued again", func() bool { return last(s) != node })
		s.InLine(3)
		unlock(s, held)
		h := other.Granted()
		s.CatchUp(c.conn)
		follower.Waits()
		unlock(s, h)
		unlock(s, follower.Granted())
		s.Empty()
	})
}

// The node of a write lock that was downgraded still exists.
func TestAFollowerWaitsForADowngradedHold(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		makeDir(s)
		c := behind(s)
		held := c.write()
		follower := c.follow(2)
		s.Must(c.Downgrade(s.Ctx, held))
		s.CatchUp(c.conn)
		follower.Waits()
		unlock(s, held)
		unlock(s, follower.Granted())
		s.Empty()
	})
}

// After a reconnect events may be late, so the waiter lists.
func TestAFollowerListsAfterAReconnect(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		makeDir(s)
		c := behind(s)
		held := c.write()
		follower := c.follow(2)
		connects := c.proxy.Seen(proxy.ConnectOp)
		c.proxy.Cut()
		test.Eventually(s, soon, "it is connected again", func() bool { return c.proxy.Seen(proxy.ConnectOp) > connects })
		s.CatchUp(c.conn)
		lists := c.proxy.Seen(proxy.ListOp)
		unlock(s, held)
		unlock(s, follower.Granted())
		if c.proxy.Seen(proxy.ListOp) == lists {
			s.Error("it has not listed")
		}
		s.Empty()
	})
}

// A reader holds beside other readers: its release does not say that it was the only one.
func TestAWriterDoesNotFollowAReader(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		makeDir(s)
		c := behind(s)
		first := direct(s).read()
		second := c.read()
		writer := c.waitWrite(3)
		watches(c)
		unlock(s, second)
		s.CatchUp(c.conn)
		writer.Waits()
		unlock(s, first)
		unlock(s, writer.Granted())
		s.Empty()
	})
}

// Kazoo has one word for locks that see readers and for such as do not. The latter may hold beside
// readers, so their release does not say that there are none.
func TestAMutexThatSeesNoReadersIsNotFollowed(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		c := behind(s).with(rwlock.WithKazooNames())
		reader := c.read()
		blind, err := reentrant.New(locks.On(c.conn), c.Path, reentrant.WithKazooNames()).Lock(s.Ctx)
		s.Must(err)
		writer := c.follow(3)
		s.Must(blind.Release(s.Ctx))
		s.InLine(2)
		s.CatchUp(c.conn)
		writer.Waits()
		unlock(s, reader)
		unlock(s, writer.Granted())
		s.Must(s.Witness.Delete(s.Path, -1))
	})
}

// Between two waiters of one process a waiter of another process may be queued.
func TestANodeOfAnotherProcessStandsBetween(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		makeDir(s)
		c := behind(s)
		held := c.write()
		between := direct(s).waitWrite(2)
		writer := c.follow(3)
		unlock(s, held)
		h := between.Granted()
		s.CatchUp(c.conn)
		writer.Waits()
		unlock(s, h)
		unlock(s, writer.Granted())
		s.Empty()
	})
}
