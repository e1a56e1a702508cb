package explore

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/test/history"
	"github.com/zklocks/zklocks/internal/znode"
)

// A clock gives each event an instant of its own: virtual time in nanoseconds since the world
// began, pushed on by one where several events share an instant of the bubble. Its order is that in
// which the events happen.
type clock struct {
	start time.Time
	last  atomic.Int64
}

func (c *clock) now() int64 {
	for {
		last := c.last.Load()
		next := max(last+1, int64(time.Since(c.start)))
		if c.last.CompareAndSwap(last, next) {
			return next
		}
	}
}

// held is what the holds of all recipes have in common.
type held interface {
	Held() bool
	Lost() <-chan struct{}
	ReleaseRequested() <-chan struct{}
	Err() error
	ValidUntil() time.Time
	Context(context.Context) context.Context
	Token() int64
	Multi(ctx context.Context, ops ...any) ([]zk.MultiResponse, error)
	Guard(ops ...any) []any
	Verify(context.Context) error
}

// A ledger knows which workers are inside which lock, and writes the history.
type ledger struct {
	clock *clock
	rec   *history.Recorder
	lone  bool          // there is one worker, and each of its calls is waited for
	calm  bool          // no hold is lost but where its node is deleted
	news  time.Duration // how long before a grant a node may have been deleted, where nothing else breaks

	mu        sync.Mutex
	inside    map[string][]*stay
	ended     map[int64]int           // how often the nemesis has ended a session at the server
	heard     map[int64]time.Duration // the shortest timeout of a session of which its host has heard
	deleted   map[string]bool         // claims of which the nemesis deletes a node, see claimOf
	gone      map[string]int64        // when it had deleted one
	doomed    map[string]bool         // those by which none may hold any more
	waited    map[string]int64        // when a claim was seen to wait
	worn      map[string]string       // by path, the claim after which its directory should be deleted
	visits    map[string][]*visit
	written   map[string][]write
	shown     map[string][]shown // views of leaders, see view
	named     map[string][]named // leaders that were asked for, see ask
	said      map[string][]saying
	periods   map[string][]*period
	vacant    map[string]*period // the last one without a candidate, if it goes on
	campaigns map[string]int     // how many campaign or lead
	struck    map[string][]span  // what the nemesis does to the nodes of a claim, or a host that asks it to release
	asked     map[string]int64   // when a claim had been asked to release
	forbidden map[string][]*span // when rights were missing at a path
	entered   map[string]int64   // since when a claim holds, by idOf
	refusals  []refusal
	found     []finding

	requests requests
}

// A write is one that was made under an exclusive hold, by Multi. Those of a lock come in the order
// of their tokens, also under holds that the nemesis took away.
type write struct {
	zxid, token, at int64
	who             string
}

// A finding is one thing that must not happen.
type finding struct {
	at   int64
	text string
}

// A stay is one hold, from the return of the acquiring call.
type stay struct {
	history.Hold
	hold    held
	session int64
	span    *history.Span
	sure    int64 // the last instant at which it was certain that the lock was held
	tainted bool  // the nemesis took the node or the session away at the server
	visit   *visit
	news    []<-chan struct{} // Lost, and Done of a context, taken at the beginning; empty if they were not asked for
	beside  []*stay           // those of the same hold at other paths
	over    bool              // a call has begun that may end it
	period  *period           // of a leader, the last one
}

// all are the stays of the hold.
func (s *stay) all() []*stay { return append([]*stay{s}, s.beside...) }

// part takes the stay at a path from those of a hold; others are the rest.
func (s *stay) part(path string) (one, others *stay) {
	all := s.all()
	i := slices.IndexFunc(all, func(s *stay) bool { return s.Path == path })
	one = all[i]
	all = slices.Delete(all, i, i+1)
	one.beside, all[0].beside = nil, all[1:]
	return one, all[0]
}

