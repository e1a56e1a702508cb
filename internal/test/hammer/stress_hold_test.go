package hammer

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/hold"
	"github.com/zklocks/zklocks/internal/test/history"
)

// stressHold is one hold in a storm, where it may be lost at any time. It claims the time from its
// beginning to the last instant at which it reported itself held: by Held, or by a Release that
// found no loss. Each such instant is read off the clock *before* the call, so a process that is
// frozen in between claims nothing that it did not know.
type stressHold struct {
	*worker
	*anyHold
	storm  *storm
	called int64
	owner  string
	token  int64
	sure   int64 // the last such instant
	over   bool  // found to be lost
}

// heed is how long Lost may take to close once Held returns false: only as long as it takes to run
// a goroutine.
const heed = 20 * time.Second

func (s *storm) cycle(w *worker, path int) {
	w.until = time.Now().Add(w.job.Patience)
	ctx, cancel := w.wait()
	if !w.chance(4) {
		// Most workers choose another lock when the holder cannot be reached. Otherwise all would
		// wait there, and the other locks would be idle.
		ctx, cancel = w.givingUp(ctx, cancel, w.job.Least, 50*w.job.Least)
	}
	defer cancel()
	called := history.Now()
	take := s.locks[path].take
	if w.chance(8) {
		take = func(ctx context.Context, w *worker) (*anyHold, error) { return s.together(ctx, w, path) }
	}
	if w.job.Break != "" && w.broken(breakGrant) {
		take = func(_ context.Context, w *worker) (*anyHold, error) { return barge(w, path), nil }
	}
	g, err := take(ctx, w)
	if w.failed(ctx, g.try, err) {
		if time.Now().After(w.until) {
			w.wrong(s.lines(path, g.claims))
		}
		return
	}
	w.until = time.Now().Add(w.job.Patience)
	t := &stressHold{worker: w, anyHold: g, storm: s, called: called, token: g.Token()}
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

// barge goes inside without having acquired: the test of the test.
func barge(w *worker, path int) *anyHold {
	more := func(*stressHold) { w.linger(20 * time.Millisecond) } // let other workers come
	return &anyHold{holdMethods: phantom{}, claims: one(path, history.Exclusive, 0), give: phantom{}.Release, more: more}
}

// phantom is a fake hold that is never lost.
type phantom struct{ fake }

func (phantom) Lost() <-chan struct{} { return nil }
func (phantom) Guard(...any) []any    { return []any{&zk.CheckVersionRequest{}} }

// lines describes the queues ahead of a caller that has waited too long, of one lock or of several.
func (s *storm) lines(path int, claims []claim) string {
	if len(claims) == 0 {
		return s.line(path)
	}
	var all []string
	for _, c := range claims {
		all = append(all, s.line(c.path))
	}
	return strings.Join(all, "; ")
}

func (s *storm) line(path int) string {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	q, err := s.locks[path].queue(ctx)
	return fmt.Sprintf("the line of %s, seen by session %#x: %s (%v)", s.Paths[path], s.conn.Client().SessionID(), q, err)
}

func (s *storm) note(what func(*record)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	what(&s.record)
}

func (t *stressHold) begin() {
	// The session identifies the holds that the nemesis ended together with one.
	t.owner = fmt.Sprintf("%s@%x", t.who, t.storm.conn.Client().SessionID())
	for i := range t.claims {
		c := &t.claims[i]
		t.count(string(c.kind))
		h := history.Hold{
			Path: t.storm.Paths[c.path], Kind: c.kind, Permits: c.permits, Token: t.token,
			Who: t.owner, Called: t.called, Acquired: history.Now(),
		}
		c.cell, c.span, t.sure = &t.cells[c.path], t.storm.rec.Begin(h), h.Acquired
		switch c.kind {
		case history.Exclusive:
			raise(&c.cell.written, t.token)
			raise(&c.cell.fence, t.token)
		case history.Shared:
			raise(&c.cell.fence, t.token)
		}
	}
}

// later returns the token of a conflicting hold that has been inside, 0 if it knows of none.
func (c *claim) later() int64 {
	switch c.kind {
	case history.Exclusive:
		return c.cell.fence.Load()
	case history.Shared:
		return c.cell.written.Load()
	}
	return 0
}

// look calls Held, and compares the token with those that the cell had seen before that call.
func (t *stressHold) look() bool {
	if t.over {
		return false
	}
	var later [4]int64 // of each claim; no hold has more
	for i := range t.claims {
		later[i] = t.claims[i].later()
	}
	now := history.Now()
	if !t.Held() {
		t.lose()
		return false
	}
	t.sure = now
	for i, c := range t.claims {
		if later[i] > t.token {
			t.storm.note(func(r *record) {
				r.Suspects = append(r.Suspects, suspect{t.lock(c), t.owner, now, later[i]})
			})
		}
	}
	return true
}

// lost records a loss. A Release may be the first call to find it, and then Lost stays open.
func (t *stressHold) lost() {
	if t.over {
		return
	}
	t.over = true
	t.count("lost")
	t.storm.note(func(r *record) {
		for _, c := range t.claims {
			r.Lost = append(r.Lost, t.lock(c))
		}
	})
}

func (t *stressHold) lock(c claim) lock { return lock{t.storm.Paths[c.path], t.token} }

// lose records a loss, after which all methods must report it.
func (t *stressHold) lose() {
	if t.over {
		return
	}
	t.lost()
	late := time.NewTimer(heed)
	defer late.Stop()
	select {
	case <-t.Lost():
	case <-late.C:
		t.wrong("it is lost, and Lost is not closed")
	}
	if t.Held() {
		t.wrong("it was lost, and Held says true")
	}
}

// stay is the time inside. Half of all holders call no method of the hold: then the hold sets no
// watch. A few stay until their session can have ended.
func (t *stressHold) stay() {
	switch {
	case t.chance(t.job.Linger):
		t.watch(time.Duration(t.random.Int64N(int64(t.job.Session * 3 / 2))))
	case t.chance(20):
		t.watch(time.Duration(t.random.Int64N(int64(3 * time.Millisecond))))
	case t.chance(2):
		t.look()
		t.dwell(1e9, time.Millisecond)
		t.look()
	}
	if t.chance(300) && !t.over {
		t.verify()
	}
}

func (t *stressHold) watch(stay time.Duration) {
	over := time.NewTimer(stay)
	defer over.Stop()
	again := time.NewTicker(max(stay/50, 100*time.Microsecond))
	defer again.Stop()
	for t.look() {
		select {
		case <-t.Lost():
			if t.look() {
				t.wrong("Lost is closed, and Held says true")
			}
			return
		case <-again.C:
		case <-over.C:
			return
		}
	}
}

func (t *stressHold) verify() {
	before := history.Now()
	ctx, cancel := context.WithDeadline(context.Background(), t.until)
	defer cancel()
	switch err := t.Verify(ctx); {
	case err == nil:
		t.count("verified")
		t.sure = before
	case errors.Is(err, hold.ErrLost):
		t.lose()
	default:
		t.wrong("verify: " + err.Error())
	}
}

func (t *stressHold) release() {
	ctx, cancel := context.WithDeadline(context.Background(), t.until)
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
		t.wrong(fmt.Sprintf("release: %v", err))
	}
	for _, c := range t.claims {
		c.span.EndAt(t.sure)
	}
}
