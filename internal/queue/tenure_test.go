package queue

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/hold"
	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/internal/test/venue"
	"github.com/zklocks/zklocks/internal/znode"
)

const maxIdle = 20 * time.Second

// story is a table test of one lock value: its callers, and the tenure that they had first.
type story struct {
	*testQueue
	of    *Callers
	first *Tenure
	line  []*call
}

// stories plays f for a lock value that is used for writing, and for one used for reading.
func stories(t *testing.T, name string, s Sharing, f func(*story)) {
	for _, kind := range []znode.Kind{znode.Write, znode.Read} {
		t.Run(fmt.Sprint(name, ", ", kind), func(t *testing.T) { play(t, kind, s, f) })
	}
}

func play(t *testing.T, kind znode.Kind, s Sharing, f func(*story)) {
	venue.InMemory(t, func(t *testing.T, v venue.Venue) {
		s.Together = kind == znode.Read
		x, of := callers(t, v, kind, s)
		f(&story{testQueue: x, of: of, first: x.enters(of)})
		x.conn.Close()
	})
}

// A call is an acquire of the lock value that waits.
type call struct {
	done   chan struct{}
	tenure *Tenure
	err    error
}

func (x *story) calls(ctx context.Context) *call {
	c := &call{done: make(chan struct{})}
	go func() {
		defer close(c.done)
		_, by, err := x.of.Acquire(ctx, true)
		if c.err = err; err == nil {
			c.tenure = by.(*Tenure)
		}
	}()
	synctest.Wait()
	return c
}

// queues starts n calls, one after the other.
func (x *story) queues(n int) {
	for range n {
		x.line = append(x.line, x.calls(x.Context()))
	}
}

func (c *call) waits() bool {
	select {
	case <-c.done:
		return false
	default:
		return true
	}
}

// habit makes the next release keep the grant, if nothing else forbids it, and returns its tenure.
func (x *story) habit() *Tenure {
	x.Helper()
	x.of.keeper.debt = -credit
	x.must(nil, x.first.Leave(x.Context(), nil))
	x.first = x.enters(x.of)
	return x.first
}

// idle has the first tenure be kept.
func (x *story) idle() *Tenure {
	x.Helper()
	x.must(nil, x.habit().Leave(x.Context(), nil))
	if !x.isIdle() {
		x.Fatal("it is not kept, so there is nothing to see")
	}
	return x.first
}

func (x *story) isIdle() bool { return x.first.users.Load() == 0 && x.exists() }

func (x *story) path() string { return x.first.grant.granted.nodes[0].path() }

// exists reports whether the first tenure's node exists.
func (x *story) exists() bool {
	x.Helper()
	synctest.Wait()
	found, _, err := x.witness.Client().Exists(x.path())
	x.must(nil, err)
	return found
}

// requests returns the number of requests, without heartbeats and the deletion of nodes.
func (x *story) requests() int64 {
	return x.proxy.Seen(proxy.AnyOp) - x.proxy.Seen(proxy.CheckOp) - x.proxy.Seen(proxy.DeleteOp)
}

// comes has another client queue: a reader, or a writer, which announces itself.
func (x *story) comes(kind znode.Kind) {
	x.Helper()
	if kind == znode.Write {
		x.must(x.witness.Client().Set(x.queue.dir, nil, -1))
	}
	x.other(kind)
	synctest.Wait()
}

// unseen does something of which the client receives no event, because it may not read the
// directory for a moment.
func (x *story) unseen(do func()) {
	x.Helper()
	x.must(x.witness.Client().SetACL(x.queue.dir, zk.WorldACL(zk.PermAll&^zk.PermRead), -1))
	do()
	x.must(x.witness.Client().SetACL(x.queue.dir, zk.WorldACL(zk.PermAll), -1))
	synctest.Wait()
}

func (x *story) deletes(path string) { x.Helper(); x.goes(path); synctest.Wait() }