func newLedger(c *clock) *ledger {
	return &ledger{
		clock: c, rec: history.NewRecorder(""), inside: make(map[string][]*stay),
		ended: make(map[int64]int), heard: make(map[int64]time.Duration), deleted: make(map[string]bool), gone: make(map[string]int64), doomed: make(map[string]bool),
		waited: make(map[string]int64), worn: make(map[string]string),
		visits: make(map[string][]*visit), written: make(map[string][]write), shown: make(map[string][]shown), named: make(map[string][]named),
		said: make(map[string][]saying), periods: make(map[string][]*period), vacant: make(map[string]*period), campaigns: make(map[string]int),
		struck: make(map[string][]span), asked: make(map[string]int64), forbidden: make(map[string][]*span), entered: make(map[string]int64),
		requests: newRequests(),
	}
}

func (l *ledger) complain(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.complainLocked(format, args...)
}

// complainLocked: caller holds mu.
func (l *ledger) complainLocked(format string, args ...any) {
	l.found = append(l.found, finding{l.clock.now(), fmt.Sprintf(format, args...)})
}

// nodeOf is the node that a hold's guard checks.
func nodeOf(h held) string { return h.Guard()[0].(*zk.CheckVersionRequest).Path }

// parsed is the node of a path.
func parsed(path string) znode.Node {
	n, _ := znode.Parse(path[strings.LastIndexByte(path, '/')+1:],
		znode.Read, znode.Write, znode.Lock, znode.Permit, znode.CuratorRead, znode.CuratorWrite, znode.KazooRead, znode.KazooLock)
	return n
}

func dirOf(path string) string { return path[:strings.LastIndexByte(path, '/')] }

// claimOf is what the nodes that were made at once have in common, and those that replace them.
func claimOf(path string) string { return dirOf(path) + "/" + parsed(path).ID }

func isExclusive(k znode.Kind) bool {
	return k == znode.Write || k == znode.Lock || k == znode.CuratorWrite || k == znode.KazooLock
}

// listen takes channels by which a holder hears of the loss: Lost, that of a context, or both.
func listen(h held, r *rand.Rand) (news []<-chan struct{}) {
	which := r.IntN(3)
	if which != 0 {
		news = append(news, h.Context(context.Background()).Done())
	}
	if which != 1 {
		news = append(news, h.Lost())
	}
	return news
}

// unaware reports whether a holder that waits for such a channel has not heard.
func unaware(news []<-chan struct{}) bool { return slices.ContainsFunc(news, open) }

func open(c <-chan struct{}) bool {
	select {
	case <-c:
		return false
	default:
		return true
	}
}

// wrote notes a write that the server has done.
func (l *ledger) wrote(path string, zxid int64, s *stay) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.written[path] = append(l.written[path], write{zxid, s.Token, l.clock.now(), s.Who})
}

// overtaken are the writes that came behind one with a larger token.
func (l *ledger) overtaken(path string) (late []finding) {
	l.mu.Lock()
	defer l.mu.Unlock()
	writes := l.written[path]
	slices.SortFunc(writes, func(a, b write) int { return cmp.Compare(a.zxid, b.zxid) })
	for i, w := range writes {
		if i > 0 && w.token < writes[i-1].token {
			late = append(late, finding{w.at, fmt.Sprintf("%s: %s wrote by token %d at zxid %#x, behind %s by token %d at %#x",
				path, w.who, w.token, w.zxid, writes[i-1].who, writes[i-1].token, writes[i-1].zxid)})
		}
	}
	return late
}

func excludes(a, b history.Kind) bool { return a == history.Exclusive || b == history.Exclusive }

// enter notes a hold whose acquiring call has returned just now. With ask it is compared with all
// others inside: of two that exclude each other one must say that it is not held.
func (l *ledger) enter(s *stay, ask bool) {
	for _, s := range s.all() {
		l.enterOne(s, ask)
	}
}

