package queue

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/zklocks/zklocks/internal/hold"
	"github.com/zklocks/zklocks/internal/wire"
	"github.com/zklocks/zklocks/internal/zkclient"
)

// A Tenure is a grant that may outlive a hold. The callers of one lock value have it together, if
// they are readers, or one after the other:
//
//	         granted          last release, kept
//	queued ------------> held ------------------> idle
//	   |                  |   <------------------   |
//	   | no caller waits  |     a caller enters     | wanted, or idle
//	   v                  v last release            v for too long
//	  gone               gone                      gone
//
// While it is held, readers join it, and the next caller in line takes it over from the last.
// Callers enter a tenure without a request while there is evidence, on this connection, that its
// node exists and that no other client waits behind it (may). When the evidence ends the tenure is
// wanted: nobody enters it any more.
type Tenure struct {
	of     *Callers
	shared *sharedNode // of readers; nil: it has at most one hold
	grant  *Grant      // nil: queued; set once, before a caller enters

	alone  atomic.Pointer[solitude] // the evidence of a tenure that is not shared; nil: none
	kept   atomic.Bool              // it may be idle, and guard runs
	wanted atomic.Bool              // guard has ended: nobody enters any more
	uses   atomic.Int64             // how many callers have entered that would have queued otherwise

	// waiting are the callers that wait for the grant; then, if the tenure is not shared, those
	// that wait in line. passed is how often it was passed on although other clients may wait. Both
	// are guarded by Callers.mu.
	waiting []*caller
	passed  int
	// The acquire runs on a goroutine of its own, because the caller that has started it may stop
	// waiting before the others.
	giveUp context.CancelFunc
	ahead  atomic.Int64 // of its waiter
	left   chan error   // closed when the nodes are granted or deleted

	// users is n > 0: held by n; 0: idle, or about to be gone; < 0: gone. All readers that enter
	// and leave write it, so the fields that they only read are in other cache lines, and not in
	// the next, which is prefetched together with this line.
	_     [128]byte
	users atomic.Int64
	_     [120]byte
}

const gone = math.MinInt64

// solitude is a watch that fires when a child of the directory is created or deleted. It was set
// while the node of the tenure was the only child.
type solitude struct {
	*zkclient.Watch
	proved time.Time // when the node was last listed as the only child
}

// may reports whether another caller may enter: the grant has not ended, the node is known to
// exist, and no other client is known to wait behind it (invariants 6 and 13).
func (t *Tenure) may() answer {
	switch {
	case t.wanted.Load() || t.grant.Err() != nil:
		return no
	case t.shared == nil:
		switch alone := t.alone.Load(); {
		case alone == nil || fired(alone.Watch):
			return no
		case time.Since(alone.proved) > FirstRecheck: // the server may have withheld the event
			return unknown
		}
		return yes
	}
	may := t.shared.may()
	if may == yes && !t.grant.KnownToExist() {
		may = unknown
	}
	return may
}

// ask finds out by requests whether another caller may enter. It fails if ctx or the grant ends.
func (t *Tenure) ask(ctx context.Context) bool {
	ctx, stop := t.grant.living(ctx)
	defer stop()
	if t.shared != nil {
		return t.shared.ask(ctx) == yes && t.grant.Exists(ctx) && t.may() == yes
	}
	alone, n, now := t.alone.Load(), t.grant.granted.nodes[0], time.Now()
	if alone == nil {
		w, err := t.grant.client.WatchChildren(ctx, t.grant.sess, n.queue.dir)
		if err != nil || w.Only != n.node.Name { // one other child is not enough, the own node may be gone
			return false
		}
		alone = &solitude{Watch: w}
	} else if children, _, err := t.grant.client.Children(ctx, t.grant.sess, n.queue.dir); err != nil || !slices.Equal(children, []string{n.node.Name}) {
		return false
	}
	t.alone.Store(&solitude{alone.Watch, now})
	return t.may() == yes
}

// open reports whether another caller may enter, if need be by a request.
func (t *Tenure) open(ctx context.Context) bool {
	may := t.may()
	return may == yes || may == unknown && t.ask(ctx)
}

// evidence returns the watch that fires when another client waits; nil if one may wait already.
func (t *Tenure) evidence() *zkclient.Watch {
	if t.shared == nil {
		if alone := t.alone.Load(); alone != nil {
			return alone.Watch
		}
		return nil
	}
	return t.shared.writers()
}

// join makes the caller a holder, if it may enter. That usually takes no request and no mutex.
func (t *Tenure) join(ctx context.Context) bool {
	may := t.may()
	if may == no || !t.enter() {
		return false
	}
	// While the caller asks it counts as a holder already: otherwise readers that hold for less
	// time than a request takes would all have left before the answer, and no grant would live long
	// enough to be joined.
	if (may == yes || t.ask(ctx)) && t.grant.must(t.shared != nil || t.isAlone(), 13) {
		return true
	}
	_ = t.Leave(NoWait, nil)
	return false
}

