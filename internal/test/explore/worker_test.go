package explore

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/hold"
	"github.com/zklocks/zklocks/internal/test/history"
	"github.com/zklocks/zklocks/semaphore"
)

// A worker is a goroutine of a host, which acquires and releases locks until the end.
type worker struct {
	world  *world
	host   *host
	who    string
	random *rand.Rand
	tally  map[string]int
	mu     sync.Mutex // guards tally, which helpers of a worker use, too

	tries    bool          // the present acquisition does not wait
	gaveUpAt *atomic.Int64 // when the acquisition's context was canceled; 0: it was not
}

func newWorker(h *host, number int, random *rand.Rand) *worker {
	return &worker{world: h.world, host: h, who: fmt.Sprintf("%s.%d", h.name, number), random: random, tally: make(map[string]int)}
}

// toTry draws whether the acquisition does not wait.
func (w *worker) toTry() bool {
	w.tries = w.chance(8)
	return w.tries
}

// slow reports a call that returns more than a moment too late.
func (w *world) slow(what string, end int64) {
	if end == 0 || w.real {
		return
	}
	if late := time.Duration(w.clock.now() - end); late > time.Millisecond {
		w.complain("%s: it has returned %v after it was to end", what, late)
	}
}

func (w *worker) chance(n int) bool { return w.random.IntN(n) == 0 }

func (w *worker) count(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tally[what]++
}

// between returns a random duration; its logarithm is uniformly distributed.
func between(r *rand.Rand, least, most time.Duration) time.Duration {
	return time.Duration(float64(least) * math.Pow(float64(most)/float64(least), r.Float64()))
}

func (w *worker) run() {
	for time.Now().Before(w.world.end) {
		if !w.chance(4) { // otherwise without a pause
			time.Sleep(time.Duration(w.random.ExpFloat64() * float64(w.world.idle)))
		}
		client := w.host.client()
		l := client.locks[w.random.IntN(len(client.locks))]
		if w.chance(w.world.seldom) {
			l = together(w, client.locks)
		}
		cycle := w.cycle
		if l.election != nil && w.chance(w.world.reigns) {
			cycle = w.reign
		}
		if cycle(client, l) {
			continue
		}
		select { // the connection was closed: its successor comes in a moment
		case <-client.replaced:
		case <-time.After(time.Until(w.world.end)): // virtual
		}
	}
}

// wait returns the context of an acquisition: some contexts are canceled before the call, some at
// an instant that is as likely to be early as late. All other contexts last longer than any fault.
func (w *worker) wait() (context.Context, context.CancelFunc) {
	limit := w.world.end.Add(w.world.patience)
	if w.world.lone { // nothing can make it wait
		limit = time.Now().Add(w.world.session)
	}
	ctx, stop := context.WithDeadline(context.Background(), limit)
	at := new(atomic.Int64)
	w.gaveUpAt, w.tries = at, false
	cancel := func() {
		at.CompareAndSwap(0, w.world.clock.now())
		stop()
	}
	switch {
	case w.world.quiet:
	case w.chance(50):
		cancel()
	case w.chance(w.world.rashness):
		most := 2 * w.world.session
		if w.world.hasty {
			most = 20 * time.Millisecond
		}
		steps := 0
		if w.world.grain > 0 {
			steps = w.random.IntN(1 << w.random.IntN(9)) // other events of that instant may come first
		}
		timer := time.AfterFunc(w.world.align(between(w.random, 10*time.Microsecond, most)), func() {
			for range steps {
				runtime.Gosched()
			}
			cancel()
		})
		return ctx, func() { timer.Stop(); cancel() }
	}
	return ctx, cancel
}

