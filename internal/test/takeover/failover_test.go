package takeover

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/hold"
	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/history"
	"github.com/zklocks/zklocks/internal/test/realzk"
	"github.com/zklocks/zklocks/internal/test/venue"
	"github.com/zklocks/zklocks/internal/wire"
)

// failover is something that happens to the ensemble while many wait. It returns when all members
// are back.
type failover struct {
	name  string
	begin func(*testing.T, venue.Ensemble) (back func())
}

var failovers = []failover{
	{"leader killed", func(t *testing.T, e venue.Ensemble) func() { return kill(t, e, true) }},
	{"follower killed", func(t *testing.T, e venue.Ensemble) func() { return kill(t, e, false) }},
	{"all three restarted, one by one", func(t *testing.T, e venue.Ensemble) func() {
		for _, s := range e.Servers() {
			if err := s.Restart(); err != nil {
				t.Fatal(err)
			}
			whole(t, e)
		}
		return func() {}
	}},
}

func kill(t *testing.T, e venue.Ensemble, leader bool) func() {
	t.Helper()
	followers, err := e.Followers()
	if err != nil {
		t.Fatal(err)
	}
	victim := followers[0]
	if leader {
		if victim, err = e.Leader(); err != nil {
			t.Fatal(err)
		}
	}
	if err := victim.Kill(); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := victim.Restart(); err != nil {
			t.Fatal(err)
		}
		whole(t, e)
	}
}

// crowd is a few locks, each with a holder and a queue of waiters.
type crowd struct {
	*testing.T
	timeout  time.Duration
	addrs    []string
	rec      *history.Recorder
	sessions map[*wire.Conn]int64 // as they were before the fault
	holders  []*holder
	release  chan struct{} // closed when the holders must release
	waiting  sync.WaitGroup
	served   atomic.Int64
}

type holder struct {
	*seat
	hold *zklocks.Hold
	span *history.Span
}

// figures are one row of the table.
type figures struct {
	times               int
	outage              []time.Duration // the longest time without an answer of the quorum
	holds, lost, inVain int             // in vain: although the session survived
	waiters, served     int
	over                int             // sessions that did not survive
	stood               time.Duration   // this process, at most
	early               []time.Duration // from the fault to the grant behind a hold that was lost
	handed              []time.Duration // from the release of one to the grant of the next
}

// A long queue survives the death of any member, and so do holds whose deadline is later than the
// next leader's first answer.
func failingOver(t *testing.T, short venue.Ensemble) {
	watchTimers(t)
	timeouts, which, waiters := []time.Duration{10 * time.Second}, failovers[:1], 10
	rounds := setting(t, "ROUNDS", 1, 2)
	if campaign() {
		timeouts, which, waiters = []time.Duration{2 * time.Second, 4 * time.Second, 10 * time.Second, 20 * time.Second}, failovers, 50
	}
	e := short
	if e == nil {
		e = venue.Real().Cluster(t, 3, venue.Options{Tick: 250 * time.Millisecond})
	}
	table := "\n| fault | T | times | no answer for up to | holds kept | lost | of these, session survived | waiters served | sessions over | first in behind a lost hold: median | last | hand-over: median | last |\n|---|---|---|---|---|---|---|---|---|---|---|---|---|\n"
	for _, x := range which {
		for _, timeout := range timeouts {
			var f figures
			for range rounds {
				t.Run(fmt.Sprintf("%s, %v", x.name, timeout), func(t *testing.T) { x.run(t, e, timeout, 5, waiters, &f) })
			}
			early, handed := spread(f.early, self), spread(f.handed, self)
			table += fmt.Sprintf("| %s | %v | %d | %s | %d of %d | %d | %d | %d of %d | %d | %s | %s | %s | %s |\n",
				x.name, timeout, f.times, spread(f.outage, self).most, f.holds-f.lost, f.holds, f.lost, f.inVain,
				f.served, f.waiters, f.over, early.median, early.most, handed.median, handed.most)
			// Half of it is what a holder has at least, from the last answer on.
			if worst := slices.Max(f.outage); f.lost > 0 && worst+f.stood < timeout/2-time.Second {
				t.Errorf("%s: %d holds lost with a session timeout of %v, and no answer for %v; this process stood for %v", x.name, f.lost, timeout, worst, f.stood)
			}
		}
	}
	t.Log(table + fmt.Sprintf("the slowest timer was %v late", slowest()))
}

func self(d time.Duration) time.Duration { return d }

func (x failover) run(t *testing.T, e venue.Ensemble, timeout time.Duration, holders, waiters int, f *figures) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
	defer cancel()
	c := &crowd{
		T: t, timeout: timeout, addrs: e.Addrs(), rec: history.NewRecorder("crowd"),
		sessions: make(map[*wire.Conn]int64), release: make(chan struct{}),
	}
	for i := range holders {
		c.hold(ctx, recipes[i%len(recipes)], fmt.Sprintf("holder %d", i))
	}
	for i := range waiters {
		c.queue(ctx, c.holders[i%holders], fmt.Sprintf("waiter %d", i), i/holders+2)
	}
	outage := watchOutage(t, realzk.Connect(t, lasting, e.Addrs()...))
	fault := history.Now()
	x.begin(t, e)()
	for conn := range c.sessions {
		test.Eventually(t, patience, "every connection is back", func() bool {
			_, _, err := conn.Exists("/")
			return err == nil
		})
	}
	f.times++
	f.stood = max(f.stood, stood(fault))
	f.outage = append(f.outage, outage())
	c.judge(ctx, f)
	close(c.release)
	for _, h := range c.holders {
		h.span.End()
		if err := h.hold.Release(ctx); err != nil && !errors.Is(err, hold.ErrLost) {
			t.Error(err)
		}
	}
	test.Within(t, 2*patience, "every waiter is served", c.waiting.Wait)
	f.waiters += waiters
	f.served += int(c.served.Load())
	c.check(fault, f)
}

