package explore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test/history"
	"github.com/zklocks/zklocks/leader"
)

// election is a candidate. Half of all terms are terms of Run. The function of Run returns when the
// worker releases the term. If the term is lost, the function continues, and then Run is canceled.
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
			return &grip{held: h, kind: history.Exclusive, give: h.Release, proclaim: proclaimer(e, h)}, nil
		},
		members: e.Queue,
		part:    func(*worker) (*part, bool) { return nil, false }, // an Election is not a Locker
	}
}

func proclaimer(e *leader.Election, term *zklocks.Hold) func(context.Context, []byte) error {
	return func(ctx context.Context, data []byte) error { return e.Proclaim(ctx, term, data) }
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
		return &grip{held: h, kind: history.Exclusive, give: h.Release, proclaim: proclaimer(e, h), after: func() {
			stop()
			close(over)
			if err := <-returned; !errors.Is(err, ctx.Err()) && !errors.Is(err, zk.ErrClosing) {
				world.complain("a Run that was canceled has returned %v", err)
			}
		}}, nil
	}
}

// A position is what Leader and Observe show: a term, and how often its leader has proclaimed.
// Positions only grow.
type position struct {
	token int64 // 0: there is no leader
	said  int
}

func (p position) String() string { return fmt.Sprintf("%d/%d", p.token, p.said) }

// positionOf returns the position in which a leader is shown. asked reports that it was asked to
// release, so the number of its proclamations is unknown.
func (w *world) positionOf(m zklocks.Member) (p position, asked bool) {
	p.token = m.Token
	var said position
	if _, err := fmt.Sscanf(string(m.Data), "%d/%d", &said.token, &said.said); err == nil {
		if p.said = said.said; said.token != m.Token {
			w.complain("%s of token %d is shown with what that of token %d has proclaimed", m.Path, m.Token, said.token)
		}
	}
	return p, m.ReleaseRequested
}

// request is the first line of a node's data if its member is asked to release.
const request = "__REVOKE__"

// A shown is a view of Observe, until the next view.
type shown struct {
	position
	none, asked, current bool // none: no view yet
	begun, from, until   int64
	who                  string
}

func (s shown) String() string {
	if s.none {
		return "nothing"
	}
	return fmt.Sprintf("%v (current: %v, asked to release: %v)", s.position, s.current, s.asked)
}

// A viewer follows the leader of a path from one host to the end, by calls of Observe.
type viewer struct {
	host *host
	path int
	seen position // the largest position that was current
	left bool     // after the position seen, a view showed no leader

	mu   sync.Mutex
	last shown
	view leader.View
}

// run observes until ctx ends.
func (v *viewer) run(ctx context.Context) {
	w, path := v.host.world, v.host.world.paths[v.path]
	r := rand.New(rand.NewPCG(w.seed, uint64(1<<21+v.path)))
	for ctx.Err() == nil {
		c := v.host.client()
		views, length := math.MaxInt, 10*w.patience
		if w.comes {
			views, length = 1+r.IntN(6), between(r, time.Millisecond, 4*w.session)
		}
		call, cancel := context.WithTimeout(ctx, length)
		v.begins()
		failed, left := false, int64(0)
		for view, err := range c.locks[v.path].election.Observe(call) {
			last := v.yields(view, err)
			if err != nil && call.Err() == nil && !(errors.Is(err, zk.ErrClosing) && c.closing()) && !w.tolerated(last.from, err, path) {
				w.complain("%s: observed by %s: %v", path, v.host.name, err)
			}
			failed = err != nil
			if views--; views == 0 {
				left = w.clock.now()
				break
			}
		}
		w.slow(fmt.Sprintf("%s: Observe of %s, left by break", path, v.host.name), left)
		v.ends()
		cancel()
		if (w.comes || failed) && !c.closing() {
			time.Sleep(between(r, time.Millisecond, w.session)) // virtual: leaders change meanwhile
			continue
		}
		select { // the connection was closed: its successor comes in a moment
		case <-c.replaced:
		case <-ctx.Done():
		}
	}
}

// begins is called right before Observe.
func (v *viewer) begins() {
	now := v.host.world.clock.now()
	v.mu.Lock()
	defer v.mu.Unlock()
	v.view = leader.View{}
	v.last = shown{none: true, begun: now, from: now, who: v.host.name}
}