func writes(x *story)  { x.comes(znode.Write) }
func deleted(x *story) { x.deletes(x.path()) }
func asked(x *story) {
	x.must(x.witness.Client().Set(x.path(), []byte("__REVOKE__"), -1))
	synctest.Wait()
}
func unwatched(x *story) {
	if v := x.queue.view.now.Load(); v != nil {
		x.queue.view.now.Store(&view{client: v.client, epoch: v.epoch, mzxid: v.mzxid, newest: v.newest, proved: v.proved, check: v.check})
	}
}
func ages(x *story) { time.Sleep(FirstRecheck + time.Millisecond) } // virtual

// Who may enter an idle tenure: what the caller knows without a request, and what it finds out.
func TestWhoMayEnter(t *testing.T) {
	t.Parallel()
	type entry struct {
		may      answer
		joins    bool
		requests int64
	}
	var (
		free, stays = entry{yes, true, 0}, entry{no, false, 0}
		asks, fails = entry{unknown, true, 1}, entry{unknown, false, 1}
	)
	dead, cancel := context.WithCancel(context.Background())
	cancel()
	for name, c := range map[string]struct {
		event       func(*story)
		write, read entry
		ctx         context.Context
	}{
		"nothing has happened":                 {func(x *story) {}, free, free, nil},
		"a writer has come":                    {writes, stays, stays, nil},
		"a reader has come":                    {func(x *story) { x.comes(znode.Read) }, stays, free, nil},
		"its guard has ended":                  {func(x *story) { x.first.wanted.Store(true) }, stays, stays, nil},
		"it is lost":                           {func(x *story) { x.first.grant.state.Lose(errors.New("test")) }, stays, stays, nil}, // and no watch has fired yet
		"it is released":                       {func(x *story) { x.must(nil, x.first.grant.GiveUp(x.Context())) }, stays, stays, nil},
		"there is no evidence":                 {func(x *story) { x.first.alone.Store(nil); x.first.grant.own.Store(nil) }, stays, entry{unknown, true, 0}, nil},
		"its node was written into":            {func(x *story) { x.must(x.witness.Client().Set(x.path(), nil, -1)); synctest.Wait() }, free, asks, nil},
		"its node was deleted":                 {deleted, stays, fails, nil},
		"the connection has changed":           {func(x *story) { x.reconnects(x.first.grant.sess) }, stays, stays, nil},
		"the evidence is old":                  {ages, asks, asks, nil},
		"it is just not old":                   {func(x *story) { time.Sleep(FirstRecheck - time.Millisecond) }, free, free, nil}, // virtual
		"it is old, and the context has ended": {ages, entry{unknown, false, 0}, entry{unknown, false, 0}, dead},
		"the context has ended":                {func(*story) {}, free, free, dead},
		"the client may not read the directory any more": {func(x *story) {
			x.must(x.witness.Client().SetACL(x.queue.dir, zk.WorldACL(zk.PermAll&^zk.PermRead), -1))
			ages(x)
		}, fails, fails, nil},
		"its listing has set no watch":                     {unwatched, free, entry{unknown, true, 0}, nil}, // the connection has one
		"it has set no watch, and a writer has come since": {func(x *story) { unwatched(x); writes(x) }, stays, fails, nil},
		"a writer has come unseen":                         {func(x *story) { x.unseen(func() { writes(x) }); ages(x) }, fails, fails, nil},
		"its node was deleted unseen, and another is the only one": {func(x *story) {
			x.unseen(func() { deleted(x); x.comes(znode.Read) })
			ages(x)
		}, fails, entry{unknown, false, 2}, nil},
	} {
		stories(t, name, Sharing{MaxIdle: maxIdle}, func(x *story) {
			tenure, want := x.first, c.write
			if x.of.Together {
				want = c.read
				x.queue.view.quiet.Store(true) // its listing watches the directory
				x.must(nil, tenure.Leave(x.Context(), nil))
				tenure = x.enters(x.of)
				x.first = tenure
			}
			if !tenure.ask(x.Context()) || tenure.users.Add(-1) != 0 {
				x.Fatal("nobody may enter, so there is nothing to see")
			}
			c.event(x)
			ctx, may, before := c.ctx, tenure.may(), x.requests()
			if ctx == nil {
				ctx = x.Context()
			}
			joins := tenure.join(ctx)
			if may != want.may || joins != want.joins {
				x.Errorf("a caller may enter: %v, want %v; it joins: %v, want %v", may, want.may, joins, want.joins)
			}
			synctest.Wait()
			if !joins && may == unknown && x.exists() {
				x.Error("the node stays that nobody may enter")
			}
			if n := x.requests() - before; n != want.requests {
				x.Errorf("%d requests, want %d", n, want.requests)
			}
			if joins {
				if tenure.users.Load() != 1 || tenure.uses.Load() != 1 {
					x.Errorf("%d users, %d uses", tenure.users.Load(), tenure.uses.Load())
				}
				if before = x.requests(); tenure.may() != yes || tenure.enter() != x.of.Together || x.requests() != before {
					x.Error("what one caller has found out does not help the next, or two writers hold")
				}
			} else if tenure.users.Load() > 0 && x.exists() {
				x.Errorf("%d users, of whom none holds", tenure.users.Load())
			}
		})
	}
}