// cycle acquires and releases a lock. It reports whether the connection is still usable.
func (w *worker) cycle(c *client, l *lock) (usable bool) {
	ctx, cancel := w.wait()
	defer cancel()
	w.world.candidates(l.path, 1)
	defer w.world.candidates(l.path, -1)
	called := w.world.clock.now()
	g, err := l.take(ctx, w)
	gaveUp := w.gaveUpAt.Load()
	if gaveUp != 0 && strings.HasPrefix(fmt.Sprint(err), "leader: run") { // Run waits a moment until it has left the queue
		gaveUp += int64(min(w.world.session/4, time.Second))
	}
	w.world.slow(fmt.Sprintf("%s: acquire by %s (without waiting: %v), with error %v", l.path, w.who, w.tries, err), gaveUp)
	if err != nil {
		return w.refused(ctx, c, l, called, err)
	}
	t := w.begin(c, l, g, called)
	switch {
	case w.chance(12):
		t.crowd()
	case w.chance(6):
		t.collide()
	default:
		t.alone()
	}
	for _, s := range t.stay.all() {
		s.visit.released = w.world.clock.now()
	}
	if g.after != nil {
		g.after()
	}
	return true
}

// begin records a hold whose acquiring call has just returned.
func (w *worker) begin(c *client, l *lock, g *grip, called int64) *tenure {
	w.count("cycles")
	w.count(string(g.kind))
	s := &stay{
		Hold: history.Hold{Path: l.path, Kind: g.kind, Permits: g.permits, Token: g.Token(), Who: w.who, Called: called, Session: c.conn.Client().SessionID()},
		hold: g.held,
	}
	if w.chance(w.world.asks) {
		s.news = listen(g, w.random)
	}
	if len(g.parts) > 0 {
		s.hold = inOne{g.held, l.dir}
	}
	for _, part := range g.parts {
		one := *s
		one.Path, one.Kind, one.Permits, one.hold = part.path, part.kind, part.permits, inOne{g.held, part.dir}
		s.beside = append(s.beside, &one)
	}
	for _, s := range s.all() {
		if czxid := w.world.czxid(nodeOf(s.hold)); s.Token <= 0 || czxid != 0 && czxid != s.Token {
			w.world.complain("%s: %v: the token is not the czxid %d of %s", s.Path, s.Hold, czxid, nodeOf(s.hold))
		}
	}
	w.world.enter(s, !w.world.real && (w.chance(2) || w.world.kind.bend != nil))
	if g.proclaim != nil {
		w.world.states(s, 0, called)
	}
	return &tenure{worker: w, client: c, lock: l, grip: g, stay: s}
}

// refused checks the error of an acquisition.
func (w *worker) refused(ctx context.Context, c *client, l *lock, called int64, err error) (usable bool) {
	switch {
	case errors.Is(err, hold.ErrBusy) && w.tries && !w.world.lone:
		w.count("busy")
	case errors.Is(err, semaphore.ErrTooMany) && len(l.beside) == 0: // see wrongly
	case errors.Is(err, zk.ErrClosing) && c.closing():
		w.count("refused by a closed connection")
		return false
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		if deadline, _ := ctx.Deadline(); !time.Now().Before(deadline) {
			ctx, cancel := context.WithTimeout(context.Background(), w.world.session)
			defer cancel()
			q, qerr := l.members(ctx)
			w.world.told.Lock()
			stuck := w.world.stuck
			w.world.told.Unlock()
			w.world.complain("%s: %s waits although nothing is broken any more: %v; the queue: %+v (%v)\n%s", l.path, w.who, err, q, qerr, stuck)
		}
		w.count("canceled")
	case w.world.tolerated(called, err, l.paths()...):
		w.count("tolerated")
	default:
		w.world.complain("%s: acquire by %s: %v", l.path, w.who, err)
	}
	return true
}

// A tenure is a worker's use of a hold.
type tenure struct {
	*worker
	*client
	lock *lock
	*grip
	stay  *stay
	apart *stay // at the lock that enterInner has entered again, while only that remains held; nil: none
	lost  bool  // the hold has reported its loss
	said  int   // how often it has proclaimed
}

func (t *tenure) bad(format string, args ...any) {
	t.world.complain("%s: %v: %s", t.lock.path, t.stay.Hold, fmt.Sprintf(format, args...))
}

