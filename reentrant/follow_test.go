package reentrant_test

import (
	"testing"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/contract"
	"github.com/zklocks/zklocks/internal/test/locks"
	"github.com/zklocks/zklocks/reentrant"
)

// An operator deletes the directory with all nodes in it. In the new directory the sequence numbers
// start at 0 again, and the holder in the old one does not know yet that its node is gone. A waiter
// with the next number in the new directory is not behind that holder.
func TestANodeOfADirectoryThatIsGoneIsNotFollowed(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		_, err := s.Witness.Create(s.Dir, nil, zk.FlagPersistent, zk.WorldACL(zk.PermAll))
		s.Must(err)
		c := newClient(s)
		late := c.lock(s.Ctx)
		for _, name := range test.Children(s, s.Witness, s.Dir) {
			s.Must(s.Witness.Delete(s.Dir+"/"+name, -1))
		}
		s.Must(s.Witness.Delete(s.Dir, -1))
		h, err := reentrant.New(locks.On(s.Connect()), s.Path).Lock(s.Ctx)
		s.Must(err)
		s.CatchUp(c.conn)

		a := contract.Begin(s, s.Ctx, c.Lock)
		s.InLine(2)
		s.CatchUp(c.conn)
		a.Waits()
		unlock(s, h)
		unlock(s, a.Granted())
		s.Is(late.Release(s.Ctx), zklocks.ErrLost)
		s.Empty()
	})
}