// What the release of the only hold does: it passes the grant on to the caller that has waited
// longest, keeps it, or gives it up. Then the callers in line queue again.
func TestWhatAReleaseDoes(t *testing.T) {
	t.Parallel()
	const (
		passed = "passed on"
		kept   = "kept"
		over   = "over"
	)
	handoff, keeping := Sharing{Passes: 2}, Sharing{MaxIdle: maxIdle}
	both := Sharing{Passes: 2, MaxIdle: maxIdle}
	dead := func(*story) context.Context { return NoWait }
	known := func(x *story) { x.first.grant.Exists(x.Context()) }
	wants := func(x *story) { x.habit() }
	for name, c := range map[string]struct {
		s     Sharing
		event func(*story)
		line  int // how many callers wait when the hold is released
		want  string
		err   error
		cost  int // of a keep that ends or fails
		ctx   func(*story) context.Context
	}{
		"no caller waits":                   {s: handoff, want: over},
		"a caller waits":                    {s: handoff, line: 3, want: passed},
		"the context has ended":             {s: handoff, line: 1, want: passed, ctx: dead},
		"the node is known to exist":        {s: handoff, event: known, line: 1, want: passed, ctx: dead},
		"the passes are used up":            {s: handoff, event: func(x *story) { x.first.passed = 2 }, line: 2, want: over},
		"the last pass":                     {s: handoff, event: func(x *story) { x.first.passed = 1 }, line: 2, want: passed},
		"the node was deleted":              {s: handoff, event: deleted, line: 1, want: over, err: hold.ErrLost},
		"the node was deleted, as known":    {s: handoff, event: func(x *story) { known(x); deleted(x) }, line: 1, want: over, err: hold.ErrLost},
		"the node was deleted unseen":       {s: handoff, event: func(x *story) { x.first.grant.watching.Store(true); deleted(x) }, line: 1, want: over, err: hold.ErrLost},
		"the node was written into":         {s: handoff, event: func(x *story) { known(x); x.must(x.witness.Client().Set(x.path(), nil, -1)); synctest.Wait() }, line: 1, want: passed},
		"the grant is lost":                 {s: handoff, event: func(x *story) { known(x); x.first.grant.state.Lose(hold.ErrLost) }, line: 1, want: over, err: hold.ErrLost},
		"the hold was withdrawn":            {s: handoff, event: func(x *story) { known(x); x.of.follow(x.first) }, line: 1, want: over},
		"without a habit":                   {s: keeping, want: over},
		"with a habit":                      {s: keeping, event: wants, want: kept},
		"with a habit, and handoff":         {s: both, event: wants, want: kept},
		"a caller waits who would be next":  {s: both, event: wants, line: 1, want: passed},
		"nobody else, so without a limit":   {s: keeping, event: func(x *story) { x.idle(); x.enters(x.of) }, line: 1, want: passed},
		"it is idle again":                  {s: keeping, event: func(x *story) { x.idle(); x.enters(x.of) }, want: kept},
		"idle again after a long hold":      {s: keeping, event: func(x *story) { x.idle(); x.enters(x.of); time.Sleep(3 * maxIdle) }, want: kept}, // virtual
		"the evidence has become old":       {s: keeping, event: func(x *story) { x.idle(); x.enters(x.of); x.proof(-FirstRecheck) }, want: kept},
		"another client has come":           {s: keeping, event: func(x *story) { wants(x); writes(x) }, want: over, cost: 1},
		"another client has come meanwhile": {s: both, event: func(x *story) { x.idle(); x.enters(x.of); writes(x) }, want: over},
		"another node is the only one":      {s: keeping, event: func(x *story) { wants(x); deleted(x); x.comes(znode.Read) }, want: over, err: hold.ErrLost, cost: 1},
		"old evidence, and a caller waits":  {s: keeping, event: func(x *story) { x.idle(); x.enters(x.of); x.proof(-FirstRecheck) }, line: 1, want: passed},
		"no keeps":                          {s: Sharing{Passes: 1}, event: wants, want: over},
		"the release does not wait":         {s: keeping, event: wants, want: over, ctx: dead},
		"the program may exit":              {s: keeping, event: wants, want: over, ctx: func(x *story) context.Context { return Exiting(x.Context()) }},
		"a client has asked for it":         {s: keeping, event: func(x *story) { wants(x); x.told() }, want: over},
		"a client asks for it when idle":    {s: keeping, event: func(x *story) { x.idle(); x.enters(x.of); x.told() }, want: over, cost: 3 - 2},
		"a caller of the value queues":      {s: keeping, event: func(x *story) { wants(x); x.of.pending = new(Tenure) }, want: over},
		"it is not the last that was given": {s: keeping, event: func(x *story) { wants(x); x.of.current.Store(nil) }, want: over},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, znode.Write, c.s, func(x *story) {
				if c.event != nil {
					c.event(x)
				}
				x.queues(c.line)
				ctx := x.Context()
				if c.ctx != nil {
					ctx = c.ctx(x)
				}
				owed, before := x.of.keeper.debt, x.first.passed
				if err := x.first.Leave(ctx, nil); !errors.Is(err, c.err) && !(c.err == nil && errors.Is(err, context.Canceled) && ctx == NoWait) {
					t.Errorf("got %v, want %v", err, c.err)
				}
				got, alive := over, x.exists() && x.first.grant.Err() == nil
				if cost := x.of.keeper.debt - owed; cost != c.cost {
					t.Errorf("it has cost %d requests, want %d", cost, c.cost)
				}
				if x.of.pending != nil && x.of.pending.of == nil {
					x.of.pending = nil
				}
				switch users := x.first.users.Load(); {
				case users == 0 && alive:
					got = kept
				case users == 1 && alive:
					got = passed
				}
				if got != c.want || got == passed && c.s.Passes == 0 && x.first.uses.Load() != 2 {
					t.Fatalf("it is %s after %d uses, want %s", got, x.first.uses.Load(), c.want)
				}
				for i, next := range x.line { // in the order of arrival
					<-next.done
					if x.must(nil, next.err); (next.tenure == x.first) != (got == passed && (c.s != handoff || i+before < c.s.Passes)) {
						t.Errorf("caller %d has another grant: %v", i, next.tenure != x.first)
					}
					for _, later := range x.line[i+1:] {
						if !later.waits() {
							t.Fatal("two hold")
						}
					}
					x.must(nil, next.tenure.Leave(x.Context(), nil))
					synctest.Wait()
				}
			})
		})
	}
}

