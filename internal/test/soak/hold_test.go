package soak

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/hold"
	"github.com/zklocks/zklocks/internal/test/history"
)

// tenure is one hold, which may be lost at any time. It claims the time from its beginning to the
// last instant at which a check or a Release of the hold reported no loss. The clock is read
// *before* each such call. So a process that is frozen between the two does not claim the time of
// the freeze.
type tenure struct {
	*worker
	*grip
	called int64
	owner  string
	token  int64
	sure   int64           // the last such instant
	over   bool            // a call has reported the loss
	ctx    context.Context // of the hold; nil until a check has asked for it
}

// The ways to break the locks on purpose.
const (
	breakGrant = "grant" // enter without acquiring the lock
	breakToken = "token" // report a token from long ago
	breakEarly = "early" // release the lock, and remain inside
	breakEvery = 20      // calls
)

// broken reports whether to break the lock now.
func (w *worker) broken(how string) bool { return w.Break == how && w.chance(breakEvery) }

func (w *worker) cycle(path int) {
	w.until = time.Now().Add(w.Patience)
	ctx, cancel := w.wait()
	defer cancel()
	called := history.Now()
	take := w.locks[path].take
	switch {
	case w.broken(breakGrant):
		take = func(context.Context, *worker) (*grip, error) { return w.phantom(one(path, history.Exclusive, 0)), nil }
	case w.chance(8):
		take = func(ctx context.Context, w *worker) (*grip, error) { return w.together(ctx, path) }
	}
	g, err := take(ctx, w)
	if w.failed(ctx, g, err) {
		return
	}
	w.until = time.Now().Add(w.Patience)
	t := &tenure{worker: w, grip: g, called: called, token: g.Token()}
	switch {
	case w.broken(breakEarly):
		t.release()
		t.grip = w.phantom(g.claims)
	case w.broken(breakToken):
		t.token = max(1, t.token-1000)
	}
	t.begin()
	t.stay()
	if t.more != nil && !t.over {
		t.more(t)
	}
	t.release()
	if t.after != nil {
		t.after()
	}
}

// wait returns the context of an acquisition. Most of these contexts are canceled, at an instant
// whose logarithm is uniform. Otherwise all workers would wait for a holder that cannot be reached,
// and the other locks would be idle. Some contexts have ended before the call.
func (w *worker) wait() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithDeadline(context.Background(), w.until)
	least, most := w.Least, 50*w.Least
	switch {
	case w.chance(50):
		cancel()
		return ctx, cancel
	case w.chance(4):
		least, most = time.Microsecond, 2*time.Second
	case w.chance(5):
		return ctx, cancel
	}
	after := time.Duration(float64(least) * math.Pow(float64(most)/float64(least), w.random.Float64()))
	timer := time.AfterFunc(after, cancel)
	return ctx, func() { timer.Stop(); cancel() }
}

// failed checks the error of an acquisition that may have been canceled.
func (w *worker) failed(ctx context.Context, g *grip, err error) bool {
	switch {
	case err == nil:
		return false
	case time.Now().After(w.until):
		w.wrong("still waits at the end of its patience, in session %#x: %v", w.conn.Client().SessionID(), err)
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		for _, c := range g.claims {
			q, err := w.locks[c.path].queue(ctx)
			w.wrong("the queue of %s: %+v (%v)", w.Paths[c.path], q, err)
		}
	case g.try && errors.Is(err, hold.ErrBusy):
		w.count("busy")
	case errors.Is(err, context.Canceled) && ctx.Err() != nil:
		w.count("canceled")
	default:
		w.wrong("acquire: %v", err)
	}
	return true
}

// phantom is a hold without a lock, which is never lost.
func (w *worker) phantom(claims []claim) *grip {
	linger := func(*tenure) { w.linger(20 * time.Millisecond) } // let other workers come
	return &grip{held: fake{}, claims: claims, give: fake{}.Release, more: linger}
}

type fake struct{}

func (fake) Held() bool                                  { return true }
func (fake) Token() int64                                { return 0 }
func (fake) Verify(context.Context) error                { return nil }
func (fake) Release(context.Context) error               { return nil }
func (fake) Lost() <-chan struct{}                       { return nil }
func (fake) Context(ctx context.Context) context.Context { return ctx }
func (fake) Guard(...any) []any                          { return []any{&zk.CheckVersionRequest{}} }