// ends is called when the loop was left.
func (v *viewer) ends() {
	w := v.host.world
	v.mu.Lock()
	v.last.until = w.clock.now()
	last := v.last
	v.last = shown{none: true, begun: math.MaxInt64}
	v.mu.Unlock()
	if last.begun == math.MaxInt64 {
		return // the loop has ended
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.shown[w.paths[v.path]] = append(w.shown[w.paths[v.path]], last)
}

// yields checks a view. It must differ from the view before. If it is not current, it must show the
// last leader, so it cannot be the first. Current views must never go back, also from one Observe
// to the next, because a quorum request precedes the reads on each connection.
func (v *viewer) yields(view leader.View, err error) (last shown) {
	w := v.host.world
	bad := func(format string, args ...any) {
		w.complain("%s: %s is shown %+v after %+v: %s", w.paths[v.path], v.host.name, view, v.view, fmt.Sprintf(format, args...))
	}
	last = v.last
	v.ends()
	p, asked := w.positionOf(view.Leader)
	same := view.Leader.Path == v.view.Leader.Path && view.Leader.Token == v.view.Leader.Token &&
		view.Leader.ReleaseRequested == v.view.Leader.ReleaseRequested && bytes.Equal(view.Leader.Data, v.view.Leader.Data)
	switch {
	case err == nil && !last.none && same && view.Current == v.view.Current:
		bad("nothing has changed")
	case err == nil && last.none && !view.Current:
		bad("there was no current one")
	case !view.Current && !same:
		bad("it is not current, and another one")
	case view.Current && err != nil:
		bad("it is current, and the last: %v", err)
	}
	switch {
	case !view.Current:
	case p.token == 0:
		v.left = v.seen.token != 0
	case p.token < v.seen.token, p.token == v.seen.token && v.left:
		bad("that of token %d had gone", p.token)
	case p.token == v.seen.token && p.said < v.seen.said && !asked:
		bad("it is what the leader had proclaimed before")
	default:
		if !asked || p.token != v.seen.token {
			v.seen = p
		}
		v.left = false
	}
	if err != nil {
		return last // the loop is left
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.view = view
	v.last = shown{position: p, asked: asked, current: view.Current, begun: last.begun, from: w.clock.now(), who: v.host.name}
	return last
}

// shows reports whether the view shows the position now, as current.
func (v *viewer) shows(p position) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.last.current && !v.last.asked && v.last.position == p
}

// lastWords is called when all faults have ended. It checks that all viewers of a path see what a
// leader proclaims, and then that there is no leader. Views may be skipped, but never the last.
func (w *world) lastWords(path int) {
	ctx, cancel := context.WithTimeout(context.Background(), w.patience)
	defer cancel()
	e := w.hosts[0].client().locks[path].election
	w.candidates(w.paths[path], 1)
	defer w.candidates(w.paths[path], -1)
	h, err := e.Campaign(ctx)
	if err != nil {
		if !w.tolerated(w.clock.now(), err, w.paths[path]) {
			w.complain("%s: the last campaign: %v", w.paths[path], err)
		}
		return
	}
	p := position{h.Token(), 1}
	if err := e.Proclaim(ctx, h, []byte(p.String())); err != nil {
		w.complain("%s: the last proclaims: %v", w.paths[path], err)
	}
	w.allSee(path, p)
	if err := h.Release(ctx); err != nil {
		w.complain("%s: the last resigns: %v", w.paths[path], err)
	}
	w.allSee(path, position{})
}

// allSee waits until all viewers of a path show a position.
func (w *world) allSee(path int, p position) {
	deaf := slices.DeleteFunc(slices.Clone(w.viewers), func(v *viewer) bool { return v.path != path })
	for end := time.Now().Add(20*w.session + 2*w.length); ; time.Sleep(w.hearing()) { // virtual: they receive the events
		deaf = slices.DeleteFunc(deaf, func(v *viewer) bool { return v.shows(p) })
		if len(deaf) == 0 {
			return
		}
		if time.Now().After(end) {
			w.complain("%s: %s is not shown %v, which is the last, but %v", w.paths[path], deaf[0].host.name, p, deaf[0].last)
			return
		}
	}
}

// A named is a leader that Leader has returned, and when Leader was called.
type named struct {
	position
	asked  bool
	called int64
	who    string
}

// ask calls Leader for a path from one host, repeatedly until the end.
func (h *host) ask(path int) {
	w := h.world
	r := rand.New(rand.NewPCG(w.seed, 1<<20))
	for time.Now().Before(w.end) {
		time.Sleep(between(r, time.Millisecond, w.session/4)) // virtual: leaders change meanwhile
		ctx, cancel := context.WithDeadline(context.Background(), w.end)
		called := w.clock.now()
		c := h.client()
		m, err := c.locks[path].election.Leader(ctx)
		ended := ctx.Err() != nil
		cancel()
		if err != nil {
			if !ended && !errors.Is(err, leader.ErrNoLeader) && !(errors.Is(err, zk.ErrClosing) && c.closing()) && !w.tolerated(called, err, w.paths[path]) {
				w.complain("%s: %s asks for the leader: %v", w.paths[path], h.name, err)
			}
			continue
		}
		p, asked := w.positionOf(m)
		w.mu.Lock()
		w.named[w.paths[path]] = append(w.named[w.paths[path]], named{p, asked, called, h.name})
		w.mu.Unlock()
		if w.reigns == 1 && r.IntN(4) == 0 {
			h.request(m)
		}
	}
}

// request asks a leader that was shown to release.
func (h *host) request(m zklocks.Member) {
	w, c := h.world, h.client()
	ctx, cancel := context.WithDeadline(context.Background(), w.end.Add(w.patience))
	defer cancel()
	called, after := w.clock.now(), w.asking(m.Path)
	err := c.conn.RequestRelease(ctx, m)
	after(err == nil)
	if err != nil && !errors.Is(err, zk.ErrNoNode) && !c.closing() && !w.tolerated(called, err, dirOf(m.Path)) {
		w.complain("%s: %s asks %s to release: %v", dirOf(m.Path), h.name, m.Path, err)
	}
}

// former returns the leaders that Leader has returned although, before the call, another candidate
// had begun to lead or the leader had proclaimed more.
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
		for _, p := range l.said[path] {
			if p.token == n.token && !n.asked && p.said > n.said && p.at < n.called {
				former = append(former, finding{n.called, fmt.Sprintf("%s: %s asks for the leader at %v and is told %v, and %v was proclaimed at %v",
					path, n.who, time.Duration(n.called), n.position, p.position, time.Duration(p.at))})
				break
			}
		}
	}
	return former
}