// proof changes the age of the evidence.
func (x *story) proof(by time.Duration) {
	alone := x.first.alone.Load()
	x.first.alone.Store(&solitude{alone.Watch, alone.proved.Add(by - time.Millisecond)})
}

// told has a client ask the holder, who watches for requests, to release the lock.
func (x *story) told() {
	h := new(Hold)
	h.Begin(x.first.grant, x.queue, nil, nil)
	told := h.ReleaseRequested()
	asked(x)
	<-told
}

// Readers release together: the last one keeps the grant, or gives it up.
func TestWhatTheReleaseOfAReaderDoes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		maxIdle time.Duration
		event   func(*story)
		kept    bool
		ctx     context.Context
	}{
		"no keeps":                     {0, func(*story) {}, false, context.Background()},
		"without a habit":              {maxIdle, func(x *story) {}, false, context.Background()},
		"with a habit":                 {maxIdle, func(x *story) { x.habit() }, true, context.Background()},
		"the release does not wait":    {maxIdle, func(x *story) { x.habit() }, false, NoWait},
		"a writer has come":            {maxIdle, func(x *story) { x.habit(); writes(x) }, false, context.Background()},
		"a reader has come":            {maxIdle, func(x *story) { x.habit(); x.comes(znode.Read) }, true, context.Background()},
		"a reader of the value queues": {maxIdle, func(x *story) { x.habit(); x.of.pending = new(Tenure) }, false, context.Background()},
		"it is idle again":             {maxIdle, func(x *story) { x.idle(); x.enters(x.of) }, true, context.Background()},
		"a writer has come meanwhile":  {maxIdle, func(x *story) { x.idle(); x.enters(x.of); writes(x) }, false, context.Background()},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, znode.Read, Sharing{MaxIdle: c.maxIdle}, func(x *story) {
				c.event(x)
				for range 2 {
					x.first.users.Add(1) // two more readers
				}
				for users := int64(2); users > 0; users-- {
					x.must(nil, x.first.Leave(x.Context(), nil))
					if x.first.users.Load() != users || !x.exists() {
						t.Fatal("it is over before its last reader leaves")
					}
				}
				_ = x.first.Leave(c.ctx, nil)
				if x.isIdle() != c.kept || x.exists() != c.kept {
					t.Errorf("%d users; the node exists: %v, want %v", x.first.users.Load(), x.exists(), c.kept)
				}
				if !c.kept && x.first.enter() {
					t.Error("a reader enters what is over")
				}
				x.of.pending = nil
			})
		})
	}
}