// isAlone reports whether the watch was set when the grant's node was the only node of the queue.
func (t *Tenure) isAlone() bool {
	alone := t.alone.Load()
	return alone != nil && alone.Only == t.grant.granted.nodes[0].node.Name
}

// enter adds a holder, unless the tenure is gone or has the only holder that it may have.
func (t *Tenure) enter() bool {
	if t.shared == nil {
		if !t.users.CompareAndSwap(0, 1) {
			return false
		}
	} else if n := t.users.Add(1); n != 1 {
		return n > 1 // below 1 it is gone, and remains so
	}
	t.uses.Add(1)
	return true
}

// Leave ends a hold: it passes the grant on, keeps it, or releases it, unless other readers hold
// it. ctx bounds the wait for the answer of a request, also if the request must prove that the node
// exists.
func (t *Tenure) Leave(ctx context.Context, _ *Hold) error {
	of := t.of
	if of.Together {
		if t.users.Add(-1) > 0 || of.keep(ctx, t) {
			return nil
		}
		if !t.users.CompareAndSwap(0, gone) { // another reader has entered, or guard has ended it
			if end := t.grant.Err(); errors.Is(end, hold.ErrLost) {
				return end
			}
			return nil
		}
		return t.end(ctx)
	}
	passed, unproved := of.pass(t, false)
	switch {
	case passed:
		return nil
	case unproved:
		return t.grant.Finish(ctx, "the lock is being handed on", func() error {
			if t.grant.Exists(context.WithoutCancel(ctx)) { // false if the right to read the node is missing
				if passed, _ := of.pass(t, false); passed {
					return nil
				}
			}
			return t.end(ctx)
		})
	case of.keep(ctx, t):
		if passed, _ := of.pass(t, true); passed {
			return nil
		}
	}
	return t.end(ctx)
}

// pass gives the grant of the only holder to the next caller in line, or to nobody if none waits
// and the tenure may be idle. Without evidence that no other client waits it passes the grant on a
// limited number of times, and only if the node is known to exist: a holder that passes its grant
// on does not delete the node, and so would not detect that it is gone. unproved reports that pass
// would have passed the grant on if the node were known to exist.
func (of *Callers) pass(t *Tenure, idle bool) (passed, unproved bool) {
	of.mu.Lock()
	defer of.mu.Unlock()
	may, next := t.may(), len(t.waiting) > 0
	switch {
	case t.grant.Err() != nil: // invariant 7
		return false, false
	case may == yes && !next && idle:
		t.users.Store(0)
		return true, false
	case !next:
		return false, false
	case may == yes:
		t.uses.Add(1)
	case t.passed >= of.Passes:
		return false, false
	case !t.grant.KnownToExist():
		return false, true
	default:
		t.passed++
	}
	if !t.grant.must(t.passed <= of.Passes, 7) {
		return false, false
	}
	t.waiting[0].turn <- nil
	t.waiting = slices.Delete(t.waiting, 0, 1)
	return true, false
}

// exiting is the key of Exiting.
type exiting struct{}

// Exiting returns a context for a release by a program that may exit soon: the grant is not kept.
func Exiting(ctx context.Context) context.Context { return context.WithValue(ctx, exiting{}, true) }

// keep lets a tenure be idle, and reports whether it does.
func (of *Callers) keep(ctx context.Context, t *Tenure) bool {
	switch {
	case of.MaxIdle == 0 || ctx.Err() != nil || ctx.Value(exiting{}) != nil || of.current.Load() != t || t.grant.isRequested():
		return false
	case t.kept.Load():
		return t.open(ctx)
	}
	of.mu.Lock()
	keeps := of.pending == nil && of.keeper.keeps()
	of.mu.Unlock()
	switch {
	case !keeps:
		return false
	case !t.ask(ctx):
		of.count(1, 0)
		return false
	case !t.kept.Swap(true):
		go func() {
			of.count(t.guard(of.MaxIdle), t.uses.Load())
			of.want(t)
		}()
	}
	return true
}

// want ends a tenure that nobody may enter any more. If it is held, its last holder ends it: pass
// checks wanted and lets the tenure be idle under the same mutex.
func (of *Callers) want(t *Tenure) {
	of.mu.Lock()
	t.wanted.Store(true)
	of.mu.Unlock()
	_ = t.endIdle(NoWait)
}

func (of *Callers) count(cost float64, uses int64) {
	of.mu.Lock()
	defer of.mu.Unlock()
	of.keeper.kept(cost, uses)
}