func (l *ledger) enterOne(s *stay, ask bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s.Acquired = l.clock.now()
	s.sure = s.Acquired
	s.visit = &visit{kind: s.Kind, permits: max(1, s.Permits), token: s.Token, called: s.Called, acquired: s.Acquired}
	l.visits[s.Path] = append(l.visits[s.Path], s.visit)
	node := nodeOf(s.hold)
	if l.entered[idOf(node)] == 0 {
		l.entered[idOf(node)] = s.Acquired
	}
	if s.Called != 0 && l.doomed[claimOf(node)] { // one that is downgraded holds already
		l.complainLocked("%s: %v holds by %s, which was deleted while it waited, or another node of its claim", s.Path, s.Hold, node)
	}
	if seq := parsed(node).Seq; seq < 0 || seq >= lastNumber {
		l.complainLocked("%s: %v holds by %s, of the last numbers that there are", s.Path, s.Hold, node)
	}
	if gone := l.gone[claimOf(node)]; l.calm && gone != 0 && s.Acquired > gone+int64(l.news) {
		l.complainLocked("%s: %v holds by %s, which was deleted at %v", s.Path, s.Hold, node, time.Duration(gone))
	}
	s.over = false
	s.Called = max(s.Called, l.waited[claimOf(node)])
	if parsed(node).NearSequenceLimit() {
		if last := l.worn[s.Path]; l.lone && last != "" && last != claimOf(node) {
			l.complainLocked("%s: %v holds by %s in the directory of %s, which should be gone", s.Path, s.Hold, node, last)
		}
		l.worn[s.Path] = claimOf(node)
	}
	s.tainted = l.ended[s.session] > 0 || l.deleted[claimOf(node)]
	if s.tainted {
		return
	}
	if ask {
		for _, other := range l.inside[s.Path] {
			if !excludes(other.Kind, s.Kind) || other.Who == s.Who {
				continue
			}
			if unaware(other.news) && s.hold.Held() {
				l.complainLocked("%s: another holds, and Lost or a context of the last is open: %v, acquired at %v; %v, acquired just now",
					s.Path, other.Hold, time.Duration(other.Acquired), s.Hold)
			}
			if other.hold.Held() && s.hold.Held() {
				l.complainLocked("%s: two hold at once, and both say Held: %v, acquired at %v; %v, acquired just now",
					s.Path, other.Hold, time.Duration(other.Acquired), s.Hold)
			}
		}
	}
	s.span = l.rec.Begin(s.Hold)
	l.inside[s.Path] = append(l.inside[s.Path], s)
}

// look asks the hold, and remembers until when it was certain.
func (l *ledger) look(s *stay) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := l.clock.now()
	if !s.hold.Held() {
		return false
	}
	for _, s := range s.all() {
		if !s.tainted {
			s.sure = at
		}
	}
	return true
}

// isTainted reports whether the nemesis took the stay away at the server, or is about to.
func (l *ledger) isTainted(s *stay) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(s.all(), func(s *stay) bool { return s.tainted || l.deleted[claimOf(nodeOf(s.hold))] })
}

// lastNumber is that from which on the numbers of a directory may repeat.
const lastNumber = 1<<31 - 1<<20

// leave is called right before a call that may end the hold. What it returns is called afterwards:
// held says that the call proves that the lock was held when it began.
func (l *ledger) leave(s *stay) (after func(held bool)) {
	var all []func(bool)
	for _, s := range s.all() {
		all = append(all, l.leaveOne(s))
	}
	return func(held bool) {
		for _, after := range all {
			after(held)
		}
	}
}

func (l *ledger) leaveOne(s *stay) (after func(held bool)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := l.clock.now()
	s.over = true
	s.endPeriod(at)
	l.inside[s.Path] = slices.DeleteFunc(l.inside[s.Path], func(o *stay) bool { return o == s })
	return func(held bool) {
		l.mu.Lock()
		defer l.mu.Unlock()
		if held && !s.tainted {
			s.sure = at
		}
		s.visit.sure = s.sure
		if s.span != nil {
			s.span.EndAt(s.sure)
		}
	}
}