// A release that would ask whether it may keep the grant returns when the grant is lost.
func TestAReleaseDoesNotOutliveItsGrant(t *testing.T) {
	t.Parallel()
	stories(t, "no server answers", Sharing{MaxIdle: maxIdle}, func(x *story) {
		x.habit()
		x.proxy.Mute()
		began := time.Now()
		err := x.first.Leave(context.Background(), nil)
		if took := time.Since(began); !errors.Is(err, hold.ErrLost) || took > x.first.grant.Timeout() {
			x.Errorf("%v after %v", err, took)
		}
	})
}

// A caller comes, or the evidence ends, while the last holder finds out whether it may keep the grant.
func TestWhatHappensWhileAGrantBecomesIdle(t *testing.T) {
	t.Parallel()
	for name, event := range map[string]func(*story){
		"a caller comes": func(x *story) { x.queues(1) },
		"a client comes": writes,
		"it is deleted":  deleted,
	} {
		stories(t, name, Sharing{MaxIdle: maxIdle}, func(x *story) {
			if x.of.Together {
				return // a reader joins
			}
			x.habit()
			f := x.proxy.Next(proxy.ListOp, proxy.HoldReply)
			left := make(chan error)
			go func() { left <- x.first.Leave(x.Context(), nil) }()
			<-f.Fired()
			event(x)
			f.Release()
			err := <-left
			switch synctest.Wait(); name {
			case "a caller comes":
				if next := x.line[0]; next.waits() || next.tenure != x.first {
					x.Error("it does not hold")
				}
			case "it is deleted":
				if !errors.Is(err, hold.ErrLost) {
					x.Errorf("got %v", err)
				}
			default:
				if x.exists() {
					x.Error("the client waits for an idle grant")
				}
			}
		})
	}
}

// A reader counts as a holder while it finds out whether it may enter.
func TestWhatHappensWhileAReaderAsks(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		request int // that it waits for
		event   func(*story)
		joins   bool
	}{
		"the last reader leaves":         {1, func(x *story) { x.must(nil, x.first.Leave(x.Context(), nil)) }, true},
		"a writer comes":                 {1, writes, false},
		"a writer comes a request later": {2, writes, false},
		"the node is deleted":            {2, deleted, false},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, znode.Read, Sharing{}, func(x *story) {
				f := x.proxy.Nth(proxy.ReadOp, c.request, proxy.HoldRequest)
				x.queues(1)
				<-f.Fired()
				c.event(x)
				f.Release()
				synctest.Wait()
				if next := x.line[0]; (!next.waits() && next.tenure == x.first) != c.joins {
					x.Errorf("it joins: %v", !c.joins)
				}
				if lost := x.first.grant.Err() != nil; lost != (name == "the node is deleted") {
					x.Errorf("the grant is lost: %v", lost)
				}
			})
		})
	}
}

