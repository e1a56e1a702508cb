package explore

import (
	"math"
	"math/rand/v2"
	"time"
)

// requests records the requests to release that the nemesis has made.
type requests struct {
	made  map[string]bool  // claims with a node that may have been asked, see asking
	since map[string]int64 // by the path of a node that contains a request: since when the node certainly contains it
}

func newRequests() requests {
	return requests{make(map[string]bool), make(map[string]int64)}
}

// contains is called when a node contains a request.
func (l *ledger) contains(node string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.requests.since[node] = l.clock.now()
}

// wasAsked reports whether a node of the hold may have been asked.
func (l *ledger) wasAsked(s *stay) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range s.all() {
		if l.requests.made[claimOf(nodeOf(s.hold))] {
			return true
		}
	}
	return false
}

// unheardOf returns a node of the hold that contains a request, if nothing breaks and the holder
// must have been notified; or "". The holder called ReleaseRequested before the time since. If a
// right was missing, the holder is notified after a recheck: the first after five seconds, each
// later one about twice as late as the one before.
func (w *world) unheardOf(s *stay, since int64) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range s.all() {
		node := nodeOf(s.hold)
		at, ok := w.requests.since[node]
		heard := max(at, since)
		for _, missing := range w.forbidden[s.Path] {
			if missing.end == math.MaxInt64 {
				ok = false
			} else if missing.end > at {
				heard = max(heard, missing.end)
			}
		}
		if len(w.forbidden[s.Path]) > 0 {
			heard += heard - w.entered[idOf(node)] + int64(firstLook)
		}
		if ok && heard+int64(w.hearing()) < w.clock.now() {
			return node
		}
	}
	return ""
}

// listens compares the result of ReleaseRequested, which was called at the time since, with the
// requests.
func (t *tenure) listens(requested <-chan struct{}, since int64) {
	if !open(requested) {
		t.count("asked")
		if !t.world.wasAsked(t.stay) {
			t.bad("it is notified that it is asked to release, and was not")
		}
		return
	}
	if node := t.world.unheardOf(t.stay, since); node != "" && t.world.calm && t.Held() && open(requested) {
		t.bad("%s was asked to release, and the holder has not heard", node)
	}
}

// demand asks a member to release.
func (n *nemesis) demand() {
	if line := n.inLine(); len(line) > 0 {
		n.demandOf(line[n.random.IntN(len(line))].path)
	}
}

// demandOf is askOne of a member that does not write into its node.
func (n *nemesis) demandOf(path string) {
	n.askOne(path)
	n.contains(path)
}

// askedCalmly is a calm world in which holds last long enough to be notified.
func askedCalmly(p *plan, r *rand.Rand) {
	narrow(p, r)
	calm(p, r)
	p.paths, p.seldom, p.asks = 1+r.IntN(2), 2, 1
	p.stay, p.rest = between(r, 100*time.Millisecond, 500*time.Millisecond), between(r, 10*time.Millisecond, 100*time.Millisecond)
}