// calling returns the context of a call that a fault may delay.
func (t *tenure) calling() (context.Context, context.CancelFunc) {
	return context.WithDeadline(context.Background(), t.world.end.Add(t.world.patience))
}

// own returns ctx, or a context of the hold that is derived from ctx. With such a context a call
// must report what has ended the hold, not that the context is canceled.
func (t *tenure) own(ctx context.Context, r *rand.Rand) context.Context {
	if r.IntN(2) == 0 {
		return ctx
	}
	return t.Context(ctx)
}

// length returns the length of a stay: most are short, some last one or several session timeouts.
func (t *tenure) length() time.Duration {
	switch {
	case t.world.plan.long > 1 && t.chance(2):
		return 0
	case t.chance(t.world.plan.long):
		return between(t.random, max(t.world.session/8, t.world.least), 3*t.world.session)
	}
	return t.world.align(between(t.random, t.world.plan.least, t.world.plan.stay))
}

// align makes a duration that begins now end at a multiple of the grain.
func (w *world) align(d time.Duration) time.Duration {
	if w.grain == 0 {
		return d
	}
	now := time.Duration(w.clock.read())
	return (now + d).Truncate(w.grain) + w.grain - now
}

// alone uses the hold from one goroutine.
func (t *tenure) alone() {
	t.dwell(t.length())
	if t.again != nil && t.chance(3) {
		t.reenter()
	}
	if t.inner != nil && !t.lost && t.chance(2) && t.enterInner() {
		return
	}
	if t.kind == history.Exclusive && t.chance(min(8, t.world.proofs)) && !t.lost {
		t.write(t.chance(4))
	}
	if t.downgrade != nil && t.chance(4) {
		t.toRead()
	}
	for range t.random.IntN(3) {
		if t.proclaim != nil && !t.lost {
			t.proclaims()
			t.dwell(t.length())
		}
	}
	if t.chance(t.world.proofs) && !t.lost {
		t.verify()
	}
	t.release()
}

// dwell remains inside, and sometimes calls methods of the hold. No method is called on at least
// half of all holds, because such a hold sets no watch, which is another path through the library.
func (t *tenure) dwell(d time.Duration) {
	if d == 0 {
		return
	}
	if !t.chance(t.world.asks) {
		time.Sleep(d) // virtual
		return
	}
	if t.chance(2) {
		t.awaitDeadlines(d)
		return
	}
	requested, since := t.ReleaseRequested(), t.world.clock.now()
	defer func() { t.listens(requested, since) }()
	stop := requested // a holder that is asked stops, or continues
	if t.chance(2) {
		stop = nil
	}
	for left := d; left > 0 && t.look(); left -= d / 4 {
		select {
		case <-t.Lost():
			if t.look() {
				t.bad("Lost is closed, and Held says true")
			}
			return
		case <-stop:
			return
		case <-time.After(d / 4): // virtual
		}
	}
}

// awaitDeadlines remains inside, and checks right after each deadline: if the deadline has ended
// the hold, Lost must be closed by then.
func (t *tenure) awaitDeadlines(d time.Duration) {
	news, over := listen(t, t.random), time.Now().Add(d)
	for {
		deadline := t.ValidUntil()
		next := deadline.Add(time.Microsecond)
		if deadline.IsZero() || next.After(over) {
			next = over
		}
		select {
		case <-news[0]:
			t.look()
			return
		case <-time.After(time.Until(next)): // virtual
		}
		late := unaware(news)
		if !t.look() {
			if late && next != over && !t.world.real && !t.closing() && !t.isTainted() {
				t.bad("the deadline was over %v ago, and Lost or a context was open until it was asked", time.Since(deadline))
			}
			return
		}
		if !next.Before(over) {
			return
		}
	}
}

func (t *tenure) look() bool {
	if t.world.look(t.stay, t.random) {
		if t.lost {
			t.bad("it was lost, and Held says true")
		}
		return true
	}
	t.lose()
	return false
}

