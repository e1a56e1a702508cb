package hostile

import (
	"errors"
	"testing"
	"time"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/hold"
	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/contract"
	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/internal/test/realzk"
)

// A member of an ensemble without a quorum may serve reads (readonlymode.enabled), as old as they
// are. No lock is granted there: a new caller waits until its context ends, a holder loses its
// hold, and a waiter gets its turn when there is a quorum again.
func TestAReadOnlyMember(t *testing.T) {
	const timeout = 4 * time.Second
	ensemble := realzk.Cluster(t, 3, realzk.Options{JVM: []string{"-Dreadonlymode.enabled=true"}})
	left := ensemble.Servers()[0]
	witness := realzk.Connect(t, session, left.Addr())
	type seat struct {
		recipe
		path  string
		proxy *proxy.Proxy
		free  locker // of a free lock
		own   locker // of one that the holder has
		held  *zklocks.Hold
		waits *contract.Attempt[*zklocks.Hold]
	}
	var seats []*seat
	for _, r := range recipes {
		s := &seat{recipe: r, path: test.Path(t), proxy: proxy.For(t, left.Addr())}
		conn := realzk.Connect(t, timeout, s.proxy.Addr())
		s.free, s.own = r.on(conn, s.path+"-free"), r.on(conn, s.path)
		free, err := s.free.lock(t.Context())
		must(t, err)
		must(t, free.Release(t.Context()))
		s.held, err = r.on(realzk.Connect(t, timeout, left.Addr()), s.path).block(t.Context())
		must(t, err)
		s.waits = contract.Begin(t, t.Context(), s.own.lock)
		test.Eventually(t, soon, "there is a waiter", func() bool {
			return len(test.Children(t, witness, s.path+r.below)) == 2*r.nodes
		})
		seats = append(seats, s)
	}
	for _, s := range ensemble.Servers()[1:] {
		must(t, s.Kill())
	}
	test.Eventually(t, soon, "the last member serves reads", func() bool {
		answer, err := left.Word("isro")
		return err == nil && answer == "ro"
	})
	const wait = 2 * time.Second
	var calls []*caller
	for _, s := range seats {
		for _, call := range []acquire{s.free.lock, s.free.try} {
			c := &caller{recipe: s.recipe, proxy: s.proxy}
			c.begin(t, wait, call)
			calls = append(calls, c)
		}
	}
	shakes := func() (n int64) {
		for _, s := range seats {
			n += s.proxy.Seen(proxy.ConnectOp)
		}
		return n
	}
	before := shakes()
	for _, c := range calls {
		if asked := c.inVain(t); asked > 0 {
			t.Errorf("%s: %d requests of a member that only reads", c.name, asked)
		}
		c.attempt.Prompt()
	}
	shaken := shakes() - before
	t.Logf("%d clients shake hands %d times in %v", len(seats), shaken, wait)
	if shaken > int64(len(seats))*20*int64(wait/time.Second) {
		t.Errorf("%d clients shake hands %d times in %v", len(seats), shaken, wait)
	}
	for _, s := range seats {
		s.waits.Waits()
		asked := time.Now()
		test.Within(t, soon, "the holder is told", func() { <-s.held.Lost() })
		if took := time.Since(asked); took > 2*timeout { // twice what its lease can last
			t.Errorf("%s: the holder is told after %v", s.name, took)
		}
	}
	must(t, ensemble.Servers()[1].Restart()) // two of three are a quorum
	for _, s := range seats {
		if err := s.held.Release(t.Context()); !errors.Is(err, hold.ErrLost) {
			t.Errorf("%s: release: %v", s.name, err)
		}
		must(t, s.waits.Granted().Release(t.Context()))
		free, err := s.free.lock(t.Context())
		must(t, err)
		must(t, free.Release(t.Context()))
		test.AssertEmpty(t, witness, s.path+s.below)
		test.AssertEmpty(t, witness, s.path+"-free"+s.below)
	}
}
