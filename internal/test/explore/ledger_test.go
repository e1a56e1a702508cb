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

// A clock gives each event a unique instant: the time in nanoseconds, plus one for each further
// event at an instant of the bubble. Their order is the order of the events.
type clock struct {
	read func() int64
	last atomic.Int64
}

func (c *clock) now() int64 {
	for {
		last := c.last.Load()
		next := max(last+1, c.read())
		if c.last.CompareAndSwap(last, next) {
			return next
		}
	}
}

// held is the common part of the holds of all recipes.
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

// A ledger records which workers are inside which lock, and writes the history.
type ledger struct {
	clock *clock
	rec   *history.Recorder
	lone  bool          // there is one worker, and each of its calls is awaited
	calm  bool          // no hold is lost unless its node is deleted
	news  time.Duration // how long before a grant a node may have been deleted, if nothing else breaks

	mu        sync.Mutex
	inside    map[string][]*stay
	ended     map[int64][]int64 // when the nemesis has expired a session at the server
	deleted   map[string]bool   // claims with a node that the nemesis deletes, see claimOf
	gone      map[string]int64  // when it had deleted the node
	doomed    map[string]bool   // nodes with which nobody may hold from now on
	waited    map[string]int64  // when a claim was seen waiting
	worn      map[string]string // by path, the claim after which its directory should be deleted
	visits    map[string][]*visit
	written   map[string][]write
	shown     map[string][]shown // views of leaders, see viewer
	named     map[string][]named // results of Leader, see ask
	said      map[string][]saying
	periods   map[string][]*period
	vacant    map[string]*period // the present period without a candidate
	campaigns map[string]int     // number of candidates and leaders
	struck    map[string][]span  // what the nemesis does to the nodes of a claim, or when a host asks it to release
	asked     map[string]int64   // when a claim had been asked to release
	forbidden map[string][]*span // when rights were missing at a path
	entered   map[string]int64   // since when a claim holds, by idOf
	refusals  []refusal
	found     []finding

	requests requests
}

// A write was made under an exclusive hold, by Multi. The writes of a lock must be in the order of
// their tokens, also under holds that the nemesis has ended.
type write struct {
	zxid, token, at int64
	who             string
}

// A finding is a violation.
type finding struct {
	at   int64
	text string
}

// A stay is a hold at one path, from the return of the acquiring call.
type stay struct {
	history.Hold
	hold    held
	span    *history.Span
	sure    int64 // the last instant at which the lock was certainly held
	tainted bool  // the nemesis deleted the node or expired the session at the server
	visit   *visit
	news    []<-chan struct{} // Lost, and Done of a context, if they were called at the beginning
	beside  []*stay           // the stays of the same hold at other paths
	over    bool              // a call that may end the hold has begun
	period  *period           // the last period of a leader
}

// all returns the stays of the hold.
func (s *stay) all() []*stay { return append([]*stay{s}, s.beside...) }

// part returns the stay at a path of a hold, and the others.
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
		ended: make(map[int64][]int64), deleted: make(map[string]bool), gone: make(map[string]int64), doomed: make(map[string]bool),
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

// nodeOf returns the node that a hold's guard checks.
func nodeOf(h held) string { return h.Guard()[0].(*zk.CheckVersionRequest).Path }

// parsed returns the parsed name of the node.
func parsed(path string) znode.Node {
	n, _ := znode.Parse(path[strings.LastIndexByte(path, '/')+1:],
		znode.Read, znode.Write, znode.Lock, znode.Permit, znode.CuratorRead, znode.CuratorWrite, znode.KazooRead, znode.KazooLock)
	return n
}

func dirOf(path string) string { return path[:strings.LastIndexByte(path, '/')] }

// claimOf returns what is common to nodes that were created together, and to nodes that replace
// them.
func claimOf(path string) string { return dirOf(path) + "/" + parsed(path).ID }

func isExclusive(k znode.Kind) bool {
	return k == znode.Write || k == znode.Lock || k == znode.CuratorWrite || k == znode.KazooLock
}

// listen returns channels that notify a holder of the loss: Lost, Done of a context, or both.
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

// unaware reports whether such a channel is open.
func unaware(news []<-chan struct{}) bool { return slices.ContainsFunc(news, open) }

// closes waits until a channel is closed: for a time that suffices in memory, and on a real machine
// for as long as the machine may be busy.
func (w *world) closes(c <-chan struct{}, within time.Duration) bool {
	if w.real {
		within = w.patience
	}
	select {
	case <-c:
		return true
	case <-time.After(within):
		return !open(c)
	}
}

func open(c <-chan struct{}) bool {
	select {
	case <-c:
		return false
	default:
		return true
	}
}