// begin begins to claim the locks, at the first time and after a downgrade.
func (t *tenure) begin() {
	// The session identifies the holds that the nemesis has ended together with a session.
	t.owner = fmt.Sprintf("%s@%x", t.who, t.conn.Client().SessionID())
	for i := range t.claims {
		c := &t.claims[i]
		t.count(string(c.kind))
		h := history.Hold{
			Path: t.Paths[c.path], Kind: c.kind, Permits: c.permits, Token: t.token,
			Who: t.owner, Called: t.called, Acquired: history.Now(),
		}
		c.span, t.sure = t.rec.Begin(h), h.Acquired
	}
}

// look checks the hold in one of four ways. Each must report a loss, also in a process that was
// stopped until now.
func (t *tenure) look() bool {
	if t.over {
		return false
	}
	now := history.Now()
	var held bool
	switch t.random.IntN(4) {
	case 0:
		held = t.Held()
	case 1:
		held = !closed(t.Lost())
	case 2:
		held = t.context().Err() == nil
	case 3:
		held = !closed(t.context().Done())
	}
	if !held {
		t.lose()
		return false
	}
	t.sure = now
	return true
}

func (t *tenure) context() context.Context {
	if t.ctx == nil {
		t.ctx = t.Context(context.Background())
	}
	return t.ctx
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// lost records a loss. A Release may be the first call to detect the loss, and then Lost remains
// open.
func (t *tenure) lost() {
	if t.over {
		return
	}
	t.over = true
	t.count("lost")
	if t.Calm {
		t.wrong("lost, and nothing was broken")
	}
}

// lose records a loss, after which all methods must report it.
func (t *tenure) lose() {
	if t.over {
		return
	}
	t.lost()
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case <-t.Lost():
	case <-late.C:
		t.wrong("it is lost, and Lost is not closed")
	}
	if t.Held() || t.context().Err() == nil {
		t.wrong("it was lost, and Held says %v, its context %v", t.Held(), t.context().Err())
	}
}

// stay is the time inside. Half of all holders call no method of the hold: then the hold sets no
// watch. A few remain inside until their session may have ended.
func (t *tenure) stay() {
	most := t.Session * 3 / 2
	if t.Calm {
		most = 50 * time.Millisecond
	}
	switch {
	case t.chance(t.Linger):
		t.watch(time.Duration(t.random.Int64N(int64(most))))
	case t.chance(20):
		t.watch(time.Duration(t.random.Int64N(int64(3 * time.Millisecond))))
	case t.chance(2):
		t.look()
		for began, stay := time.Now(), time.Duration(t.random.IntN(20))*time.Microsecond; time.Since(began) < stay; {
			runtime.Gosched()
		}
		t.look()
	}
	if t.chance(300) && !t.over {
		t.verify()
	}
}

func (w *worker) linger(stay time.Duration) {
	timer := time.NewTimer(stay) // real time: the holder works
	<-timer.C
}

func (t *tenure) watch(stay time.Duration) {
	over := time.NewTimer(stay)
	defer over.Stop()
	again := time.NewTicker(max(stay/50, 100*time.Microsecond))
	defer again.Stop()
	for t.look() {
		select {
		case <-t.Lost():
			if t.look() {
				t.wrong("Lost is closed, and the hold says that it is held")
			}
			return
		case <-again.C:
		case <-over.C:
			return
		}
	}
}

// calling returns the context of a call on the hold.
func (t *tenure) calling() (context.Context, context.CancelFunc) {
	return context.WithDeadline(context.Background(), t.until)
}

// told records the result of a call on the hold. before is the instant at which the call began.
// told returns true if the call succeeded.
func (t *tenure) told(what string, before int64, err error) bool {
	switch {
	case errors.Is(err, hold.ErrLost):
		t.lose()
	case err != nil:
		t.wrong("%s: %v", what, err)
	default:
		t.count(what)
		t.sure = before
		return true
	}
	return false
}

func (t *tenure) verify() {
	before := history.Now()
	ctx, cancel := t.calling()
	defer cancel()
	t.told("verified", before, t.Verify(ctx))
}

func (t *tenure) release() {
	ctx, cancel := t.calling()
	defer cancel()
	impatient := t.chance(20)
	if impatient {
		t.look() // the release will not report a loss
		cancel()
	}
	before := history.Now()
	err := t.give(ctx)
	switch {
	case err == nil && t.over:
		t.wrong("it was lost, and its release says nothing of it")
	case err == nil:
		t.sure = before
	case errors.Is(err, hold.ErrLost):
		t.lost()
	case impatient && errors.Is(err, context.Canceled):
		t.count("released in the background")
	default:
		t.wrong("release: %v", err)
	}
	for _, c := range t.claims {
		if c.span != nil {
			c.span.EndAt(t.sure)
		}
	}
}