// guard returns when another client waits for the lock or asks for it, when no caller has entered
// for too long, or when the grant has ended. It returns how many requests the keep has cost: those
// that ask again, in case the server has withheld an event, after 5 s, twice that, and so on up to
// a minute; the heartbeats of a session that nothing else keeps; and what the end takes.
func (t *Tenure) guard(maxIdle time.Duration) (cost float64) {
	ctx, stop := t.grant.living(context.Background())
	defer stop()
	var own *zkclient.Watch
	uses, used, asked := int64(0), time.Now(), time.Now()
	// In the first moment it does not watch the node: if another client comes now, that would be a
	// request for nothing.
	tick, event := min(maxIdle/4, 100*time.Millisecond), new(doubt)
	for t.may() != no {
		began := time.Now()
		if wire.Wait(ctx, time.After(tick), t.evidence(), own) && t.may() == no {
			break
		}
		if now := t.uses.Load(); now != uses || t.users.Load() > 0 {
			uses, used = now, time.Now()
		} else if cost += t.grant.lease.Heartbeats(time.Since(began)); time.Since(used)+tick >= maxIdle {
			return cost + 1
		}
		tick = min(maxIdle/4, FirstRecheck/2)
		var err error
		own, err = t.grant.client.Watch(ctx, t.grant.sess, t.grant.granted.nodes[0].path())
		if err != nil || isReleaseRequest(own.Data) {
			break
		}
		if time.Since(asked) >= event.after() {
			asked = time.Now()
			event.due(time.Minute)
			if cost++; !t.open(ctx) {
				break
			}
		}
	}
	return cost + 3
}

// endIdle ends the tenure if it is idle.
func (t *Tenure) endIdle(ctx context.Context) error {
	if !t.kept.Load() || !t.users.CompareAndSwap(0, gone) {
		return nil
	}
	return t.end(ctx)
}

// end releases the grant, for its last holder, and has the callers in line queue again.
func (t *Tenure) end(ctx context.Context) error {
	err := t.grant.GiveUp(ctx)
	t.of.follow(t)
	return err
}

// follow has the callers that wait for a tenure queue, if it is over.
func (of *Callers) follow(t *Tenure) {
	of.mu.Lock()
	defer of.mu.Unlock()
	of.followLocked(t)
}

func (of *Callers) followLocked(t *Tenure) {
	of.current.CompareAndSwap(t, nil)
	if len(t.waiting) > 0 {
		of.queueLocked(t.waiting)
		t.waiting = nil
	}
}

// tenure returns a tenure to be granted, and its request.
func (of *Callers) tenure() (*Tenure, Request) {
	t, r := &Tenure{of: of}, of.request
	if of.Together {
		t.shared = &sharedNode{queue: of.queue}
	}
	r.shared, r.ahead = t.shared, &t.ahead
	return t, r
}

// queueLocked begins an acquire for callers; caller holds mu.
func (of *Callers) queueLocked(waiting []*caller) *Tenure {
	t, request := of.tenure()
	for _, c := range waiting {
		c.at = t
	}
	ctx, giveUp := context.WithCancel(context.Background())
	t.waiting, t.giveUp, t.left = waiting, giveUp, make(chan error)
	of.pending = t
	go func() {
		defer close(t.left)
		grant, err := of.queue.Join(ctx, request, true)
		of.deliver(t, grant, err)
		if leaving := (*Leaving)(nil); errors.As(err, &leaving) {
			<-leaving.Removed
		}
	}()
	return t
}

// deliver passes the result of an acquire to the callers that wait for it.
func (of *Callers) deliver(t *Tenure, grant *Grant, err error) {
	of.mu.Lock()
	if of.pending == t {
		of.pending = nil
	}
	turns := len(t.waiting)
	if err == nil && turns > 0 {
		if !of.Together {
			turns = 1
		}
		of.beginLocked(t, grant, turns)
	}
	for _, c := range t.waiting[:turns] {
		c.turn <- err
	}
	t.waiting = t.waiting[turns:]
	t.watchLocked()
	of.mu.Unlock()
	if err == nil && turns == 0 {
		_ = grant.GiveUp(NoWait)
	}
}

// beginLocked makes a grant the current tenure. The former ends if it is idle. Caller holds mu.
func (of *Callers) beginLocked(t *Tenure, grant *Grant, users int) {
	t.grant = grant
	t.users.Store(int64(users))
	if of.Together {
		of.keeper.granted(t.shared.mzxid.Load(), of.keeper.mark, of.MaxIdle)
	} else {
		of.keeper.granted(grant.granted.nodes[0].node.Seq, of.keeper.mark+1, of.MaxIdle)
		grant.OnEnd(func(error) { go of.follow(t) }) // the next caller does not wait for the holder of a lost grant
	}
	if former := of.current.Swap(t); former != nil && former.kept.Load() {
		go func() { _ = former.endIdle(NoWait) }()
	}
}

// watchLocked has the nodes watched once the grant will be passed on although others may wait;
// caller holds mu.
func (t *Tenure) watchLocked() {
	if t.grant != nil && len(t.waiting) > 0 && t.passed < t.of.Passes {
		t.grant.WatchNodes()
	}
}
