package leader_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/contract"
	"github.com/zklocks/zklocks/internal/test/locks"
	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/leader"
)

func (c *candidate) ask() {
	c.Helper()
	m, err := c.Leader(c.Ctx)
	c.Must(err)
	c.Must(locks.On(c.conn).RequestRelease(c.Ctx, m))
}

// Kubernetes #62120: there is no way to ask a leader to step down.
func TestALeaderThatIsAskedResigns(t *testing.T) {
	inMemory(t, func(s *contract.Stage) {
		a, b, other := newCandidate(s, leader.WithBackoff(time.Hour, time.Hour)).run(s.Ctx), newCandidate(s), newCandidate(s)
		first := a.leads()
		next := b.run(s.Ctx)
		s.InLine(2)
		w := watch(s, s.Ctx, other.Election)
		w.sees(first.hold.Token(), true)
		other.ask()
		if v := w.sees(first.hold.Token(), true); !v.Leader.ReleaseRequested {
			s.Errorf("%+v: not asked", v)
		}
		test.Within(s, soon, "the end of the context", func() { <-first.ctx.Done() })
		if cause := context.Cause(first.ctx); !strings.Contains(cause.Error(), "asked") {
			s.Errorf("the context has ended because of %v", cause)
		}
		next.none() // the first function still runs, and its candidate leads
		if !first.hold.Held() {
			s.Error("lost by a request")
		}
		first.end <- first.ctx.Err() // the function was asked to return: no failure, no pause
		second := next.leads()
		s.InLine(2)
		a.none()
		a.stop()
		next.resign(second)
		w.sees(second.hold.Token(), true)
		other.conn.Close()
		s.Empty()
	})
}

// A candidate that is asked while it waits is notified when it leads.
func TestACandidateThatIsAskedLeadsForAMoment(t *testing.T) {
	inMemory(t, func(s *contract.Stage) {
		a, b := newCandidate(s), newCandidate(s)
		h := a.campaign()
		r := b.run(s.Ctx)
		s.InLine(2)
		q, err := a.Queue(s.Ctx)
		s.Must(err)
		s.Must(locks.On(a.conn).RequestRelease(s.Ctx, q[1]))
		s.Must(h.Release(s.Ctx))
		term := r.leads()
		test.Within(s, soon, "the end of the context", func() { <-term.ctx.Done() })
		term.end <- nil
		term = r.leads() // with a new node, in which there is no request
		s.Settle()
		if term.ctx.Err() != nil {
			s.Error("asked again")
		}
		r.resign(term)
		s.EmptyNow()
	})
}

// The request to release is stored in the leader's node, which Proclaim overwrites.
func TestProclaimTellsOfARequestThatItOverwrites(t *testing.T) {
	inMemory(t, func(s *contract.Stage) {
		c, other := newCandidate(s), newCandidate(s)
		asked := func(h *zklocks.Hold, want bool) {
			s.Helper()
			s.Settle()
			if open(h.ReleaseRequested()) == want {
				s.Errorf("asked: %v", !want)
			}
		}
		// The request is written before Proclaim, and nothing has called ReleaseRequested.
		h := c.campaign()
		other.ask()
		s.Must(c.Proclaim(s.Ctx, h, []byte("data")))
		asked(h, true)
		s.Must(h.Release(s.Ctx))

		// The request is written between Proclaim's read and its write.
		h = c.campaign()
		write := c.proxy.Next(proxy.SetOp, proxy.HoldRequest)
		proclaims := contract.Begin(s, s.Ctx, func(ctx context.Context) (any, error) {
			return nil, c.Proclaim(ctx, h, []byte("data"))
		})
		<-write.Fired()
		other.ask()
		write.Release()
		proclaims.Granted()
		asked(h, true)
		m, err := other.Leader(s.Ctx)
		s.Must(err)
		if string(m.Data) != "data" || m.ReleaseRequested {
			s.Errorf("%+v", m)
		}
		s.Must(h.Release(s.Ctx))

		// The leader must not proclaim the data that mean a request.
		h = c.campaign()
		if err := c.Proclaim(s.Ctx, h, []byte("__REVOKE__")); err == nil {
			s.Error("the word of a request was proclaimed")
		}
		asked(h, false)
		s.Must(h.Release(s.Ctx))
		s.EmptyNow()
	})
}
