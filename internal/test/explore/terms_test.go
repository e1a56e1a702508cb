package explore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/hold"
	"github.com/zklocks/zklocks/internal/test/history"
	"github.com/zklocks/zklocks/leader"
)

// The pauses of a Run whose function fails. Even the shortest is longer than a campaign without
// faults.
const (
	shortestPause = time.Second
	longestPause  = 2 * time.Second
)

// A reign is a call of Run on its own Election. Its function leads a few terms, and ends each in
// one of the possible ways: it returns nil or an error, panics, or continues for a while after its
// context was canceled. The following must hold:
//   - The context of the function is canceled when the term ends, when Run's context is canceled,
//     when the leader is asked to release, and for no other reason.
//   - Status returns Leader while the term is held, Overdue after its loss, and Follower after Run.
//   - Run pauses after an error, as long as WithBackoff says, and only then.
//   - A panic leaves Run unchanged.
//   - The node is deleted when Run returns or panics, unless the term is lost or its deadline has
//     passed.
type reign struct {
	*worker
	client   *client
	lock     *lock
	election *leader.Election
	ctx      context.Context // of Run
	resign   context.CancelFunc
	terms    int // remaining terms

	called int64 // when the present campaign began, or later
	last   *zklocks.Hold
	safe   time.Time // the deadline of the last term before its end
	ended  time.Time // when the function has returned; zero: never
	failed bool      // it has returned an error although its context was not canceled
	term   atomic.Int64
	over   atomic.Bool // Run has returned
	began  int64
}

var (
	errFailure = errors.New("the function fails")
	errPanic   = errors.New("the function panics")
)

// reign is a cycle of a worker, like cycle.
func (w *worker) reign(c *client, l *lock) (usable bool) {
	ctx, cancel := w.wait()
	defer cancel()
	r := &reign{worker: w, client: c, lock: l, ctx: ctx, resign: cancel, terms: 1 + w.random.IntN(4), called: w.world.clock.now()}
	r.election = leader.New(c.conn, l.path, leader.WithBackoff(shortestPause, longestPause), zklocks.WithObserver(w.world.balance.observer()))
	r.began = r.called
	w.world.candidates(l.path, 1)
	panicked, err := r.run()
	r.over.Store(true)
	w.world.candidates(l.path, -1)
	if s := r.election.Status(); s.State != leader.StateFollower {
		r.bad("Run has returned, and Status says %v", s.State)
	}
	if r.last != nil && (panicked == nil || ctx.Err() == nil) { // if ctx is canceled, a panic may replace an error that says that the node may remain
		r.gone(err)
	}
	switch {
	case panicked != nil:
		w.count("panics")
		if panicked != errPanic {
			r.bad("Run panics: %v", panicked)
		}
		return true
	case r.last == nil:
		return w.refused(ctx, c, l, r.began, err)
	case ctx.Err() != nil && errors.Is(err, ctx.Err()), w.world.tolerated(r.began, err, l.path):
		return true
	case errors.Is(err, zk.ErrClosing) && c.closing():
		return false
	}
	r.bad("Run has returned %v", err)
	return true
}

func (r *reign) bad(format string, args ...any) {
	r.world.complain("%s: a Run of %s: %s", r.lock.path, r.who, fmt.Sprintf(format, args...))
}

func (r *reign) run() (panicked any, err error) {
	defer func() { panicked = recover() }()
	return nil, r.election.Run(r.ctx, r.lead)
}

// lead is the function that Run calls.
func (r *reign) lead(ctx context.Context, h *zklocks.Hold) (err error) {
	r.count("terms")
	r.again()
	r.terms--
	r.last = h
	g := &grip{held: h, kind: history.Exclusive, proclaim: proclaimer(r.election, h)}
	t := r.begin(r.client, r.lock, g, r.called)
	d := t.length()
	over := time.NewTimer(d)
	defer over.Stop()
	for range r.random.IntN(3) {
		if t.look() {
			t.proclaims()
			time.Sleep(between(r.random, time.Millisecond, r.world.stay)) // virtual: others see it
		}
		r.status(h)
	}
	select {
	case <-ctx.Done():
	case <-over.C:
	}
	t.look()
	r.told(ctx, t)
	if ctx.Err() != nil && r.chance(3) {
		r.goOn(t)
	}
	r.status(h)
	if r.terms == 0 || r.chance(8) {
		r.resign()
	}
	switch r.random.IntN(4) {
	case 0:
		err = errFailure
	case 1:
		err = ctx.Err()
	}
	panics := r.chance(6)
	if !r.chance(3) {
		t.look()
	}
	r.safe = h.ValidUntil()
	after := r.world.leave(t.stay)
	defer func() {
		after(false)
		now := r.world.clock.now()
		r.ended, r.failed = time.Now(), err != nil && ctx.Err() == nil
		t.stay.visit.released, r.called = now, now
		pauses := ctx.Err() == nil // after a failure, and after a term that was short
		if pauses {
			r.called = 0 // the next campaign begins only after the pause
		}
		if term := r.term.Add(1); !panics && r.world.newsy && r.failed == pauses {
			failed := r.failed
			time.AfterFunc(r.world.hearing(), func() { r.campaigns(t, term, failed) })
		}
	}()
	if panics {
		panic(errPanic)
	}
	return err
}