// wrote records a write that the server has executed.
func (l *ledger) wrote(path string, zxid int64, s *stay) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.written[path] = append(l.written[path], write{zxid, s.Token, l.clock.now(), s.Who})
}

// overtaken returns the writes that came after a write with a larger token.
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

// enter records a hold whose acquiring call has just returned. If ask is set, it compares the hold
// with all other holds inside: of two holds that exclude each other, one must report that it is not
// held.
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
	s.Claim = claimOf(node)
	if l.entered[idOf(node)] == 0 {
		l.entered[idOf(node)] = s.Acquired
	}
	if s.Called != 0 && l.doomed[claimOf(node)] { // a downgraded hold held before
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
	s.tainted = len(l.ended[s.Session]) > 0 || l.deleted[claimOf(node)]
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

// look asks whether the hold is held, in one of four ways, and records until when it was certain.
// Each way must report a loss, also in a process that was stopped until now.
func (l *ledger) look(s *stay, r *rand.Rand) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := l.clock.now()
	held := false
	switch r.IntN(6) {
	default:
		held = s.hold.Held()
	case 0:
		held = open(s.hold.Lost())
	case 1:
		held = s.hold.Context(context.Background()).Err() == nil
	case 2:
		held = open(s.hold.Context(context.Background()).Done())
	}
	if !held {
		return false
	}
	for _, s := range s.all() {
		if !s.tainted {
			s.sure = at
		}
	}
	return true
}

// isTainted reports whether the nemesis has ended the stay at the server, or is about to.
func (l *ledger) isTainted(s *stay) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(s.all(), func(s *stay) bool { return s.tainted || l.deleted[claimOf(nodeOf(s.hold))] })
}

// lastNumber is the sequence number from which on the numbers of a directory may repeat.
const lastNumber = 1<<31 - 1<<20

// leave is called right before a call that may end the hold, and the returned function right after
// the call. held means that the call proves that the lock was held when the call began.
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

// takeAway is called before the nemesis ends holds at the server, and returns the stays. From then
// on the next waiter may hold before the old holder can be notified. No lock can prevent that.
func (l *ledger) takeAway(session int64, node string) (taken []*stay) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if node == "" {
		l.ended[session] = append(l.ended[session], l.clock.now())
	} else {
		l.deleted[claimOf(node)] = true
		l.struck[claimOf(node)] = append(l.struck[claimOf(node)], span{l.clock.now(), math.MaxInt64})
	}
	for path, stays := range l.inside {
		l.inside[path] = slices.DeleteFunc(stays, func(s *stay) bool {
			gone := node == "" && s.Session == session || node != "" && claimOf(nodeOf(s.hold)) == claimOf(node)
			if gone {
				s.tainted = true
				taken = append(taken, s)
			}
			return gone
		})
	}
	return taken
}

// untilTaken returns the hold until the nemesis took it from its holder, if it has.
func (l *ledger) untilTaken(h history.Hold) history.Hold {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, at := range l.ended[h.Session] {
		h.Ended = max(h.Acquired, min(h.Ended, at))
	}
	for _, s := range l.struck[h.Claim] {
		h.Ended = max(h.Acquired, min(h.Ended, s.begin))
	}
	return h
}

// leaveIt is called if the nemesis could not end the stays that takeAway has returned.
func (l *ledger) leaveIt(session int64, taken []*stay) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended[session] = l.ended[session][1:]
	for _, s := range taken {
		if s.tainted = len(l.ended[session]) > 0 || l.deleted[claimOf(nodeOf(s.hold))]; !s.tainted && !s.over {
			l.inside[s.Path] = append(l.inside[s.Path], s)
		}
	}
}

// expire makes the servers expire a session, and returns its stays. ok reports whether there was
// such a session, and a leader.
func (w *world) expire(session int64) (taken []*stay, ok bool) {
	taken = w.takeAway(session, "")
	if ok = w.cluster.ends(session); !ok {
		w.leaveIt(session, taken)
	}
	return taken, ok
}

// took is called when the nemesis has deleted a node: the servers report that from now on.
func (l *ledger) took(node string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gone[claimOf(node)] = l.clock.now()
}

// isGone reports whether a node of the hold was certainly deleted.
func (l *ledger) isGone(s *stay) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(s.all(), func(s *stay) bool { return l.gone[claimOf(nodeOf(s.hold))] != 0 })
}

// unheard is called some time after nodes were deleted, when no other fault has happened in that
// time. It complains about each holder in taken that has not been notified of the deletion of its
// node. It also complains about other nodes of such a hold that remain: the process must delete
// them when the hold is lost.
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

// waiting records which claims wait: their grants must be later than now.
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

// swap continues the stay under another hold of the same owner.
func (l *ledger) swap(s *stay, h held) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s.hold, s.news = h, nil // the previous hold was released: its Lost remains open
}