// lose is called once a hold has reported its loss. All methods of the hold must report it from
// then on.
func (t *tenure) lose() {
	if t.lost {
		return
	}
	t.lost = true
	t.count("lost")
	t.provoked()
	if t.Held() {
		t.bad("it was lost, and Held says true")
	}
	if !t.world.closes(t.Lost(), t.world.session) {
		t.bad("it is lost, and Lost stays open")
	}
}

// provoked reports a hold that is lost without a fault, or because of a bug that the library has
// detected itself.
func (t *tenure) provoked() {
	if err := t.Err(); err != nil && strings.Contains(err.Error(), "a bug of zklocks") {
		t.bad("%v", err)
	}
	if (t.world.quiet || t.world.calm) && !t.isTainted() && !t.closing() {
		t.bad("it was lost, and nothing broke: %v", t.Err())
	}
}

// enterAgain makes the owner enter once more; nil: the lock is lost.
func (t *tenure) enterAgain(ctx context.Context, enter func(context.Context) (*grip, error)) *grip {
	var again *grip
	var err error
	if t.chance(2) {
		// Another goroutine re-enters with the context of the hold.
		var other sync.WaitGroup
		other.Go(func() { again, err = enter(t.Context(ctx)) })
		other.Wait()
	} else {
		again, err = enter(ctx)
	}
	switch {
	case errors.Is(err, hold.ErrLost),
		// The loss of another lock may cancel the context of the hold on several locks before it
		// ends this hold.
		t.inner != nil && errors.Is(err, context.Canceled) && errors.Is(t.Err(), hold.ErrLost):
		t.lose()
		return nil
	case err != nil:
		if !t.tolerated(err) {
			t.bad("re-entry: %v", err)
		}
		return nil
	case t.lost:
		t.bad("re-entered a lock that was lost")
	}
	t.count("re-entered")
	if again.Token() != t.Token() {
		t.bad("a re-entry has token %d", again.Token())
	}
	return again
}

// enterInner makes the owner enter one of several locks once more, and releases the two holds in
// either order. It reports whether the hold on the several locks was released.
func (t *tenure) enterInner() (released bool) {
	ctx, cancel := t.calling()
	defer cancel()
	again := t.enterAgain(ctx, t.inner.again)
	if again == nil {
		return false
	}
	if released = t.chance(2); released {
		// The inner lock remains held, and the others are released.
		var inner *stay
		inner, t.stay = t.stay.part(t.inner.path)
		t.apart = inner
		t.world.swap(inner, again.held)
		t.release()
		time.Sleep(t.length()) // virtual: others may acquire them
		t.world.look(inner, t.random)
		after := t.world.leaveOne(inner)
		defer func() {
			after(false)
			inner.visit.released = t.world.clock.now()
		}()
	}
	switch err := again.give(ctx); {
	case errors.Is(err, hold.ErrLost) && !released:
		t.look() // the hold on several locks must report it, too
	case err != nil && !errors.Is(err, hold.ErrLost) && !t.closing() && !t.tolerated(err):
		t.bad("release of one of two: %v", err)
	}
	return released
}

// reenter makes the owner enter once more, and releases the two holds in either order.
func (t *tenure) reenter() {
	ctx, cancel := t.calling()
	defer cancel()
	again := t.enterAgain(ctx, t.again)
	if again == nil {
		return
	}
	first := again.give
	if t.chance(2) {
		// The stay continues under the other hold.
		first, t.give = t.give, again.give
		t.world.swap(t.stay, again.held)
		t.held = again.held
	}
	if err := first(ctx); errors.Is(err, hold.ErrLost) {
		t.look() // the other hold must report it, too
	} else if err != nil && !t.tolerated(err) && !t.closing() {
		t.bad("release of one of two: %v", err)
	}
}