// stale returns the views that were current for longer than a session timeout after another
// candidate was granted the lead, or after a Proclaim had returned: by then a quorum must have
// shown the change. A view without a leader is stale if a leader has led for that long.
func (l *ledger) stale(path string, timeout time.Duration) (stale []finding) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.shown[path] {
		if !s.current || slices.ContainsFunc(l.forbidden[path], func(f *span) bool { return f.begin < s.until && s.from < f.end }) {
			continue // the server may have withheld the event
		}
		bad := func(what string, since int64) {
			stale = append(stale, finding{s.until, fmt.Sprintf("%s: %s is shown %v as current from %v to %v, and %s since %v",
				path, s.who, s.position, time.Duration(s.from), time.Duration(s.until), what, time.Duration(since))})
		}
		for _, v := range l.visits[path] {
			end := s.until
			if s.token == 0 {
				end = min(end, v.sure)
			}
			if v.token > s.token && v.acquired+int64(timeout) < end && s.from < end {
				bad(fmt.Sprintf("that of token %d leads", v.token), v.acquired)
				break
			}
		}
		for _, p := range l.said[path] {
			if p.token == s.token && p.said > s.said && !s.asked && p.at+int64(timeout) < s.until {
				bad(fmt.Sprintf("%v is proclaimed", p.position), p.at)
				break
			}
		}
	}
	return stale
}

// unseen returns the views that differ from a state that has lasted for a while. It is for worlds
// in which only nodes are deleted.
func (w *world) unseen(path string) (unseen []finding) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.periods[path] {
		to := p.to
		for _, s := range w.struck[p.claim] {
			if s.end > p.called && s.begin < to {
				to = s.begin
			}
		}
		for _, s := range w.shown[path] {
			from := max(s.from, max(p.from, s.begun)+int64(w.viewing()))
			if right := s.current && !s.asked && s.position == p.position; !right && from < min(to, s.until) {
				unseen = append(unseen, finding{from, fmt.Sprintf("%s: from %v to %v there is %v, and %s is shown %v at %v",
					path, time.Duration(p.from), time.Duration(to), p.position, s.who, s, time.Duration(from))})
				break
			}
		}
	}
	return unseen
}