// again checks the pause before a term.
func (r *reign) again() {
	if pause := time.Since(r.ended); r.failed && pause < shortestPause {
		r.bad("its function has failed, and leads again after %v", pause)
	}
}

// campaigns checks Run's state a moment after its function has returned.
func (r *reign) campaigns(t *tenure, term int64, failed bool) {
	s := r.election.Status().State
	if r.over.Load() || r.term.Load() != term || r.ctx.Err() != nil {
		return // Run has ended, or leads again
	}
	if failed && (!open(t.ReleaseRequested()) || r.world.isTainted(t.stay)) {
		return // its context was canceled at that instant
	}
	if pauses := s == leader.StateFollower; pauses != failed {
		r.bad("its function has failed: %v, and then its state is %v", failed, s)
	}
}

// status compares Status with the hold's state before and after.
func (r *reign) status(h *zklocks.Hold) {
	before := h.Held()
	s := r.election.Status().State
	switch after := h.Held(); {
	case after && s != leader.StateLeader:
		r.bad("it leads, and Status says %v", s)
	case !before && s != leader.StateOverdue:
		r.bad("its term is lost, and Status says %v", s)
	}
}

// told checks the context of the function.
func (r *reign) told(ctx context.Context, t *tenure) {
	before, asked := t.Held(), r.world.isAsked(t.stay, r.world.hearing())
	ended := ctx.Err() != nil
	switch {
	case !before && !ended && !r.world.real:
		t.bad("it was lost, and the context of its function goes on")
	case asked && !ended && r.world.newsy:
		t.bad("it is asked to release, and the context of its function goes on")
	case ended && t.Held() && r.ctx.Err() == nil && open(t.ReleaseRequested()):
		t.bad("the context of its function has ended, and nothing else: %v", context.Cause(ctx))
	}
}

// goOn makes the function continue.
func (r *reign) goOn(t *tenure) {
	d := between(r.random, r.world.session/8, 3*r.world.session)
	if t.Held() {
		if r.ctx.Err() == nil {
			time.Sleep(min(d, r.world.session/4)) // virtual: it was asked to release, and continues for a while
		}
		return
	}
	r.count("overdue")
	time.Sleep(d) // virtual: others lead meanwhile
}

// gone checks that the last term's node was deleted, unless Run's error says that it may remain.
func (r *reign) gone(returned error) {
	if r.last.Held() {
		r.bad("Run has returned, and its last term is held")
	}
	if errors.Is(r.last.Err(), hold.ErrLost) || !time.Now().Before(r.safe) || r.client.closing() || returned != nil && strings.Contains(returned.Error(), "the node may stay") {
		return
	}
	node := nodeOf(r.last)
	if r.world.czxid(node) != 0 && !r.world.isForbidden(r.lock.path, r.began) {
		r.bad("it has returned, and %s stays", node)
	}
}

// proclaims replaces the data of a term by its token and a number, which only grow. It must fail
// once the term has ended, even before the term is notified of the loss. It must not overwrite a
// request to release before the term is notified of it.
func (t *tenure) proclaims() {
	ctx, cancel := t.calling()
	defer cancel()
	if t.chance(8) {
		ctx = t.Context(ctx)
	}
	end := t.Err()
	gone, asked := t.world.isGone(t.stay), t.world.isAsked(t.stay, 0)
	t.said++
	data := []byte(position{t.Token(), t.said}.String())
	after := t.world.says(t.stay, t.said)
	err := t.proclaim(ctx, data)
	after(err == nil)
	switch {
	case err == nil && end != nil:
		t.bad("it has proclaimed, after %v", end)
	case err == nil && gone:
		t.bad("it has proclaimed, although its node had been deleted")
	case err == nil && asked && open(t.ReleaseRequested()):
		t.bad("it has overwritten a request to release, of which it is not told")
	case err == nil:
		t.count("proclaimed")
	case end != nil && !errors.Is(err, hold.ErrReleased) && !errors.Is(err, hold.ErrLost):
		t.bad("proclaim: %v, after %v", err, end)
	case errors.Is(err, hold.ErrReleased) && errors.Is(end, hold.ErrReleased):
	case errors.Is(err, hold.ErrLost):
		if end == nil {
			t.lose()
		}
	case strings.Contains(err.Error(), "may have taken place"), t.closing():
	case t.tolerated(err):
	default:
		t.bad("proclaim: %v", err)
	}
}
