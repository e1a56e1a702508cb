package leader_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test/contract"
	"github.com/zklocks/zklocks/internal/test/proxy"
)

// Like Proclaim in etcd: the data change during the term, and only then.
func TestProclaim(t *testing.T) {
	inMemory(t, func(s *contract.Stage) {
		c := newCandidate(s, zklocks.WithData([]byte("at first")))
		data := func(want string) {
			s.Helper()
			m, err := c.Leader(s.Ctx)
			s.Must(err)
			if string(m.Data) != want {
				s.Errorf("data %q, want %q", m.Data, want)
			}
		}
		h := c.campaign()
		data("at first")
		lost := h.Lost()
		text := []byte("in office")
		s.Must(c.Proclaim(s.Ctx, h, text))
		data("in office")
		text[0] = 'I' // the caller may reuse its slice
		most := bytes.Repeat([]byte("x"), 512<<10)
		s.Must(c.Proclaim(s.Ctx, h, most))
		data(string(most))
		if err := c.Proclaim(s.Ctx, h, append(most, 'x')); err == nil {
			s.Error("more than 512 KiB")
		}
		data(string(most))
		s.Must(c.Proclaim(s.Ctx, h, nil))
		data("")
		s.Settle()
		if !h.Held() || !open(lost) {
			s.Error("lost by its own words")
		}

		s.Must(h.Release(s.Ctx))
		s.Is(c.Proclaim(s.Ctx, h, nil), zklocks.ErrReleased)
		h = c.campaign()
		data("at first")
		c.deleteNode(h)
		next := newCandidate(s).campaign()
		s.Is(c.Proclaim(s.Ctx, h, []byte("too late")), zklocks.ErrLost)
		s.Is(h.Release(s.Ctx), zklocks.ErrLost)

		for name, foreign := range map[string]*zklocks.Hold{"nil": nil, "zero": {}} {
			if err := c.Proclaim(s.Ctx, foreign, nil); err == nil {
				s.Errorf("%s: no error", name)
			} else {
				s.Is(err, zklocks.ErrLost)
			}
		}
		if err := c.Proclaim(s.Ctx, next, nil); err == nil {
			s.Error("the term of another value")
		}
		s.Must(next.Release(s.Ctx))
		s.EmptyNow()
	})
}

func open(c <-chan struct{}) bool {
	select {
	case <-c:
		return false
	default:
		return true
	}
}

func TestProclaimWithoutTheRightToWrite(t *testing.T) {
	inMemory(t, func(s *contract.Stage) {
		c := newCandidate(s, zklocks.WithACL(zk.WorldACL(zk.PermAll&^zk.PermWrite)))
		h := c.campaign()
		s.Is(c.Proclaim(s.Ctx, h, nil), zk.ErrNoAuth)
		if !h.Held() {
			s.Error("lost by a refusal")
		}
		s.Must(h.Release(s.Ctx))
		s.EmptyNow()
	})
}

// If the answer is lost, the error says that the data may have been replaced.
func TestProclaimWithoutAnAnswer(t *testing.T) {
	inMemory(t, func(s *contract.Stage) {
		c := newCandidate(s)
		h := c.campaign()
		lost := c.proxy.Next(proxy.SetOp, proxy.CutAfterCommit)
		s.Unsure(c.Proclaim(s.Ctx, h, []byte("a")), zk.ErrConnectionClosed)
		<-lost.Fired()
		s.Must(c.Proclaim(s.Ctx, h, []byte("b")))
		m, err := c.Leader(s.Ctx)
		s.Must(err)
		if string(m.Data) != "b" {
			s.Errorf("data %q", m.Data)
		}
		s.Must(h.Release(s.Ctx))
		s.EmptyNow()
	})
}

// Proclaim fires the watch of the candidate behind the leader only, and both continue to wait.
func TestProclaimWakesNoHerd(t *testing.T) {
	inMemory(t, func(s *contract.Stage) {
		a, b, c := newCandidate(s), newCandidate(s), newCandidate(s)
		h := a.campaign()
		second := contract.Begin(s, s.Ctx, b.Campaign)
		s.InLine(2)
		third := contract.Begin(s, s.Ctx, c.Campaign)
		s.InLine(3)
		s.Settle()
		count := func(c *candidate) int64 { return c.proxy.Seen(proxy.ListOp) }
		near, far := count(b), count(c)
		const times = 10
		for range times {
			s.Must(a.Proclaim(s.Ctx, h, []byte(time.Now().String())))
			s.Settle()
		}
		if n := count(b) - near; n > times {
			s.Errorf("%d listings of the next for %d times", n, times)
		}
		if n := count(c) - far; n != 0 {
			s.Errorf("%d listings of the last", n)
		}
		second.Waits()
		third.Waits()
		s.Must(h.Release(s.Ctx))
		h = second.Granted()
		third.Waits()
		s.Must(h.Release(s.Ctx))
		s.Must(third.Granted().Release(s.Ctx))
		s.EmptyNow()
	})
}

// Like Multi and Verify, Proclaim returns ErrLost after a loss, also with the term's context.
func TestProclaimWithTheContextOfALostTerm(t *testing.T) {
	inMemory(t, func(s *contract.Stage) {
		c := newCandidate(s)
		h := c.campaign()
		ctx := h.Context(s.Ctx)
		c.proxy.Refuse()
		s.Settle()
		s.Is(c.Proclaim(ctx, h, []byte("x")), zklocks.ErrLost)
		s.Is(h.Err(), zklocks.ErrLost)
		s.Must(c.proxy.Accept())
		_ = h.Release(s.Ctx)
	})
}
