package rwlock_test

import (
	"testing"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/contract"
	"github.com/zklocks/zklocks/internal/test/proxy"
)

// makeDir makes a directory that stays when it is empty.
func makeDir(s *contract.Stage) {
	s.Helper()
	_, err := s.Witness.Create(s.Dir, nil, zk.FlagPersistent, zk.WorldACL(zk.PermAll))
	s.Must(err)
}

// calm has a client see the line without a writer, so that its next read locks are
// granted by the reply to their create.
func calm(s *contract.Stage, c *client) {
	s.Helper()
	for range 2 {
		unlock(s, c.read())
	}
	before := requests(c)
	unlock(s, c.read())
	if n := requests(c) - before; n != 2 {
		s.Fatalf("%d requests for a read lock, want 2", n)
	}
}

// A writer that comes is ordered before a reader's create, and then its
// announcement comes before the reply; or behind, and then it waits.
func TestAReaderThatDoesNotListSeesTheWriter(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		makeDir(s)
		c, w := behind(s), direct(s)
		for range 5 {
			calm(s, c)
			h := w.write()
			reader := c.waitRead(2)
			s.CatchUp(c.conn)
			reader.Waits()
			unlock(s, h)
			unlock(s, reader.Granted())

			calm(s, c)
			held := c.proxy.Next(proxy.CreateOp, proxy.HoldRequest)
			reader = contract.Begin(s, s.Ctx, c.RLock)
			test.Within(s, soon, "it is about to queue", func() { <-held.Fired() })
			h = w.write()
			held.Release()
			s.InLine(2)
			s.CatchUp(c.conn)
			reader.Waits()
			unlock(s, h)
			unlock(s, reader.Granted())

			calm(s, c)
			held = c.proxy.Next(proxy.CreateOp, proxy.HoldReply)
			reader = contract.Begin(s, s.Ctx, c.RLock)
			test.Within(s, soon, "it has queued", func() { <-held.Fired() })
			writer := w.waitWrite(2)
			writer.Waits()
			held.Release()
			got := reader.Granted()
			writer.Waits()
			unlock(s, got)
			unlock(s, writer.Granted())
		}
		s.Empty()
	})
}

// After a reconnect the watch on the directory may be late: what was seen before
// counts no more.
func TestAReaderListsAfterAReconnect(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		makeDir(s)
		c, w := behind(s), direct(s)
		calm(s, c)
		c.proxy.Refuse()
		h := w.write()
		s.Must(c.proxy.Accept())
		reader := c.waitRead(2)
		s.CatchUp(c.conn)
		reader.Waits()
		unlock(s, h)
		unlock(s, reader.Granted())
		s.Empty()
	})
}

// A directory that went and came again is another, in which no reader has looked yet.
func TestAReaderListsInANewDirectory(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		makeDir(s)
		c, w := behind(s), direct(s)
		calm(s, c)
		s.Must(s.Witness.Delete(s.Dir, -1))
		makeDir(s)
		h := w.write()
		reader := c.waitRead(2)
		s.CatchUp(c.conn)
		reader.Waits()
		unlock(s, h)
		unlock(s, reader.Granted())
		s.Empty()
	})
}

// A reader that holds alone finds out that its node is gone when it asks or releases. The
// first reader that joins asks.
func TestNoReaderJoinsANodeThatWasDeleted(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		makeDir(s)
		c := behind(s)
		deleted := func() {
			s.Must(s.Witness.Delete(s.Dir+"/"+test.Children(s, s.Witness, s.Dir)[0], -1))
			s.CatchUp(c.conn)
		}
		for _, joined := range []bool{false, true} {
			calm(s, c)
			holds := []*zklocks.Hold{c.read()}
			if joined {
				before := requests(c)
				holds = append(holds, c.read(), c.read(), c.read())
				if n := requests(c) - before; n != 1 {
					s.Errorf("%d requests for three who join", n)
				}
			}
			deleted()
			reader := c.read()
			if reader.Token() == holds[0].Token() {
				s.Errorf("after a join %v: one more has joined", joined)
			}
			unlock(s, reader)
			for _, h := range holds {
				s.Is(h.Release(s.Ctx), zklocks.ErrLost)
			}
		}
		s.Empty()
	})
}

// The token without a read of the own node is that of the node.
func TestTokensOfReadersThatDoNotList(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		makeDir(s)
		c := behind(s)
		for range 20 {
			calm(s, c)
			h := c.read()
			_, stat, err := s.Witness.Exists(contract.NodeOf(h))
			s.Must(err)
			if h.Token() != stat.Czxid {
				s.Errorf("token %d, czxid %d", h.Token(), stat.Czxid)
			}
			unlock(s, h)
		}
		s.Empty()
	})
}

