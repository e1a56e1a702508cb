package explore

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks"
)

// otherWord is data that are not a request to release.
const otherWord = "written by hand"

// requests records the requests to release that the nemesis has made.
type requests struct {
	made  map[string]bool  // claims with a node that may have been asked, see asking
	since map[string]int64 // by the path of a node that contains a request: since when the node certainly contains it
}

func newRequests() requests {
	return requests{make(map[string]bool), make(map[string]int64)}
}

// writing is called before the nemesis writes into a node.
func (l *ledger) writing(node string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.requests.since, node)
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

// scribble writes a request to release, as the library or Curator does, and/or other data into a
// node.
func (n *nemesis) scribble() {
	line := n.inLine()
	if len(line) == 0 {
		return
	}
	node := line[n.random.IntN(len(line))].path
	if n.chance(2) {
		node = line[0].path // the holder's node
	}
	ctx, cancel := context.WithTimeout(context.Background(), n.session)
	defer cancel()
	before, was, err := n.admin.Client().Get(node)
	if err != nil {
		return
	}
	how := n.random.IntN(6)
	n.writing(node)
	if how > 1 {
		defer n.asking(node)(false) // the argument matters only for leaders, and none is among the lockers
	}
	n.say("ask", "%s is written to, in way %d", node, how)
	clean := true // no other client writes into the node
	switch how {
	case 0:
		writeInto(n.admin, node, otherWord)
	case 1: // the member that had the same name before
		if err := n.request(ctx, n.admin, node, was.Czxid-1); !errors.Is(err, zk.ErrNoNode) && n.calm {
			n.complain("a member that has gone is asked to release: %v", err)
		}
	case 2:
		writeInto(n.admin, node, request)
	case 3:
		n.request(ctx, n.admin, node, was.Czxid)
	case 4: // two at once on one connection, so that both read before either writes
		from := n.host().client().conn
		n.atOnce(
			func() { n.request(ctx, from, node, was.Czxid) },
			func() { n.request(ctx, from, node, was.Czxid) },
		)
	case 5:
		clean = false
		from := n.host().client().conn
		n.atOnce(
			func() { n.request(ctx, from, node, was.Czxid) },
			func() { writeInto(from, node, otherWord) },
		)
	}
	n.written(ctx, node, how, clean, isRequest(before), was)
}

// written checks the node after a write.
func (n *nemesis) written(ctx context.Context, node string, how int, clean, wasAsked bool, was *zk.Stat) {
	data, is, err := n.admin.Client().Get(node)
	if err != nil || is.Czxid != was.Czxid {
		return
	}
	asked := isRequest(data)
	if asked {
		n.contains(node)
	}
	if !n.calm {
		return
	}
	writes := is.Version - was.Version
	switch {
	case how >= 2 && clean && !asked:
		n.complain("%s was asked in way %d, and contains %q", node, how, data)
	case how == 1 && writes != 0:
		n.complain("%s: a request to another member was written into it", node)
	case (how == 3 || how == 4) && (writes > 1 || wasAsked && writes != 0):
		n.complain("%s: %d writes for one request, asked before: %v", node, writes, wasAsked)
	}
	for _, l := range n.host().client().locks {
		members, err := l.members(ctx)
		if err != nil {
			n.complain("%s: queue: %v", l.path, err)
		}
		for _, m := range members {
			if m.Path == node && m.ReleaseRequested != asked {
				n.complain("%s contains %q, and the queue shows %+v", node, data, m)
			}
		}
	}
}

// request calls RequestRelease.
func (n *nemesis) request(ctx context.Context, from *zklocks.Conn, node string, token int64) error {
	err := from.RequestRelease(ctx, zklocks.Member{Path: node, Token: token})
	if n.calm && err != nil && !errors.Is(err, zk.ErrNoNode) {
		n.complain("%s: request release: %v", node, err)
	}
	return err
}

// isRequest reports whether the data of a node are a request to release.
func isRequest(data []byte) bool {
	first, _, _ := strings.Cut(string(data), "\n")
	return first == request
}

func writeInto(from *zklocks.Conn, node, data string) {
	_, _ = from.Client().Set(node, []byte(data), -1) // the node may have been deleted
}

func (n *nemesis) atOnce(calls ...func()) {
	var all sync.WaitGroup
	for _, call := range calls {
		all.Go(call)
	}
	all.Wait()
}

// askedCalmly is a calm world in which holds last long enough to be notified.
func askedCalmly(p *plan, r *rand.Rand) {
	narrow(p, r)
	calm(p, r)
	p.paths, p.seldom, p.asks = 1+r.IntN(2), 2, 1
	p.stay, p.rest = between(r, 100*time.Millisecond, 500*time.Millisecond), between(r, 10*time.Millisecond, 100*time.Millisecond)
}