func (c *crowd) connect() *wire.Conn {
	c.Helper()
	conn := realzk.Connect(c, c.timeout, c.addrs...)
	c.sessions[conn] = conn.SessionID()
	return conn
}

// hold holds one lock, until it is lost or the fault is over.
func (c *crowd) hold(ctx context.Context, r recipe, who string) {
	c.Helper()
	conn := c.connect()
	s := newSeat(c, venue.Real(), r, c.timeout, conn, conn)
	got, err := s.take(ctx)
	if err != nil {
		c.Fatal(err)
	}
	h := &holder{s, got, c.rec.Begin(history.Hold{Path: s.path, Kind: s.kind, Token: got.Token(), Who: who})}
	lost, ended, session := got.Lost(), got.Context(ctx), conn.SessionID()
	go func() {
		select {
		case <-lost:
			h.span.EndAt(due(venue.Real(), conn, session, history.Now()))
		case <-ended.Done():
		}
	}()
	c.holders = append(c.holders, h)
}

// queue has a waiter wait behind h, as the n-th of the queue. A waiter that is granted the lock
// during the fault holds until the fault is over.
func (c *crowd) queue(ctx context.Context, h *holder, who string, n int) {
	c.Helper()
	conn := c.connect()
	take := h.next(conn, h.path)
	c.waiting.Go(func() {
		called := history.Now()
		got, err := take(ctx)
		if err != nil {
			c.Errorf("%s is not served: %v", who, err)
			return
		}
		session := conn.SessionID()
		span := c.rec.Begin(history.Hold{Path: h.path, Kind: h.nextKind, Token: got.Token(), Who: who, Called: called})
		c.served.Add(1)
		select {
		case <-c.release:
			span.End()
		case <-got.Lost():
			span.EndAt(due(venue.Real(), conn, session, history.Now()))
		}
		if err := got.Release(ctx); err != nil && !errors.Is(err, hold.ErrLost) {
			c.Error(err)
		}
	})
	test.Eventually(c, patience, "the next one stands in line", func() bool {
		return len(test.Children(c, conn, h.path+h.below)) == n || closed(h.hold.Lost()) // on a busy machine
	})
}

// judge compares what the holders report with the state of their sessions.
func (c *crowd) judge(ctx context.Context, f *figures) {
	c.Helper()
	for _, h := range c.holders {
		f.holds++
		survived := h.seat.holder.SessionID() == c.sessions[h.seat.holder]
		switch {
		case h.hold.Held():
			if err := h.hold.Verify(ctx); err != nil {
				c.Errorf("%s: held, and verify says %v", h.path, err)
			}
			if !survived {
				c.Errorf("%s: held in a session that is over", h.path)
			}
			continue
		case survived:
			f.inVain++
		}
		f.lost++
	}
	for conn, session := range c.sessions {
		if conn.SessionID() != session {
			f.over++
		}
	}
}

// check asserts that no two held at a time, and measures the handovers.
func (c *crowd) check(fault int64, f *figures) {
	c.Helper()
	holds := c.rec.Holds()
	if err := history.Check(history.Rules{Limits: []history.Limit{{Permits: 1}}}, holds).Err(); err != nil {
		c.Error(err)
	}
	slices.SortFunc(holds, func(a, b history.Hold) int { return cmp.Compare(a.Acquired, b.Acquired) })
	before := make(map[string]history.Hold)
	for _, h := range holds {
		if b, ok := before[h.Path]; ok {
			if strings.HasPrefix(b.Who, "holder") && c.lost(b) {
				f.early = append(f.early, time.Duration(h.Acquired-fault))
			} else {
				f.handed = append(f.handed, time.Duration(h.Acquired-b.Ended))
			}
		}
		before[h.Path] = h
	}
	for _, h := range c.holders {
		h.empty()
	}
}

// lost reports whether a holder's hold was lost.
func (c *crowd) lost(of history.Hold) bool {
	return slices.ContainsFunc(c.holders, func(h *holder) bool { return h.path == of.Path && closed(h.hold.Lost()) })
}

// watchOutage sends requests to the quorum again and again. The returned function ends that, and
// returns the longest time without an answer.
func watchOutage(t *testing.T, conn *wire.Conn) func() time.Duration {
	done, longest := make(chan struct{}), make(chan time.Duration, 1)
	go func() {
		var most time.Duration
		for answered := time.Now(); !closed(done); linger(5 * time.Millisecond) {
			if _, err := conn.Multi(&zk.CheckVersionRequest{Path: "/", Version: -1}); err == nil {
				most = max(most, time.Since(answered))
				answered = time.Now()
			}
		}
		longest <- most
	}()
	return func() time.Duration {
		close(done)
		return <-longest
	}
}
