package hammer

import (
	"context"
	"errors"
	"fmt"
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
	path   int
	called int64
	cell   *cell
	owner  string
	span   *history.Span
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
	if w.job.Break != "" && w.broken(breakGrant) {
		take = barge
	}
	g, err := take(ctx, w)
	if w.failed(ctx, g.try, err) {
		if time.Now().After(w.until) {
			w.wrong(s.line(path))
		}
		return
	}
	w.until = time.Now().Add(w.job.Patience)
	t := &stressHold{worker: w, anyHold: g, storm: s, path: path, called: called, cell: &w.cells[path], token: g.Token()}
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
func barge(_ context.Context, w *worker) (*anyHold, error) {
	more := func(*stressHold) { w.linger(20 * time.Millisecond) } // let other workers come
	return &anyHold{holdMethods: phantom{}, kind: history.Exclusive, give: phantom{}.Release, more: more}, nil
}

// phantom is a fake hold that is never lost.
type phantom struct{ fake }

func (phantom) Lost() <-chan struct{} { return nil }
func (phantom) Guard(...any) []any    { return []any{&zk.CheckVersionRequest{}} }

// line describes the queue ahead of a caller that has waited too long.
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
	t.count(string(t.kind))
	// The session identifies the holds that the nemesis ended together with one.
	t.owner = fmt.Sprintf("%s@%x", t.who, t.storm.conn.Client().SessionID())
	h := history.Hold{
		Path: t.storm.Paths[t.path], Kind: t.kind, Permits: t.permits, Token: t.token,
		Who: t.owner, Called: t.called, Acquired: history.Now(),
	}
	t.span, t.sure = t.storm.rec.Begin(h), h.Acquired
	switch t.kind {
	case history.Exclusive:
		raise(&t.cell.written, t.token)
		raise(&t.cell.fence, t.token)
	case history.Shared:
		raise(&t.cell.fence, t.token)
	}
}

// look calls Held, and compares the token with those that the cell had seen before that call.
func (t *stressHold) look() bool {
	if t.over {
		return false
	}
	var later int64
	switch t.kind {
	case history.Exclusive:
		later = t.cell.fence.Load()
	case history.Shared:
		later = t.cell.written.Load()
	}
	now := history.Now()
	if !t.Held() {
		t.lose()
		return false
	}
	t.sure = now
	if later > t.token {
		t.storm.note(func(r *record) {
			r.Suspects = append(r.Suspects, suspect{lock{t.storm.Paths[t.path], t.token}, t.owner, now, later})
		})
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
	t.storm.note(func(r *record) { r.Lost = append(r.Lost, lock{t.storm.Paths[t.path], t.token}) })
}

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
	t.span.EndAt(t.sure)
}
