package rwlock_test

import (
	"testing"

	"github.com/go-zookeeper/zk"

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