// viewing is how long a change may take to be shown if nothing else breaks: an event, and a few
// requests.
func (p plan) viewing() time.Duration { return 2*p.hearing() + 16*p.latency }

// A period is a time during which all servers have the same leader, with the same data.
type period struct {
	position
	claim            string
	called, from, to int64 // the call with which it begins, the return of that call, and the next call
}

// A span is the time from a request of the nemesis to its return.
type span struct{ begin, end int64 }

// A saying is what a leader has proclaimed, and when Proclaim returned.
type saying struct {
	position
	at int64
}

// candidates counts the candidates and leaders. If the count is 0, there is no leader.
func (l *ledger) candidates(path string, more int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.campaigns[path] += more; l.campaigns[path] == 0 {
		now := l.clock.now()
		l.vacant[path] = &period{called: now, from: now, to: math.MaxInt64}
		l.periods[path] = append(l.periods[path], l.vacant[path])
	} else if p := l.vacant[path]; p != nil {
		p.to = l.clock.now()
		l.vacant[path] = nil
	}
}

// states begins a period of a term.
func (l *ledger) states(s *stay, said int, called int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.over {
		return
	}
	s.period = &period{position{s.Token, said}, claimOf(nodeOf(s.hold)), called, l.clock.now(), math.MaxInt64}
	l.periods[s.Path] = append(l.periods[s.Path], s.period)
}

// says is called right before a Proclaim, and the returned function right after it.
func (l *ledger) says(s *stay, said int) (after func(done bool)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	called := l.clock.now()
	s.endPeriod(called)
	return func(done bool) {
		if !done {
			return
		}
		l.states(s, said, called)
		l.mu.Lock()
		defer l.mu.Unlock()
		l.said[s.Path] = append(l.said[s.Path], saying{position{s.Token, said}, l.clock.now()})
	}
}

func (s *stay) endPeriod(at int64) {
	if s.period != nil {
		s.period.to = min(s.period.to, at)
	}
}

// asking is called right before the member of a node is asked to release, and the returned function
// right after it.
func (l *ledger) asking(node string) (after func(done bool)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	claim, begin := claimOf(node), l.clock.now()
	l.requests.made[claim] = true
	i := len(l.struck[claim])
	l.struck[claim] = append(l.struck[claim], span{begin, math.MaxInt64})
	return func(done bool) {
		l.mu.Lock()
		defer l.mu.Unlock()
		now := l.clock.now()
		if l.struck[claim][i].end = now; done && l.asked[claim] == 0 {
			l.asked[claim] = now
		}
	}
}

// isAsked reports whether the hold began, and was asked to release, at least the duration ago
// before now.
func (l *ledger) isAsked(s *stay, ago time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := l.asked[claimOf(nodeOf(s.hold))]
	return at != 0 && max(at, s.Acquired)+int64(ago) < l.clock.now()
}

// tolerated reports whether a call at some paths, made at an instant, may return the error: the
// kind of the world allows it, or a right was missing meanwhile. Callers share a watch that is
// being set, so a call that begins right after the right was restored may share an earlier refusal.
func (w *world) tolerated(called int64, err error, paths ...string) bool {
	if errors.Is(err, zk.ErrNoAuth) {
		return slices.ContainsFunc(paths, func(path string) bool { return w.isForbidden(path, called-int64(w.hearing())) }) && strings.Contains(err.Error(), ": it takes ")
	}
	return err != nil && w.kind.tolerates != nil && w.kind.tolerates(err)
}

// tolerated is like world.tolerated, for a call on the hold.
func (t *tenure) tolerated(err error) bool {
	return t.world.tolerated(t.stay.Acquired, err, t.lock.paths()...)
}

// isForbidden reports whether a right was missing at a path at some time since an instant.
func (l *ledger) isForbidden(path string, since int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.forbidden[path], func(s *span) bool { return s.end > since })
}

// forbids is called before a right is revoked at a path, and the returned function after its
// return.
func (l *ledger) forbids(path string) (restored func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := &span{l.clock.now(), math.MaxInt64}
	l.forbidden[path] = append(l.forbidden[path], s)
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		s.end = l.clock.now()
	}
}