// toRead downgrades, and continues as a reader.
func (t *tenure) toRead() {
	ctx, cancel := t.calling()
	defer cancel()
	after := t.world.leaveOne(t.stay)
	gaveUp := new(atomic.Int64)
	if !t.world.quiet && t.chance(8) {
		timer := time.AfterFunc(between(t.random, 10*time.Microsecond, 20*time.Millisecond), func() {
			gaveUp.Store(t.world.clock.now())
			cancel()
		})
		defer timer.Stop()
	}
	err := t.downgrade(ctx)
	t.world.slow(fmt.Sprintf("%s: downgrade by %s", t.lock.path, t.who), gaveUp.Load())
	after(err == nil)
	s := *t.stay
	t.stay.visit.released = t.world.clock.now()
	t.stay = &s
	t.stay.span = nil
	switch {
	case err == nil:
		t.count("downgraded")
		t.stay.Kind, t.stay.Called, t.stay.news = history.Shared, 0, nil
		t.world.enterOne(t.stay, t.chance(2))
		t.dwell(t.length())
	case errors.Is(err, hold.ErrLost):
		t.lose()
	case gaveUp.Load() != 0 && errors.Is(err, context.Canceled):
		t.count("downgraded in the background")
		t.stay.Kind = history.Shared // soon, or the lock was lost
	case t.tolerated(err):
	default:
		t.bad("downgrade: %v", err)
	}
}

func (t *tenure) verify() {
	ctx, cancel := t.calling()
	defer cancel()
	gone := t.world.isGone(t.stay)
	switch err := t.Verify(t.own(ctx, t.random)); {
	case err == nil && gone:
		t.bad("verified, although a node of it had been deleted")
	case err == nil:
		t.count("verified")
	case errors.Is(err, hold.ErrLost):
		t.lose()
	case t.closing(), t.tolerated(err):
	default:
		t.bad("verify: %v", err)
	}
}

// write writes to the store, which must succeed only if the lock is held when the server executes
// it. With inVain the transaction has an operation that the server refuses.
func (t *tenure) write(inVain bool) {
	ctx, cancel := t.calling()
	defer cancel()
	ops := []any{&zk.SetDataRequest{Path: t.world.store, Version: -1}}
	if inVain {
		ops = append(ops, &zk.DeleteRequest{Path: t.world.store + "/none", Version: -1})
	}
	gone := t.world.isGone(t.stay)
	replies, err := t.Multi(t.own(ctx, t.random), ops...)
	switch {
	case err == nil && gone:
		t.bad("a write was done, although a node of the hold had been deleted")
	case inVain && errors.Is(err, zk.ErrNoNode) && !errors.Is(err, hold.ErrLost):
		t.count("written in vain")
		if len(replies) != 2 || replies[1].Error != zk.ErrNoNode {
			t.bad("the second of two operations was refused: %+v", replies)
		}
	case err == nil && (len(replies) != len(ops) || replies[0].Stat == nil):
		t.bad("the replies to one write: %+v", replies)
	case err == nil && inVain:
		t.bad("a write that must be refused was done: %+v", replies)
	case err == nil:
		t.count("written")
		t.world.wrote(t.stay.Path, replies[0].Stat.Mzxid, t.stay)
	case errors.Is(err, hold.ErrLost):
		t.lose()
		if len(replies) != 0 {
			t.bad("the lock was lost, and %d replies", len(replies))
		}
	case unanswered(err), t.closing():
	case t.tolerated(err):
	default:
		t.bad("write: %v", err)
	}
}

// isTainted reports whether the nemesis has ended one of the stays of the hold, or is about to.
func (t *tenure) isTainted() bool {
	return t.world.isTainted(t.stay) || t.apart != nil && t.world.isTainted(t.apart)
}

// isAlone reports whether no other hold shares the nodes: the release then deletes them.
func (t *tenure) isAlone() bool {
	return t.inner == nil && !slices.ContainsFunc(t.stay.all(), func(s *stay) bool {
		return s.Kind == history.Shared || t.world.flavorAt(s.Path).rules.Handoff
	})
}

