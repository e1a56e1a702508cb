package rwlock_test

import (
	"testing"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/contract"
	"github.com/zklocks/zklocks/internal/test/locks"
	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/internal/znode"
	"github.com/zklocks/zklocks/reentrant"
	"github.com/zklocks/zklocks/rwlock"
)

// standing is a waiter in a long queue.
type standing struct {
	*client
	*attempt
	node string
}

// stand queues writers, and then readers, behind a writer, each on its own connection. All but the
// first watch for a release marker.
func stand(s *contract.Stage, writers, readers int) (held *zklocks.Hold, line []standing) {
	s.Helper()
	held = direct(s).write()
	for i := range writers + readers {
		st := standing{client: behind(s)}
		n := 2 + i
		if i < writers {
			st.attempt = st.waitWrite(n)
		} else {
			st.attempt = st.waitRead(n)
		}
		st.node = last(s)
		watches(st.client)
		line = append(line, st)
	}
	return held, line
}

// A waiter behind another waiter lists once. When the waiter ahead releases, the waiter behind
// holds without another listing. Its requests are create, listing, watches, delete. The second
// waiter in the queue lists again, because the first had only one node ahead, and sets no marker.
func TestTheNextWaiterDoesNotListAgain(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		makeDir(s)
		held, line := stand(s, 5, 3)
		release(s, held)
		token := held.Token()
		for i := range 5 {
			w := line[i]
			lists := w.proxy.Seen(proxy.ListOp)
			h := w.Granted()
			if h.Token() <= token {
				s.Errorf("writer %d: token %d after %d", i, h.Token(), token)
			}
			token = h.Token()
			if n := w.proxy.Seen(proxy.ListOp); i == 1 && n != 2 || i != 1 && n != 1 {
				s.Errorf("writer %d lists %d times, and %d before its turn", i, n, lists)
			}
			for _, later := range line[i+1:] {
				later.Waits()
			}
			release(s, h)
			if n := w.proxy.Seen(proxy.CreateOp) + w.proxy.Seen(proxy.ReadOp) + w.proxy.Seen(proxy.DeleteOp); i > 0 && n != 3 {
				s.Errorf("writer %d creates, watches and deletes with %d requests, want 3", i, n)
			}
		}
		for i, r := range line[5:] {
			h := r.Granted()
			if n := r.proxy.Seen(proxy.ListOp); n != 1 {
				s.Errorf("reader %d lists %d times", i, n)
			}
			if n := r.proxy.Seen(proxy.OtherOp); n != 0 { // RemoveWatches
				s.Errorf("reader %d takes %d watches back", i, n)
			}
			release(s, h)
		}
	})
}

// A waiter that leaves without having held sets no marker, however it leaves.
func TestWithoutAMarkerTheNextListsAgain(t *testing.T) {
	for name, goes := range map[string]func(*contract.Stage, standing){
		"it gives up":          func(_ *contract.Stage, st standing) { st.Stop() },
		"its connection ends":  func(_ *contract.Stage, st standing) { st.conn.Close(); st.Failed() },
		"its node is deleted":  func(s *contract.Stage, st standing) { s.Must(s.Witness.Client().Delete(st.node, -1)) },
		"its session is ended": func(_ *contract.Stage, st standing) { st.Expire(st.conn) },
	} {
		t.Run(name, func(t *testing.T) {
			contract.InMemory(t, "", func(s *contract.Stage) {
				makeDir(s)
				held, line := stand(s, 4, 1)
				lists := line[3].proxy.Seen(proxy.ListOp)
				goes(s, line[2])
				test.Eventually(s, soon, "the next has listed", func() bool { return line[3].proxy.Seen(proxy.ListOp) > lists })
				s.CatchUp(line[3].conn)
				release(s, held)
				h := line[0].Granted()
				line[1].Waits()
				line[3].Waits()
				release(s, h)
				h = line[1].Granted()
				line[3].Waits()
				line[4].Waits()
				release(s, h)
				h = line[3].Granted()
				line[4].Waits()
				release(s, h)
				release(s, line[4].Granted())
				if name == "its node is deleted" || name == "its session is ended" { // it has queued again
					release(s, line[2].Granted())
				}
			})
		})
	}
}

// A waiter that watches for a marker is not granted the lock by the marker if its own node is gone.
func TestAMarkerDoesNotGrantToAWaiterWithoutANode(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		makeDir(s)
		held, line := stand(s, 4, 0)
		s.Must(s.Witness.Client().Delete(line[2].node, -1))
		test.Eventually(s, soon, "it is queued again", func() bool { return last(s) != line[3].node })
		s.InLine(5)
		// The waiter has watched with one request, and with at most one more after it has queued
		// again.
		if n := line[2].proxy.Seen(proxy.ReadOp); n > 2 {
			s.Errorf("it has missed the event, and checked after a while: %d requests", n)
		}
		release(s, held)
		for _, i := range []int{0, 1, 3, 2} {
			h := line[i].Granted()
			s.InLine(map[int]int{0: 4, 1: 3, 3: 2, 2: 1}[i])
			release(s, h)
		}
	})
}

// A writer watches only the nearest reader ahead: the release of another reader does not wake it.
// Readers release without a marker, so the writer watches for none.
func TestAWriterBehindReaders(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		makeDir(s)
		readers := []*zklocks.Hold{direct(s).read(), direct(s).read(), direct(s).read()}
		w := behind(s)
		writer := w.waitWrite(4)
		watches(w)
		before := w.proxy.Notifications()
		for _, r := range readers {
			writer.Waits()
			release(s, r)
			s.CatchUp(w.conn)
		}
		release(s, writer.Granted())
		if lists, woken, removed := w.proxy.Seen(proxy.ListOp), w.proxy.Notifications()-before, w.proxy.Seen(proxy.OtherOp); lists != 2 || woken != 1 || removed != 0 {
			s.Errorf("%d listings, woken %d times, %d watches are removed; want 2, 1 and none", lists, woken, removed)
		}
	})
}

// watches waits until a waiting client has set its watches.
func watches(c *client) {
	c.Helper()
	test.Eventually(c, soon, "it watches", func() bool { return c.proxy.Seen(proxy.ReadOp) >= 1 })
	c.CatchUp(c.conn)
}

// A mutex ignores readers, so its marker must not grant the lock to a writer, which waits for
// readers.
func TestAMarkerIsOfItsOwnKinds(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		kazoo := rwlock.WithKazooNames()
		r := direct(s).with(kazoo).read()
		var mutexes []*contract.Attempt[*zklocks.Hold]
		for i := range 3 {
			mu := reentrant.New(locks.On(s.Connect()), s.Path, reentrant.WithKazooNames())
			mutexes = append(mutexes, contract.Begin(s, s.Ctx, mu.Lock))
			s.InLine(i + 2)
			if i == 0 {
				mutexes[0].Granted()
			}
		}
		w := behind(s).with(kazoo)
		writer := w.waitWrite(5)
		watches(w)
		for _, m := range mutexes {
			s.Must(m.Granted().Release(s.Ctx))
		}
		s.CatchUp(w.conn)
		writer.Waits()
		release(s, r)
		release(s, writer.Granted())
	})
}

// last returns the path of the newest node.
func last(s *contract.Stage) string {
	s.Helper()
	line, err := znode.Sort(test.Children(s, s.Witness.Client(), s.Dir), znode.Read, znode.Write)
	s.Must(err)
	return s.Dir + "/" + line[len(line)-1].Name
}
