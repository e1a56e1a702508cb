package rwlock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/contract"
	"github.com/zklocks/zklocks/internal/test/locks"
	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/internal/test/venue"
	"github.com/zklocks/zklocks/internal/wire"
	"github.com/zklocks/zklocks/observe"
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

// ReleaseRequested is called for the first time during a downgrade, which replaces the node.
func TestARequestBesideADowngrade(t *testing.T) {
	for name, held := range map[string]proxy.Action{"before it": proxy.HoldRequest, "after it": proxy.HoldReply} {
		t.Run(name, func(t *testing.T) {
			contract.InMemory(t, "", func(s *contract.Stage) {
				c, other := behind(s), direct(s)
				h := c.write()
				f := c.proxy.Next(proxy.MoveOp, held)
				a := contract.Begin(c, s.Ctx, func(ctx context.Context) (*zklocks.Hold, error) { return nil, c.Downgrade(ctx, h) })
				s.Fired(f)
				asked := h.ReleaseRequested()
				m := other.first()
				s.Must(other.requestRelease(m))
				f.Release()
				a.Granted()
				s.CatchUp(c.conn)
				// A request to the write node is lost with the node, unless the holder has read the
				// request before.
				now := other.first()
				if now.ReleaseRequested != (m.Kind == observe.KindRead) || contract.Closed(asked) != now.ReleaseRequested {
					s.Errorf("asked %v, %+v and now %+v", contract.Closed(asked), m, now)
				}
				s.Must(other.requestRelease(now))
				hears(s, asked)
				s.Must(h.Verify(s.Ctx))
				release(s, h)
			})
		})
	}
}

// While the right to read the node is missing, the server withholds the event of the request.
func TestAWithheldRequestIsHeardWhenTheRightIsBack(t *testing.T) {
	for name, before := range map[string]bool{"watched before": true, "watched meanwhile": false} {
		t.Run(name, func(t *testing.T) {
			contract.InMemory(t, "", func(s *contract.Stage) {
				c := behind(s)
				h := c.write()
				node := c.first().Path
				var asked <-chan struct{}
				if before {
					asked = h.ReleaseRequested()
					s.CatchUp(c.conn)
				}
				_, err := s.Witness.Client().SetACL(node, zk.WorldACL(zk.PermAll&^zk.PermRead), -1)
				s.Must(err)
				if !before {
					asked = h.ReleaseRequested()
					s.CatchUp(c.conn)
				}
				_, err = s.Witness.Client().Set(node, []byte("__REVOKE__"), -1)
				s.Must(err)
				s.Pass(20 * time.Second)
				if contract.Closed(asked) {
					s.Fatal("it read a node without the right to read it")
				}
				_, err = s.Witness.Client().SetACL(node, zk.WorldACL(zk.PermAll), -1)
				s.Must(err)
				s.Pass(40 * time.Second)
				if !contract.Closed(asked) {
					s.Error("it has not heard of the request")
				}
				release(s, h)
			})
		})
	}
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