func (t *tenure) release() {
	ctx, cancel := t.calling()
	defer cancel()
	if t.chance(8) {
		ctx = t.Context(ctx) // as in `ctx = h.Context(ctx); defer h.Release(ctx)`
	}
	impatient := t.chance(20) && !t.world.lone
	if impatient {
		cancel()
	}
	wasLost := t.lost
	ended := t.contexts(ctx)
	defer ended()
	defer t.triesAgain(ctx)()
	gone := t.isAlone() && t.world.calm && t.world.isGone(t.stay)
	after := t.world.leave(t.stay)
	began := t.world.clock.now()
	err := t.give(ctx)
	if impatient {
		t.world.slow(fmt.Sprintf("%s: release by %s", t.lock.path, t.who), began)
	}
	after(err == nil)
	if err != nil && strings.Contains(err.Error(), "its node was deleted") && !t.world.real && !t.isTainted() {
		t.bad("no other client has deleted a node of it: %v", err)
	}
	switch {
	case err == nil && gone:
		t.bad("a node of it had been deleted, and its release says nothing of it")
	case err == nil && wasLost:
		t.bad("it was lost, and its release says nothing of it")
	case err == nil:
	case errors.Is(err, hold.ErrLost):
		// The release has detected the loss and ended the hold as released, so Lost may remain
		// open.
		if !t.lost {
			t.count("lost")
			t.provoked()
		}
	case impatient && errors.Is(err, context.Canceled):
		t.count("released in the background")
	case errors.Is(err, zk.ErrClosing) && t.closing():
	case t.tolerated(err):
	default:
		t.bad("release: %v", err)
	}
	if t.Held() {
		t.bad("released, and Held says true")
	}
	if t.proclaim != nil && t.chance(4) {
		t.proclaims()
	}
}

type keyOfContext struct{}

// contexts makes contexts of the hold. The returned function checks them after the hold's end.
func (t *tenure) contexts(parent context.Context) (ended func()) {
	if !t.chance(8) {
		return func() {}
	}
	var all []context.Context
	var done []<-chan struct{}
	for i := range 2 {
		all = append(all, t.Context(context.WithValue(parent, keyOfContext{}, i)))
		done = append(done, all[i].Done())
	}
	lost := t.Lost()
	return func() {
		all = append(all, t.Context(context.WithValue(context.Background(), keyOfContext{}, len(all))))
		for _, c := range done {
			if !t.world.closes(c, time.Microsecond) { // contexts are canceled on a goroutine of their own
				t.bad("released, and a context that is waited for goes on")
			}
		}
		for i, ctx := range all {
			if ctx.Value(keyOfContext{}) != i {
				t.bad("a context of it has the value %v, not %d", ctx.Value(keyOfContext{}), i)
			}
			if ctx.Err() == nil {
				t.bad("released, and its context goes on")
			}
			if cause := context.Cause(ctx); parent.Err() == nil && !errors.Is(cause, hold.ErrReleased) && !errors.Is(cause, hold.ErrLost) {
				t.bad("released, and the cause of its context is %v", cause)
			}
		}
		if end := t.Err(); errors.Is(end, hold.ErrReleased) && !open(lost) {
			t.bad("released, and Lost is closed")
		}
	}
}

// triesAgain makes the worker call Lock with the context of a hold that has ended.
func (t *tenure) triesAgain(ctx context.Context) (ended func()) {
	if t.again == nil || !t.chance(8) {
		return func() {}
	}
	own := t.Context(ctx)
	return func() {
		if again, err := t.again(own); err == nil {
			t.bad("released, and its context enters again")
			_ = again.give(ctx)
		}
	}
}

// crowd: several goroutines use the hold concurrently, in any way.
func (t *tenure) crowd() {
	t.count("crowds")
	t.dwell(t.length())
	after := t.world.leave(t.stay) // from now on any of the goroutines may end the hold
	var all sync.WaitGroup
	released := make([]error, 2+t.random.IntN(3))
	for i := range released {
		r := rand.New(rand.NewPCG(t.random.Uint64(), 0))
		all.Go(func() {
			ctx, cancel := t.calling()
			defer cancel()
			for range r.IntN(4) {
				if r.IntN(3) == 0 {
					time.Sleep(between(r, time.Microsecond, 5*time.Millisecond)) // virtual
				}
				t.act(ctx, r)
			}
			released[i] = errNotCalled
			if i == 0 || r.IntN(2) == 0 {
				released[i] = t.give(ctx)
			}
		})
	}
	all.Wait()
	t.endedOnce(released)
	after(false)
}

