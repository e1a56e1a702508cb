package rwlock_test

import (
	"testing"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/contract"
	"github.com/zklocks/zklocks/internal/test/proxy"
)

// makeDir creates a directory that remains when it is empty.
func makeDir(s *contract.Stage) {
	s.Helper()
	_, err := s.Witness.Client().Create(s.Dir, nil, zk.FlagPersistent, zk.WorldACL(zk.PermAll))
	s.Must(err)
}

// seesNoWriter makes a client list the queue without a writer, so that the reply to the create
// grants its next read locks.
func seesNoWriter(s *contract.Stage, c *client) {
	s.Helper()
	for range 3 {
		release(s, c.read())
	}
	before := requests(c)
	h := c.read()
	_, stat, err := s.Witness.Client().Exists(contract.NodeOf(h))
	s.Must(err)
	if h.Token() != stat.Czxid {
		s.Errorf("token %d without a listing, czxid %d", h.Token(), stat.Czxid)
	}
	release(s, h)
	if n := requests(c) - before; n != 2 {
		s.Fatalf("%d requests for a read lock, want 2", n)
	}
}

// If a writer queues before a reader's create, the event of its touch arrives before the reply. If
// the writer queues after the create, the writer waits.
func TestAReaderThatDoesNotListSeesTheWriter(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		makeDir(s)
		c, w := behind(s), direct(s)
		for range 5 {
			seesNoWriter(s, c)
			h := w.write()
			reader := c.waitRead(2)
			s.CatchUp(c.conn)
			reader.Waits()
			release(s, h)
			release(s, reader.Granted())

			seesNoWriter(s, c)
			held := c.proxy.Next(proxy.CreateOp, proxy.HoldRequest)
			reader = contract.Begin(s, s.Ctx, c.RLock)
			s.Fired(held)
			h = w.write()
			held.Release()
			s.InLine(2)
			s.CatchUp(c.conn)
			reader.Waits()
			release(s, h)
			release(s, reader.Granted())

			seesNoWriter(s, c)
			held = c.proxy.Next(proxy.CreateOp, proxy.HoldReply)
			reader = contract.Begin(s, s.Ctx, c.RLock)
			s.Fired(held)
			writer := w.waitWrite(2)
			writer.Waits()
			held.Release()
			got := reader.Granted()
			writer.Waits()
			release(s, got)
			release(s, writer.Granted())
		}
	})
}

// A single reader detects that its node was deleted when it calls Verify or Release. The first
// reader that joins checks the node.
func TestNoReaderJoinsANodeThatWasDeleted(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		makeDir(s)
		c := behind(s)
		deleted := func() {
			s.Must(s.Witness.Client().Delete(s.Dir+"/"+test.Children(s, s.Witness.Client(), s.Dir)[0], -1))
			s.CatchUp(c.conn)
		}
		for _, joined := range []bool{false, true} {
			seesNoWriter(s, c)
			holds := []*zklocks.Hold{c.read()}
			if joined {
				before := requests(c)
				holds = append(holds, c.read(), c.read(), c.read())
				if n := requests(c) - before; n != 1 {
					s.Errorf("%d requests for three readers that join", n)
				}
			}
			deleted()
			reader := c.read()
			if reader.Token() == holds[0].Token() {
				s.Errorf("after a join %v: one more has joined", joined)
			}
			release(s, reader)
			for _, h := range holds {
				s.Is(h.Release(s.Ctx), zklocks.ErrLost)
			}
		}
	})
}

// seesWriters queues writers repeatedly, until the reads of c no longer watch for writers: each
// read then costs a create, a listing and a delete.
func seesWriters(s *contract.Stage, c, w *client) {
	s.Helper()
	for range 100 {
		release(s, w.write())
		s.CatchUp(c.conn)
		before := requests(c)
		release(s, c.read())
		if requests(c)-before == 3 {
			return
		}
	}
	s.Fatal("each read asks for writers that may come")
}

// If a writer queues before nearly every read, the process does not watch for writers.
func TestReadersSetNoWatchWithoutNeed(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		makeDir(s)
		c, w := behind(s), direct(s)
		seesWriters(s, c, w)
		before := requests(c)
		const reads = 40
		for range reads {
			release(s, w.write())
			release(s, c.read())
		}
		// Now and then a read sets the watch, and two reads later it was useless.
		if n := requests(c) - before; n > 3*reads+reads/4 {
			s.Errorf("%d requests for %d reads", n, reads)
		}
		for range reads { // one of this many reads sets the watch
			release(s, c.read())
		}
		seesNoWriter(s, c)
	})
}

// A reader that joins must be certain that no writer waits, so it sends a request. If it is
// canceled, the next reader does.
func TestTheFirstReaderThatJoinsSetsTheWatch(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		makeDir(s)
		c, w := behind(s), direct(s)
		seesWriters(s, c, w)
		release(s, w.write())
		first := c.read()
		held := c.proxy.Next(proxy.ReadOp, proxy.HoldRequest)
		canceled := contract.Begin(s, s.Ctx, c.RLock)
		s.Fired(held)
		canceled.Stop()
		held.Release()
		s.CatchUp(c.conn)
		before := requests(c)
		second := c.read()
		if n := requests(c) - before; n != 1 { // for the node; the canceled reader has set the watch
			s.Errorf("%d requests of the first reader that joins", n)
		}
		before = requests(c)
		third := c.read()
		if n := requests(c) - before; n != 0 {
			s.Errorf("%d requests of the second reader that joins", n)
		}
		s.InLine(1)
		writer := w.waitWrite(2)
		s.CatchUp(c.conn)
		reader := c.waitRead(3)
		reader.Waits()
		for _, h := range []*zklocks.Hold{first, second, third} {
			release(s, h)
		}
		release(s, writer.Granted())
		release(s, reader.Granted())
	})
}

// Readers that hold for less time than a request takes have left when the first reader that joins
// receives its answer. That reader holds their node.
func TestAReaderThatChecksKeepsTheNode(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		makeDir(s)
		c, w := behind(s), direct(s)
		for _, row := range []struct {
			name    string
			prepare func()
		}{
			{"for the node", func() { seesNoWriter(s, c) }}, // first, because after seesWriters it takes many reads
			{"for the node, and writers", func() { seesWriters(s, c, w); release(s, w.write()) }},
		} {
			row.prepare()
			first := c.read()
			asks := c.proxy.Next(proxy.ReadOp, proxy.HoldRequest)
			second := contract.Begin(s, s.Ctx, c.RLock)
			s.Fired(asks)
			release(s, first)
			s.InLine(1)
			asks.Release()
			h := second.Granted()
			if h.Token() != first.Token() {
				s.Errorf("it asks %s: it has a node of its own", row.name)
			}
			release(s, h)
			s.Empty()
		}
	})
}

// No reader overtakes a writer that queues while the reader checks: the event of its touch arrives
// before the answer.
func TestAWriterThatComesDuringTheCheck(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		makeDir(s)
		c, w := behind(s), direct(s)
		seesNoWriter(s, c)
		first := c.read()
		asks := c.proxy.Next(proxy.ReadOp, proxy.HoldRequest)
		second := contract.Begin(s, s.Ctx, c.RLock)
		s.Fired(asks)
		writer := w.waitWrite(2)
		asks.Release()
		s.InLine(3)
		release(s, first)
		h := writer.Granted()
		second.Waits()
		release(s, h)
		release(s, second.Granted())
	})
}
