package explore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test/history"
	"github.com/zklocks/zklocks/leader"
)

// election is a candidate. Half of all terms are those of a Run: its function holds until the
// worker releases the term, or goes on when that is lost, and then Run is canceled.
func election(world *world, e *leader.Election, path string) *lock {
	return &lock{
		path: path, dir: path, election: e,
		take: func(ctx context.Context, w *worker) (*grip, error) {
			if w.chance(2) {
				return elected(ctx, world, e)
			}
			h, err := e.Campaign(ctx)
			if err != nil {
				return nil, err
			}
			return &grip{held: h, kind: history.Exclusive, give: h.Release}, nil
		},
		members: e.Queue,
		part:    func(*worker) (*part, bool) { return nil, false }, // an Election is no Locker
	}
}

func elected(ctx context.Context, world *world, e *leader.Election) (*grip, error) {
	ctx, stop := context.WithCancel(ctx)
	terms, over, returned := make(chan *zklocks.Hold), make(chan struct{}), make(chan error, 1)
	go func() {
		returned <- e.Run(ctx, func(ctx context.Context, h *zklocks.Hold) error {
			terms <- h
			<-over
			return ctx.Err()
		})
	}()
	select {
	case err := <-returned:
		stop()
		return nil, err
	case h := <-terms:
		return &grip{held: h, kind: history.Exclusive, give: h.Release, after: func() {
			stop()
			close(over)
			if err := <-returned; !errors.Is(err, ctx.Err()) && !errors.Is(err, zk.ErrClosing) {
				world.complain("a Run that was canceled has returned %v", err)
			}
		}}, nil
	}
}

// A shown is a view of a leader that Observe has yielded as current, until it yielded the next.
type shown struct {
	token       int64
	from, until int64
	who         string
}

// view follows the leader of a path from one host until the end.
func (h *host) view(path int) {
	w := h.world
	for time.Now().Before(w.end) {
		c := h.client()
		e := c.locks[path].election
		ctx, cancel := context.WithDeadline(context.Background(), w.end)
		var last shown
		for v, err := range e.Observe(ctx) {
			now := w.clock.now()
			if last.token != 0 {
				last.until = now
				w.mu.Lock()
				w.shown[w.paths[path]] = append(w.shown[w.paths[path]], last)
				w.mu.Unlock()
			}
			last = shown{from: now, who: h.name}
			if v.Current {
				last.token = v.Leader.Token
			}
			if err != nil && ctx.Err() == nil && !(errors.Is(err, zk.ErrClosing) && c.closing()) && (w.kind.tolerates == nil || !w.kind.tolerates(err)) {
				w.complain("%s: observed by %s: %v", w.paths[path], h.name, err)
			}
		}
		cancel()
		select { // the connection was closed under it: the next one comes in a moment
		case <-c.replaced:
		case <-time.After(time.Until(w.end)): // virtual
		}
	}
}

// A named is a leader that Leader has returned, by the token, and when Leader was called.
type named struct {
	token, called int64
	who           string
}

// ask asks for the leader of a path from one host, again and again until the end.
func (h *host) ask(path int) {
	w := h.world
	r := rand.New(rand.NewPCG(w.seed, 1<<20))
	for time.Now().Before(w.end) {
		time.Sleep(between(r, time.Millisecond, w.session/4)) // virtual: others lead meanwhile
		ctx, cancel := context.WithDeadline(context.Background(), w.end)
		called := w.clock.now()
		m, err := h.client().locks[path].election.Leader(ctx)
		cancel()
		if err != nil {
			continue // there is none, or the connection is closed
		}
		w.mu.Lock()
		w.named[w.paths[path]] = append(w.named[w.paths[path]], named{m.Token, called, h.name})
		w.mu.Unlock()
	}
}

// former are the leaders that were named to hosts that asked after another candidate had begun to
// lead.
func (l *ledger) former(path string) (former []finding) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, n := range l.named[path] {
		for _, v := range l.visits[path] {
			if v.token > n.token && v.acquired < n.called {
				former = append(former, finding{n.called, fmt.Sprintf("%s: %s asks for the leader at %v and is told of that of token %d, and that of token %d leads since %v",
					path, n.who, time.Duration(n.called), n.token, v.token, time.Duration(v.acquired))})
				break
			}
		}
	}
	return former
}

// stale are the views that were current for longer than a session timeout after another candidate
// had been told that it leads: until then a quorum must have told of that.
func (l *ledger) stale(path string, timeout time.Duration) (stale []finding) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.shown[path] {
		for _, v := range l.visits[path] {
			if v.token > s.token && v.acquired+int64(timeout) < s.until {
				stale = append(stale, finding{s.until, fmt.Sprintf("%s: %s shows the leader of token %d as current from %v to %v, and that of token %d leads since %v",
					path, s.who, s.token, time.Duration(s.from), time.Duration(s.until), v.token, time.Duration(v.acquired))})
				break
			}
		}
	}
	return stale
}