// collide makes two goroutines begin a call each at nearly the same instant: one releases the hold;
// the other also releases it, downgrades it, or verifies it.
func (t *tenure) collide() {
	t.count("collisions")
	t.dwell(t.length())
	after := t.world.leave(t.stay)
	ctx, cancel := t.calling()
	defer cancel()
	released := []error{errNotCalled, errNotCalled}
	other := func() { released[1] = t.give(ctx) }
	switch {
	case t.downgrade != nil && !t.chance(4):
		other = func() { t.permitted("downgrade", t.downgrade(ctx)) }
	case t.chance(2):
		own := t.own(ctx, t.random)
		other = func() { t.permitted("verify", t.Verify(own)) }
	}
	var waiting atomic.Int32
	waiting.Store(2)
	var both sync.WaitGroup
	for _, call := range []func(){func() { released[0] = t.give(ctx) }, other} {
		both.Go(func() {
			for waiting.Add(-1); waiting.Load() > 0; {
				runtime.Gosched()
			}
			call()
		})
	}
	both.Wait()
	t.endedOnce(released)
	after(false)
}

// endedOnce checks the results of several releases of one hold.
func (t *tenure) endedOnce(released []error) {
	ended := 0
	for _, err := range released {
		switch {
		case errors.Is(err, errNotCalled), errors.Is(err, hold.ErrReleased):
		case err == nil, errors.Is(err, hold.ErrLost):
			ended++
		case errors.Is(err, zk.ErrClosing) && t.closing():
			ended++
		case t.tolerated(err):
			ended++
		default:
			ended++
			t.bad("release in a crowd: %v", err)
		}
	}
	if ended != 1 {
		t.bad("%d of several releases ended the hold: %v", ended, released)
	}
	if t.Held() {
		t.bad("released in a crowd, and Held says true")
	}
}

// unanswered reports whether the result of a transaction is unknown, because the connection was
// lost, or the context of the hold was canceled, before the answer.
func unanswered(err error) bool {
	return errors.Is(err, zk.ErrConnectionClosed) ||
		errors.Is(err, context.Canceled) && strings.Contains(err.Error(), "may have taken place")
}

var errNotCalled = errors.New("not called")

// act makes a call on a hold that may be ending.
func (t *tenure) act(ctx context.Context, r *rand.Rand) {
	var err error
	what := ""
	switch r.IntN(9) {
	case 0:
		t.Held()
	case 1:
		t.ValidUntil()
	case 2:
		_ = t.Context(ctx).Err()
	case 3:
		select {
		case <-t.Lost():
		case <-t.ReleaseRequested():
		case <-time.After(between(r, time.Microsecond, time.Millisecond)): // virtual
		}
	case 4:
		what, err = "verify", t.Verify(t.own(ctx, r))
	case 5:
		if t.again == nil { // only its owner goroutine may make the call
			_, _ = t.conn.Client().Multi(t.Guard()...) // both results are possible
		}
	case 6:
		what = "multi"
		if _, err = t.Multi(t.own(ctx, r)); unanswered(err) {
			err = nil
		}
	case 7:
		what, err = "err", t.Err()
	default:
		if t.downgrade != nil {
			what, err = "downgrade", t.downgrade(ctx)
		}
	}
	t.permitted(what, err)
}

// permitted checks the result of a call on a hold that another goroutine may have ended.
func (t *tenure) permitted(what string, err error) {
	switch {
	case err == nil, errors.Is(err, hold.ErrLost), errors.Is(err, hold.ErrReleased):
	case errors.Is(err, zk.ErrClosing) && t.closing():
	case t.tolerated(err):
	case what == "downgrade" && strings.Contains(err.Error(), "not held for writing"): // another goroutine has downgraded it first
	default:
		t.bad("%s in a crowd: %v", what, err)
	}
}
