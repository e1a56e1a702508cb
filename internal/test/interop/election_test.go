package interop

import (
	"context"
	"testing"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test/contract"
	"github.com/zklocks/zklocks/internal/test/locks"
	"github.com/zklocks/zklocks/leader"
)

func TestCuratorLeaderSelector(t *testing.T) {
	onEach(t, func(s *story) {
		theirs := s.curator()
		s.elects(theirs, elected)
		s.excludes(ourMutex(s.Stage).party("c"), mutex, theirs.party("b"), elected) // a LeaderSelector has an InterProcessMutex
		theirs.part()
	})
}

func TestCuratorLeaderLatch(t *testing.T) {
	onEach(t, func(s *story) {
		theirs := s.curator()
		s.elects(theirs, latch, leader.WithLatchNames())
		theirs.part()
	})
}

func TestKazooElection(t *testing.T) {
	onEach(t, func(s *story) {
		theirs := s.kazoo()
		s.elects(theirs, elected, leader.WithKazooNames())
		theirs.part()
	})
}

// elects asserts that one candidate of both sides leads, and that each side shows a leader of the
// other side. Then Run queues again behind the candidates of the other side, which campaign as
// kind.
func (s *story) elects(theirs *peer, kind string, opts ...leader.Option) {
	s.Helper()
	opts = append(opts, zklocks.WithData([]byte("ours")))
	ours := ourElection(s.Stage, opts...)
	a, b := ours.party("a"), theirs.party("b")
	s.excludes(a, elected, b, kind)
	s.excludes(b, kind, a, elected)

	e := leader.New(locks.On(s.Connect()), s.Path, opts...)
	ctx, cancel := context.WithCancel(s.Ctx)
	terms, over := make(chan struct{}), make(chan error)
	run := contract.Begin(s, ctx, func(ctx context.Context) (any, error) {
		return nil, e.Run(ctx, func(context.Context, *zklocks.Hold) error {
			terms <- struct{}{}
			return <-over
		})
	})
	for range 2 {
		<-terms
		if id := theirs.leader("c", kind); id != "ours" {
			s.Errorf("they call the leader %q", id)
		}
		node := s.asks(b, kind)
		if b.holds() {
			s.Errorf("%s leads, too", node)
		}
		over <- nil // Run queues again, at the tail
		b.await()
		m, err := e.Leader(s.Ctx)
		s.Must(err)
		if string(m.Data) != "b" {
			s.Errorf("the leader has the data %q", m.Data)
		}
		s.InLine(2)
		b.give()
	}
	<-terms
	cancel()
	over <- nil
	s.Is(run.Failed(), context.Canceled)
	s.Empty()
	s.fights(ours, []string{elected}, theirs, []string{kind}, crowd)
}
