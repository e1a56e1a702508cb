package rwlock_test

import (
	"errors"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/contract"
	"github.com/zklocks/zklocks/internal/test/locks"
	"github.com/zklocks/zklocks/internal/test/venue"
	"github.com/zklocks/zklocks/internal/wire"
	"github.com/zklocks/zklocks/rwlock"
)

// first returns the first member of the queue.
func (c *client) first() zklocks.Member {
	c.Helper()
	q, err := c.Queue(c.Ctx)
	c.Must(err)
	if len(q) == 0 {
		c.Fatal("the queue is empty")
	}
	return q[0]
}

func (c *client) requestRelease(m zklocks.Member) error {
	return locks.On(c.conn).RequestRelease(c.Ctx, m)
}

func hears(s *contract.Stage, asked <-chan struct{}) {
	s.Helper()
	test.Within(s, soon, "it is notified that it is asked to release", func() { <-asked })
}

func TestReadersOfOneNodeAreAskedTogether(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		c, other := direct(s), direct(s)
		holds := []*zklocks.Hold{c.read(), c.read(), other.read()}
		early, apart := holds[0].ReleaseRequested(), holds[2].ReleaseRequested()
		s.CatchUp(c.conn)
		s.Must(other.requestRelease(other.first()))
		hears(s, early)
		late := c.read()
		if !contract.Closed(holds[1].ReleaseRequested()) || !contract.Closed(late.ReleaseRequested()) {
			s.Error("a reader that shares the node was not notified")
		}
		if s.CatchUp(other.conn); contract.Closed(apart) {
			s.Error("a reader with a node of its own is asked")
		}
		for _, h := range append(holds, late) {
			release(s, h)
		}
	})
}

// A server that lags lacks a new member, still has a deleted member, or has a member without an
// earlier request: RequestRelease must not use such data.
func TestAMemberIsAskedThroughAServerThatIsBehind(t *testing.T) {
	venue.Behind(t, func(t *testing.T, leads, follows *wire.Conn) {
		ctx, first, behind := t.Context(), locks.On(leads), locks.On(follows)
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		mu := rwlock.New(first, "/asked")
		member := func() zklocks.Member {
			line, err := mu.Queue(ctx)
			must(err)
			return line[0]
		}

		h, err := mu.Lock(ctx)
		must(err)
		came := member()
		must(behind.RequestRelease(ctx, came))
		test.Within(t, soon, "it hears", func() { <-h.ReleaseRequested() })
		must(h.Release(ctx))
		if err := behind.RequestRelease(ctx, came); !errors.Is(err, zk.ErrNoNode) {
			t.Errorf("error %v, although it has gone", err)
		}

		h, err = mu.Lock(ctx)
		must(err)
		asked := member()
		must(first.RequestRelease(ctx, asked))
		time.Sleep(2 * time.Second) // virtual: the other server shows the request
		must(mu.Downgrade(ctx, h))
		if err := behind.RequestRelease(ctx, asked); !errors.Is(err, zk.ErrNoNode) {
			t.Errorf("error %v, although another node has taken its place", err)
		}
		must(h.Release(ctx))
	})
}