// takeAway is called before the nemesis takes holds away at the server: from then on the next
// waiter may hold before the old holder can hear of it, which no lock can prevent. It returns the
// stays.
func (l *ledger) takeAway(session int64, node string) (taken []*stay) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if node == "" {
		l.ended[session]++
	} else {
		l.deleted[claimOf(node)] = true
		l.struck[claimOf(node)] = append(l.struck[claimOf(node)], span{l.clock.now(), math.MaxInt64})
	}
	for path, stays := range l.inside {
		l.inside[path] = slices.DeleteFunc(stays, func(s *stay) bool {
			gone := node == "" && s.session == session || node != "" && claimOf(nodeOf(s.hold)) == claimOf(node)
			if gone {
				s.tainted = true
				taken = append(taken, s)
			}
			return gone
		})
	}
	return taken
}

// leaveIt is called when the nemesis could not take away what takeAway had returned.
func (l *ledger) leaveIt(session int64, taken []*stay) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended[session]--
	for _, s := range taken {
		if s.tainted = l.ended[session] > 0 || l.deleted[claimOf(nodeOf(s.hold))]; !s.tainted && !s.over {
			l.inside[s.Path] = append(l.inside[s.Path], s)
		}
	}
}

// expire has the servers end a session, and returns the stays that it takes away. ok is whether
// there was such a session, and a leader.
func (w *world) expire(session int64) (taken []*stay, ok bool) {
	taken = w.takeAway(session, "")
	if ok = w.ensemble.Expire(session); !ok {
		w.leaveIt(session, taken)
	}
	return taken, ok
}

// hear is called when a host has read which timeout a server grants to its session.
func (l *ledger) hear(session int64, granted time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if least, ok := l.heard[session]; !ok || granted < least {
		l.heard[session] = granted
	}
}

// expired is called at the instant at which a session has ended, with the timeout that the leader
// has counted. If that is shorter than all of which the host has heard, a member has granted it in
// answer to a handshake, and the answer was lost or is under way: the loss of what the host holds
// is one that no holder can know. A waiter hears of the end later than that, for all news take
// time.
func (w *world) expired(session int64, counted time.Duration) {
	w.ledger.mu.Lock()
	heard := w.heard[session]
	w.ledger.mu.Unlock()
	if counted < heard {
		w.say("grant not heard", "session %#x has ended after %v, and its host knows of %v", session, counted, heard)
		w.takeAway(session, "")
	}
}

// took is called when the nemesis has deleted a node: a server that is asked from now on knows.
func (l *ledger) took(node string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gone[claimOf(node)] = l.clock.now()
}

// isGone reports whether a node of the hold is known to be deleted.
func (l *ledger) isGone(s *stay) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(s.all(), func(s *stay) bool { return l.gone[claimOf(nodeOf(s.hold))] != 0 })
}

// unheard looks for holders that listen and have not heard, some time after a node of their hold
// was deleted while no other thing broke, and for other nodes of the hold, which its loss deletes.
func (w *world) unheard(taken []*stay) {
	left := w.left()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range taken {
		if s.over || len(s.news) == 0 {
			continue
		}
		if unaware(s.news) {
			w.complainLocked("%s: %v: its node was deleted, and Lost or a context is open", s.Path, s.Hold)
		}
		for _, n := range left {
			if sameClaim(n.path, nodeOf(s.hold)) {
				w.complainLocked("%s: %v: its node was deleted, and %s, which was made with it, stays", s.Path, s.Hold, n.path)
			}
		}
	}
}

// waiting notes which claims wait: they are granted later than now.
func (w *world) waiting() {
	at := w.clock.now()
	left := w.left()
	blocked := make(map[string]bool)
	for _, s := range left {
		if isBlocked(s.path, left, mostPermits) {
			blocked[idOf(s.path)] = true
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range left {
		if blocked[idOf(s.path)] {
			w.waited[claimOf(s.path)] = at
		}
	}
}

// swap has the stay go on under another hold of the same owner.
func (l *ledger) swap(s *stay, h held) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s.hold, s.news = h, nil // the other one has been released: its Lost stays open
}
