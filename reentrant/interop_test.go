package reentrant_test

import (
	"context"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/contract"
	"github.com/zklocks/zklocks/internal/test/locks"
	"github.com/zklocks/zklocks/reentrant"
)

func TestItExcludesTheClientsOwnLock(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		c := newClient(s)
		theirs := zk.NewLock(s.Connect().Client(), s.Path, zk.WorldACL(zk.PermAll))

		s.Must(theirs.Lock())
		c.busy(s.Ctx)
		ours := contract.Begin(s, s.Ctx, c.Lock)
		s.InLine(2)
		s.CatchUp(c.conn)
		ours.Waits()
		q, err := c.Queue(s.Ctx)
		s.Must(err)
		if len(q) != 2 || !q[0].Holding || q[1].Holding {
			s.Errorf("queue %+v", q)
		}
		s.Must(theirs.Unlock())
		h := ours.Granted()

		waiting := contract.Begin(s, s.Ctx, func(context.Context) (any, error) { return nil, theirs.Lock() })
		s.InLine(2)
		s.CatchUp(s.Witness)
		waiting.Waits()
		s.Must(h.Verify(s.Ctx))
		release(s, h)
		waiting.Granted()
		c.busy(s.Ctx)
		s.Must(theirs.Unlock())
		release(s, c.lock(s.Ctx))
	})
}

// The names are as Curator's InterProcessMutex writes them, with and without protection.
func TestItWaitsForCuratorsNodes(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		c := newClient(s)
		release(s, c.lock(s.Ctx))
		for _, prefix := range []string{"_c_0b9a1f6e-7c1d-4b7e-9f57-1a2b3c4d5e6f-lock-", "lock-"} {
			var theirs string
			test.Eventually(s, soon, "a node of Curator's", func() bool { // the server may delete the empty directory
				_, _ = s.Witness.Client().Create(s.Path, nil, zk.FlagPersistent, zk.WorldACL(zk.PermAll))
				var err error
				theirs, err = s.Witness.Client().Create(s.Path+"/"+prefix, []byte("127.0.0.1"), zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
				return err == nil
			})
			_, err := c.TryLock(s.Ctx)
			s.Is(err, zklocks.ErrBusy)
			a := contract.Begin(s, s.Ctx, c.Lock)
			s.InLine(2)
			s.CatchUp(c.conn)
			a.Waits()
			s.Must(s.Witness.Client().Delete(theirs, -1))
			release(s, a.Granted())
		}
	})
}

// Names that a kazoo Lock writes and reads: the id has no prefix.
func TestKazooNames(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		c := newClient(s)
		kazoo := reentrant.New(locks.On(c.conn), s.Path, reentrant.WithKazooNames())
		h, err := kazoo.Lock(s.Ctx)
		s.Must(err)
		for _, name := range test.Children(s, s.Witness.Client(), s.Path) {
			if !regexp.MustCompile(`^[0-9a-f]{32}__lock__\d{10}$`).MatchString(name) {
				s.Errorf("node %q", name)
			}
		}
		if _, err := c.Lock(s.Ctx); err == nil || !strings.Contains(err.Error(), "in use by a lock of another kind") {
			s.Errorf("with other names: %v", err)
		}
		_, err = reentrant.New(locks.On(s.Witness), s.Path, reentrant.WithKazooNames()).TryLock(s.Ctx)
		s.Is(err, zklocks.ErrBusy)
		release(s, h)
		s.Pass(time.Minute) // ten times as long as a container lives here
		if ok, _, err := s.Witness.Client().Exists(s.Path); !ok {
			s.Errorf("the directory is gone: %v", err)
		}
	})
}