// The next caller does not wait for the holder of a deleted node, although that has not asked for
// the state of its hold.
func TestTheNextCallerDoesNotWaitForAHolderThatHasLost(t *testing.T) {
	t.Parallel()
	for name, late := range map[string]bool{"both come before the grant": false, "the next comes after it": true} {
		t.Run(name, func(t *testing.T) {
			play(t, znode.Write, Sharing{Passes: 1}, func(x *story) {
				x.must(nil, x.first.Leave(x.Context(), nil))
				x.comes(znode.Write)
				theirs := x.names()[0]
				x.queues(1)
				if !late {
					x.queues(1)
				}
				x.deletes(theirs)
				if late {
					x.queues(1)
				}
				x.first = x.line[0].tenure
				x.deletes(x.path())
				if next := x.line[1]; next.waits() || next.tenure == x.first {
					x.Error("it waits")
				}
			})
		})
	}
}

// What ends an idle tenure, how soon, and what it has cost the keeper: requests, less two for each
// use. The heartbeats count, because nothing else keeps the session.
func TestWhatEndsAnIdleTenure(t *testing.T) {
	t.Parallel()
	const second = time.Second
	nothing := func(*story) {}
	uses := func(n int, pause time.Duration) func(*story) {
		return func(x *story) {
			for range n {
				time.Sleep(pause) // virtual
				if t := x.enters(x.of); t != x.first || t.Leave(x.Context(), nil) != nil {
					x.Fatal("another tenure")
				}
			}
		}
	}
	for name, c := range map[string]struct {
		event          func(*story)
		soonest, until time.Duration // of the end, after the event
		cost           int
	}{
		"nobody enters":                        {nothing, maxIdle - maxIdle/4, maxIdle, 12},
		"a caller has entered":                 {uses(1, maxIdle/2), maxIdle - maxIdle/4, maxIdle + maxIdle/4, 14},
		"callers enter again and again":        {uses(10, maxIdle/2), maxIdle - maxIdle/4, maxIdle + maxIdle/4, 35},
		"a writer comes":                       {writes, 0, 0, 3},
		"a writer comes later":                 {func(x *story) { time.Sleep(3 * second); writes(x) }, 0, 0, 4}, // virtual
		"a client asks for it":                 {asked, 0, 100 * time.Millisecond, 3},
		"a client asks for it later":           {func(x *story) { time.Sleep(3 * second); asked(x) }, 0, 0, 4}, // virtual
		"its node is deleted":                  {deleted, 0, 100 * time.Millisecond, 3},
		"its node is deleted later":            {func(x *story) { time.Sleep(3 * second); deleted(x) }, 0, 0, 4}, // virtual
		"it is lost":                           {func(x *story) { x.first.grant.state.Lose(hold.ErrLost) }, 0, 0, 3},
		"a writer comes unseen":                {func(x *story) { x.unseen(func() { writes(x) }) }, 4 * second, FirstRecheck + FirstRecheck/2, 6},
		"a writer comes unseen after a use":    {func(x *story) { uses(1, 3*second)(x); x.unseen(func() { writes(x) }) }, 0, FirstRecheck + FirstRecheck/2, 3},
		"another caller of the value wants it": {func(x *story) { x.of.EndIdle(x.Context()) }, 0, 0, 3},
		"the connection changes":               {func(x *story) { x.reconnects(x.first.grant.sess) }, 0, second, 3},
	} {
		stories(t, name, Sharing{MaxIdle: maxIdle}, func(x *story) {
			x.idle()
			const owed = 20 // more than the uses save
			x.of.keeper.debt = owed
			c.event(x)
			began := time.Now()
			for x.exists() || x.first.grant.Err() == nil || x.first.kept.Load() && !x.first.wanted.Load() {
				time.Sleep(10 * time.Millisecond) // virtual
				if time.Since(began) > time.Hour {
					x.Fatal("it stays")
				}
			}
			if took := time.Since(began); took < c.soonest || took > c.until {
				x.Errorf("it ends after %v, want %v to %v", took, c.soonest, c.until)
			}
			if cost := x.of.keeper.debt - owed; cost != c.cost {
				x.Errorf("it has cost %d requests, want %d", cost, c.cost)
			}
			if x.first.grant.Err() == nil || x.first.may() != no || x.first.enter() {
				x.Error("a caller may enter what is over")
			}
		})
	}
}