// stormy has writers come again and again, until the reads of c look for them no
// more: they cost a create, a listing and a delete.
func stormy(s *contract.Stage, c, w *client) {
	s.Helper()
	for range 100 {
		unlock(s, w.write())
		s.CatchUp(c.conn)
		before := requests(c)
		unlock(s, c.read())
		if requests(c)-before == 3 {
			return
		}
	}
	s.Fatal("each read asks for writers that may come")
}

// Where a writer comes before nearly every read, it is no use to look out for him.
func TestReadersDoNotLookOutWithoutNeed(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		makeDir(s)
		c, w := behind(s), direct(s)
		stormy(s, c, w)
		before := requests(c)
		const reads = 40
		for range reads {
			unlock(s, w.write())
			unlock(s, c.read())
		}
		// Now and then it is tried, and two reads later nothing has come of it.
		if n := requests(c) - before; n > 3*reads+reads/4 {
			s.Errorf("%d requests for %d reads", n, reads)
		}
		for range reads { // once in so many it is tried anyway
			unlock(s, c.read())
		}
		calm(s, c)
		s.Empty()
	})
}

// Whoever wants to come along has to know that nobody waits, and asks.
func TestWhoWantsToComeAlongLooksOut(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		makeDir(s)
		c, w := behind(s), direct(s)
		stormy(s, c, w)
		unlock(s, w.write())
		first := c.read()
		before := requests(c)
		second := c.read()
		if n := requests(c) - before; n != 2 { // for writers, and for the node
			s.Errorf("%d requests of the first who comes along", n)
		}
		before = requests(c)
		third := c.read()
		if n := requests(c) - before; n != 0 {
			s.Errorf("%d requests of the next", n)
		}
		s.InLine(1)
		writer := w.waitWrite(2)
		s.CatchUp(c.conn)
		reader := c.waitRead(3)
		reader.Waits()
		for _, h := range []*zklocks.Hold{first, second, third} {
			unlock(s, h)
		}
		unlock(s, writer.Granted())
		unlock(s, reader.Granted())
		s.Empty()
	})
}

// A writer that came since the listing is not overtaken.
func TestNoReaderJoinsPastAWriterThatCameUnseen(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		makeDir(s)
		c, w := behind(s), direct(s)
		stormy(s, c, w)
		unlock(s, w.write())
		first := c.read()
		writer := w.waitWrite(2)
		s.CatchUp(c.conn)
		reader := c.waitRead(3)
		reader.Waits()
		unlock(s, first)
		h := writer.Granted()
		reader.Waits()
		unlock(s, h)
		unlock(s, reader.Granted())
		s.Empty()
	})
}

// Those who read for less time than a request takes have left when the first who
// joins has its answer. It goes on by their node.
func TestWhoAsksKeepsThePlace(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		makeDir(s)
		c, w := behind(s), direct(s)
		for _, row := range []struct {
			name    string
			prepare func()
		}{
			{"for the node", func() { calm(s, c) }}, // first: after a storm it takes many reads
			{"for the node, and writers", func() { stormy(s, c, w); unlock(s, w.write()) }},
		} {
			row.prepare()
			first := c.read()
			asks := c.proxy.Next(proxy.ReadOp, proxy.HoldRequest)
			second := contract.Begin(s, s.Ctx, c.RLock)
			test.Within(s, soon, "it asks", func() { <-asks.Fired() })
			unlock(s, first)
			s.InLine(1)
			asks.Release()
			h := second.Granted()
			if h.Token() != first.Token() {
				s.Errorf("it asks %s: it has a node of its own", row.name)
			}
			unlock(s, h)
			s.Empty()
		}
	})
}

// A writer that comes while a reader asks is not overtaken: its announcement is there
// before the answer.
func TestAWriterThatComesWhileOneAsks(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		makeDir(s)
		c, w := behind(s), direct(s)
		calm(s, c)
		first := c.read()
		asks := c.proxy.Next(proxy.ReadOp, proxy.HoldRequest)
		second := contract.Begin(s, s.Ctx, c.RLock)
		test.Within(s, soon, "it asks", func() { <-asks.Fired() })
		writer := w.waitWrite(2)
		asks.Release()
		s.InLine(3)
		unlock(s, first)
		h := writer.Granted()
		second.Waits()
		unlock(s, h)
		unlock(s, second.Granted())
		s.Empty()
	})
}

// One who gives up while it asks leaves the others as they were.
func TestWhoGivesUpLookingOutSpoilsNothing(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		makeDir(s)
		c, w := behind(s), direct(s)
		stormy(s, c, w)
		unlock(s, w.write())
		first := c.read()
		held := c.proxy.Next(proxy.ReadOp, proxy.HoldRequest)
		gives := contract.Begin(s, s.Ctx, c.RLock)
		test.Within(s, soon, "it asks", func() { <-held.Fired() })
		gives.Stop()
		held.Release()
		second := c.read()
		s.InLine(1)
		unlock(s, first)
		unlock(s, second)
		s.Empty()
	})
}