// A tenure that is held does not end for want of callers, and its guard asks less and less often.
func TestATenureThatIsHeldForLong(t *testing.T) {
	t.Parallel()
	stories(t, "held", Sharing{MaxIdle: maxIdle}, func(x *story) {
		x.idle()
		x.enters(x.of)
		before := x.requests()
		time.Sleep(5*time.Minute + FirstRecheck) // virtual
		if n := x.requests() - before; n < 6 || n > 10 {
			x.Errorf("%d requests in five minutes: after 5 s, 10 s, 20 s, 40 s, and each minute", n)
		}
		x.must(nil, x.first.Leave(x.Context(), nil))
		if time.Sleep(maxIdle / 2); !x.isIdle() { // virtual
			x.Error("the time of the hold counts as idle")
		}
	})
}

// All callers that wait for an acquire get its error, and none of them goes on waiting.
func TestAllCallersInLineGetTheError(t *testing.T) {
	t.Parallel()
	stories(t, "refused", Sharing{Passes: 100}, func(x *story) {
		x.must(nil, x.first.Leave(x.Context(), nil))
		f := x.proxy.Next(proxy.CreateOp, proxy.HoldRequest)
		x.queues(3)
		<-f.Fired()
		x.must(x.witness.Client().SetACL(x.queue.dir, zk.WorldACL(zk.PermRead), -1))
		f.Release()
		synctest.Wait()
		for i, c := range x.line {
			if c.waits() || !errors.Is(c.err, zk.ErrNoAuth) {
				x.Fatalf("caller %d waits: %v, got %v", i, c.waits(), c.err)
			}
		}
	})
}

// A grant replaces an idle one of the same value, which ends.
func TestANewGrantEndsTheFormer(t *testing.T) {
	t.Parallel()
	play(t, znode.Read, Sharing{MaxIdle: maxIdle}, func(x *story) {
		x.idle()
		next, err := x.of.try(x.Context())
		x.must(nil, err)
		if x.exists() || x.of.current.Load() != next {
			t.Error("there are two")
		}
		x.must(nil, next.Leave(x.Context(), nil))
	})
}

// A grant is kept if nobody else came since the last grants: no other client at all for a writer, no
// writer for a reader.
func TestAHabitIsThatNobodyElseComes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		other       znode.Kind
		write, read bool
	}{
		"nobody":   {"", true, true},
		"a writer": {znode.Write, false, false},
		"a reader": {znode.Read, false, true},
	} {
		stories(t, name, Sharing{MaxIdle: maxIdle}, func(x *story) {
			kept, want := 0, c.write
			if x.of.Together {
				want = c.read
			}
			for i := range 6 {
				x.must(nil, x.first.Leave(x.Context(), nil))
				if x.isIdle() {
					kept = i + 1
					break
				}
				if c.other != "" {
					x.comes(c.other)
					for _, path := range x.names() {
						x.deletes(path)
					}
				}
				x.first = x.enters(x.of)
			}
			if (kept > 0) != want || kept > 0 && kept < 3 {
				x.Errorf("it is kept after %d uses", kept)
			}
		})
	}
}

func (x *story) names() []string {
	names, _, err := x.witness.Client().Children(x.queue.dir)
	x.must(nil, err)
	for i := range names {
		names[i] = x.queue.dir + "/" + names[i]
	}
	return names
}
