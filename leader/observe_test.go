package leader_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/contract"
	"github.com/zklocks/zklocks/internal/test/locks"
	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/internal/test/venue"
	"github.com/zklocks/zklocks/leader"
)

// A watcher ranges over Observe on its own goroutine.
type watcher struct {
	*contract.Stage
	views chan leader.View
	done  chan error // the error that ended the loop
}

func watch(s *contract.Stage, ctx context.Context, e *leader.Election) *watcher {
	w := &watcher{s, make(chan leader.View, 1000), make(chan error, 1)}
	go func() {
		var last error
		var known zklocks.Member // the last known leader
		for view, err := range e.Observe(ctx) {
			if err == nil {
				known = view.Leader
				w.views <- view
			} else if last = err; view.Current || view.Leader.Token != known.Token {
				s.Errorf("with the error comes %+v, want the last known leader %d", view, known.Token)
			}
		}
		w.done <- last
	}()
	return w
}

// sees asserts the next view: its leader's token (0: no leader), and whether it is current.
func (w *watcher) sees(token int64, current bool) leader.View {
	w.Helper()
	late := time.NewTimer(time.Minute)
	defer late.Stop()
	select {
	case v := <-w.views:
		if v.Leader.Token != token || v.Current != current || (v.Leader.Path == "") != (token == 0) || v.Leader.Holding != (token != 0) {
			w.Errorf("the next view is %+v, want the leader %d, current %v", v, token, current)
		}
		return v
	case <-late.C:
		w.Fatalf("no view; want the leader %d, current %v", token, current)
	}
	panic("unreachable")
}

// noMore asserts that no further view has come.
func (w *watcher) noMore() {
	w.Helper()
	w.Settle()
	if len(w.views) > 0 {
		w.Errorf("one more view: %+v", <-w.views)
	}
}

// old asserts that views have come, and that the last is not current.
func (w *watcher) old(why string) {
	w.Helper()
	w.Settle()
	shown := true
	for len(w.views) > 0 {
		shown = (<-w.views).Current
	}
	if shown {
		w.Errorf("%s, and the last view is still current", why)
	}
}

func (w *watcher) ended(cause error) {
	w.Helper()
	test.Within(w, soon, "the loop ends", func() { w.Is(<-w.done, cause) })
}

// followed is a leader that an observer follows: a is a candidate that leads by h, e is not a
// candidate, and w has seen the leader.
type followed struct {
	*contract.Stage
	e, a *candidate
	h    *zklocks.Hold
	w    *watcher
}

func follow(t *testing.T, play func(f *followed)) {
	inMemory(t, func(s *contract.Stage) {
		f := &followed{Stage: s, e: newCandidate(s), a: newCandidate(s)}
		f.h = f.a.campaign()
		f.w = watch(s, s.Ctx, f.e.Election)
		f.w.sees(f.h.Token(), true)
		play(f)
		f.e.conn.Close()
		s.Empty()
	})
}

// allow sets the rights on a node.
func allow(s *contract.Stage, node string, rights int32) {
	s.Helper()
	s.Must(second(s.Witness.Client().SetACL(node, zk.WorldACL(rights), -1)))
}

// A program that is not a candidate follows the leader. It begins before the path exists.
func TestObserveYieldsEachChange(t *testing.T) {
	inMemory(t, func(s *contract.Stage) {
		ctx, stop := context.WithCancel(s.Ctx)
		e := newCandidate(s)
		w := watch(s, ctx, e.Election)
		w.sees(0, true)
		_, err := e.Leader(s.Ctx)
		s.Is(err, leader.ErrNoLeader)
		a, b := newCandidate(s), newCandidate(s)
		h := a.campaign()
		w.sees(h.Token(), true)
		next := contract.Begin(s, s.Ctx, b.Campaign)
		s.InLine(2)
		w.noMore() // another candidate does not change the leader
		m, err := e.Leader(s.Ctx)
		s.Must(err)
		if m.Token != h.Token() || m.Session != a.conn.Session() || m.Path != contract.NodeOf(h) || !m.Holding || m.Pid == 0 || m.Permits != 1 {
			s.Errorf("leader %+v", m)
		}
		s.Must(h.Release(s.Ctx))
		h = next.Granted()
		if v := w.sees(h.Token(), true); v.Leader.Session != b.conn.Session() {
			s.Errorf("%+v", v)
		}
		s.Must(b.Proclaim(s.Ctx, h, []byte("ready")))
		if v := w.sees(h.Token(), true); string(v.Leader.Data) != "ready" {
			s.Errorf("data %q", v.Leader.Data)
		}
		s.Must(b.Proclaim(s.Ctx, h, []byte("ready")))
		w.noMore()
		s.Must(h.Release(s.Ctx))
		w.sees(0, true)
		s.EmptyNow()
		time.Sleep(10 * time.Second) // virtual: the server deletes the empty directory
		w.noMore()
		h = a.campaign()
		w.sees(h.Token(), true)
		stop()
		w.ended(context.Canceled)
		s.Must(h.Release(s.Ctx))
	})
}

// Each leader leaves before the observer has read it: while the observer lists, or while it reads
// the node. The connection is up all the time. The old leader is not shown as current for longer
// than the session timeout. A distant observer of short terms may see this.
func TestAViewIsNotCurrentWhileTheNextLeadersGo(t *testing.T) {
	for _, op := range []proxy.Op{proxy.ListOp, proxy.ReadOp} {
		t.Run(op.String(), func(t *testing.T) {
			follow(t, func(f *followed) {
				const rounds = 9
				var next []*contract.Attempt[*zklocks.Hold]
				for i := range rounds + 1 {
					next = append(next, contract.Begin(f, f.Ctx, f.a.Campaign))
					f.InLine(2 + i)
				}
				read := f.e.proxy.Next(op, proxy.HoldReply)
				f.Must(f.h.Release(f.Ctx))
				for i := range rounds {
					h := next[i].Granted()
					<-read.Fired()
					time.Sleep(700 * time.Millisecond) // virtual: nine of these are longer than the session timeout
					another := f.e.proxy.Next(op, proxy.HoldReply)
					f.Must(h.Release(f.Ctx))
					f.Settle()
					read.Release()
					read = another
				}
				f.w.old("the leader has gone for longer than the session timeout")
				h := next[rounds].Granted()
				read.Release()
				f.Settle()
				f.Must(h.Release(f.Ctx))
			})
		})
	}
}

// etcd #15738, #18163: after the connection was lost the old leader is still shown as current.
func TestAViewIsNotCurrentWithoutAConnection(t *testing.T) {
	follow(t, func(f *followed) {
		// The connection is cut and restored: the same leader, read again.
		f.e.proxy.Cut()
		cut := time.Now()
		f.w.sees(f.h.Token(), false)
		f.AtOnce("seeing the cut", time.Since(cut))
		f.w.sees(f.h.Token(), true)

		// Another candidate leads when the connection is restored.
		f.e.proxy.Refuse()
		f.w.sees(f.h.Token(), false)
		f.Must(f.h.Release(f.Ctx))
		h := newCandidate(f.Stage).campaign()
		time.Sleep(10 * timeout) // virtual: beyond its session
		f.w.noMore()
		f.Must(f.e.proxy.Accept())
		f.w.sees(h.Token(), true)

		// The session expires, and the observer has a new session.
		f.Expire(f.e.conn)
		f.w.sees(h.Token(), false)
		f.w.sees(h.Token(), true)

		f.e.conn.Close()
		f.w.sees(h.Token(), false)
		f.w.ended(zk.ErrClosing)
		f.Must(h.Release(f.Ctx))
	})
}

// The leader leaves, and the connection breaks before the observer has read the next leader.
func TestAViewIsNotCurrentWhileTheNextIsReadOnADeadConnection(t *testing.T) {
	follow(t, func(f *followed) {
		listing := f.e.proxy.Next(proxy.ListOp, proxy.HoldReply)
		f.Must(f.h.Release(f.Ctx))
		<-listing.Fired()
		f.w.noMore()
		f.e.proxy.Refuse()
		f.w.sees(f.h.Token(), false)
		next := f.a.campaign()
		f.w.noMore()
		f.Must(f.e.proxy.Accept())
		f.w.sees(next.Token(), true)
		f.Must(next.Release(f.Ctx))
	})
}

// etcd #15738: the connection is open, and the server does not answer.
func TestAViewIsNotCurrentForLongerThanTheSessionTimeout(t *testing.T) {
	follow(t, func(f *followed) {
		time.Sleep(5 * timeout) // virtual: heartbeats keep it current
		f.w.noMore()
		f.e.proxy.Mute()
		muted := time.Now()
		f.Must(f.h.Release(f.Ctx))
		next := newCandidate(f.Stage).campaign()
		f.w.sees(f.h.Token(), false)
		f.Within("showing it as current", time.Since(muted), timeout)
		f.w.noMore()
		f.e.proxy.Unmute()
		f.w.sees(next.Token(), true)
		f.Must(next.Release(f.Ctx))
	})
}

// The loop can be left at once, also while no server answers.
func TestALoopThatIsLeftDuringAnOutage(t *testing.T) {
	inMemory(t, func(s *contract.Stage) {
		e, a := newCandidate(s), newCandidate(s)
		h := a.campaign()
		var left time.Time
		for view, err := range e.Observe(s.Ctx) {
			s.Must(err)
			if !view.Current {
				left = time.Now()
				break
			}
			e.proxy.Refuse()
			e.proxy.Cut()
		}
		if d := time.Since(left); d > 0 {
			s.Errorf("the loop goes on for %v after it was left", d)
		}
		e.proxy.Accept()
		s.Must(h.Release(s.Ctx))
	})
}

// overload makes the server drop requests of a kind, and answer all others, until over is called.
func (c *candidate) overload(op proxy.Op) (over func()) {
	const throttled = -127
	var faults []*proxy.Fault
	for range 600 {
		faults = append(faults, c.proxy.Next(op, proxy.Answer(throttled)))
	}
	return func() {
		for _, f := range faults {
			f.Cancel()
		}
	}
}

// The server answers reads, and drops quorum requests.
func TestAViewIsNotCurrentWithoutTheQuorum(t *testing.T) {
	follow(t, func(f *followed) {
		over := f.e.overload(proxy.CheckOp)
		began := time.Now()
		f.w.sees(f.h.Token(), false)
		f.Within("showing it as current", time.Since(began), timeout)
		time.Sleep(time.Second) // virtual: the server continues to drop them
		f.w.noMore()
		over()
		f.w.sees(f.h.Token(), true)
		f.Must(f.h.Release(f.Ctx))
	})
}

// The event of the leader's deletion has arrived. The overloaded server answers heartbeats, and
// drops the listings, or the reads that check the right READ.
func TestAViewIsNotCurrentWhileTheServerIsOverloaded(t *testing.T) {
	for _, op := range []proxy.Op{proxy.ListOp, proxy.ReadOp} {
		t.Run(op.String(), func(t *testing.T) {
			follow(t, func(f *followed) {
				defer f.e.overload(op)()
				time.Sleep(6 * time.Second) // virtual: several checks of the right
				f.Must(f.h.Release(f.Ctx))
				if op == proxy.ListOp {
					time.Sleep(3 * timeout) // virtual: the heartbeats are answered
					f.w.old("the leader has gone")
					return
				}
				f.w.sees(f.h.Token(), false)
				f.w.sees(0, true) // read by listings
			})
		})
	}
}

// inEnsemble runs a test in an ensemble: members has the leader, then the followers, and on returns
// an election on a connection to one of them.
func inEnsemble(t *testing.T, session time.Duration, options venue.Options, play func(s *contract.Stage, ensemble venue.Ensemble, members []venue.Server, on func(i int) *leader.Election)) {
	t.Parallel()
	venue.InMemory(t, func(t *testing.T, v venue.Venue) {
		s := &contract.Stage{T: t, Venue: v, Ctx: t.Context(), Path: "/election", Dir: "/election"}
		ensemble := v.Cluster(t, 3, options)
		lead, err := ensemble.Leader()
		s.Must(err)
		followers, err := ensemble.Followers()
		s.Must(err)
		members := append([]venue.Server{lead}, followers...)
		play(s, ensemble, members, func(i int) *leader.Election {
			return leader.New(locks.On(v.Connect(t, session, members[i].Addr())), s.Path)
		})
	})
}

// campaign acquires a term.
func campaign(s *contract.Stage, e *leader.Election) *zklocks.Hold {
	s.Helper()
	h, err := e.Campaign(s.Ctx)
	s.Must(err)
	return h
}

// etcd #18163: a server that is cut off from the quorum still answers reads. In this test it also
// keeps the connection open.
func TestNoStaleLeaderFromAServerThatIsCutOff(t *testing.T) {
	inEnsemble(t, timeout, venue.Options{Partitions: true, SyncLimit: time.Hour}, func(s *contract.Stage, ensemble venue.Ensemble, members []venue.Server, on func(int) *leader.Election) {
		a, b, e := on(0), on(0), on(1)
		h := campaign(s, a)
		w := watch(s, s.Ctx, e)
		w.sees(h.Token(), true)
		s.Must(ensemble.Isolate(members[1]))
		isolated := time.Now()
		s.Must(h.Release(s.Ctx))
		next := campaign(s, b)
		w.sees(h.Token(), false)
		s.Within("showing it as current", time.Since(isolated), timeout)
		ask := contract.Begin(s, s.Ctx, e.Leader)
		time.Sleep(10 * timeout) // virtual: no quorum answers
		ask.Waits()
		w.noMore()
		ensemble.Heal()
		if m := ask.Granted(); m.Token != next.Token() {
			s.Errorf("leader %+v", m)
		}
		w.sees(next.Token(), true)
		s.Must(next.Release(s.Ctx))
		w.sees(0, true)
	})
}

// etcd #18163: a server that lags behind the others returns the previous leader.
func TestNoStaleLeaderFromAServerThatIsBehind(t *testing.T) {
	inEnsemble(t, 20*time.Second, venue.Options{CommitDelay: time.Second}, func(s *contract.Stage, _ venue.Ensemble, _ []venue.Server, on func(int) *leader.Election) {
		// A server answers a new connection only when it has caught up, because a quorum creates
		// the session. These connections are older.
		a, b, e, loop := on(0), on(0), on(1), on(2)
		h := campaign(s, a)
		asks := func() {
			s.Helper()
			if m, err := e.Leader(s.Ctx); err != nil || m.Token != h.Token() {
				s.Errorf("the leader is %d, and %d is returned, %v", h.Token(), m.Token, err)
			}
		}
		looks := func() {
			s.Helper()
			if view, err := first(loop.Observe(s.Ctx)); err != nil || view.Leader.Token != h.Token() || !view.Current {
				s.Errorf("the leader is %d, and %+v is yielded, %v", h.Token(), view, err)
			}
		}
		for range 5 {
			s.Must(h.Release(s.Ctx))
			s.Is(second(e.Leader(s.Ctx)), leader.ErrNoLeader)
			h = campaign(s, b)
			asks() // the quorum request first: both servers catch up
			looks()
			s.Must(h.Release(s.Ctx))
			h = campaign(s, a)
			looks()
			asks()
		}
		s.Must(h.Release(s.Ctx))
	})
}

// The connection breaks between the quorum request and the read, and the next server lags behind.
func TestAReconnectMeanwhileAsksTheQuorumAgain(t *testing.T) {
	inMemory(t, func(s *contract.Stage) {
		e, a := newCandidate(s), newCandidate(s)
		h := a.campaign()
		for _, op := range []proxy.Op{proxy.CheckOp, proxy.ListOp, proxy.ReadOp} {
			before := e.proxy.Seen(proxy.CheckOp)
			lost := e.proxy.Next(op, proxy.CutAfterCommit)
			m, err := e.Leader(s.Ctx)
			s.Must(err)
			<-lost.Fired()
			if m.Token != h.Token() {
				s.Errorf("leader %+v", m)
			}
			if n := e.proxy.Seen(proxy.CheckOp) - before; n < 2 {
				s.Errorf("%v: the quorum was asked %d times", op, n)
			}
		}
		s.Must(h.Release(s.Ctx))
		s.EmptyNow()
	})
}

// A loop that was left leaves no goroutine and no lease. It leaves no watch except the watch on the
// leader's node, which the next loop uses.
func TestObserveLeavesNothingBehind(t *testing.T) {
	inMemory(t, func(s *contract.Stage) {
		e, a := newCandidate(s), newCandidate(s)
		leaves := func(when string, watches int) {
			s.Helper()
			for range 100 {
				s.Must(second(first(e.Observe(s.Ctx))))
			}
			s.Settle()
			if n := len(s.Venue.Watched(s, e.conn.Session())); n != watches {
				s.Errorf("%s: %d watches", when, n)
			}
		}
		leaves("the directory does not exist", 0)
		h := a.campaign()
		leaves("a leader", 1)
		reads := e.proxy.Seen(proxy.ReadOp)
		leaves("the same leader", 1)
		if n := e.proxy.Seen(proxy.ReadOp) - reads; n != 0 {
			s.Errorf("%d watches were set", n)
		}
		beats := e.proxy.Seen(proxy.CheckOp)
		time.Sleep(10 * timeout) // virtual: without a lease no heartbeat is sent
		if n := e.proxy.Seen(proxy.CheckOp) - beats; n != 0 {
			s.Errorf("%d heartbeats", n)
		}
		s.Must(h.Release(s.Ctx))
		leaves("an empty directory", 0)
	})
}

// The first member is created after the listing that shows an empty queue and before the watch on
// the directory.
func TestALeaderThatComesBeforeTheWatchIsSeen(t *testing.T) {
	inMemory(t, func(s *contract.Stage) {
		e, a := newCandidate(s), newCandidate(s)
		watching := e.proxy.Where(func(r proxy.Request) bool { return r.Watch && r.Is(proxy.ExistsOp) }, 1, proxy.HoldRequest)
		ctx, stop := context.WithCancel(s.Ctx)
		w := watch(s, ctx, e.Election)
		<-watching.Fired()
		h := a.campaign()
		watching.Release()
		w.sees(h.Token(), true)
		w.noMore()
		stop()
		w.ended(context.Canceled)
		s.Must(h.Release(s.Ctx))
	})
}

// The data of a view belong to the caller, although all loops of a connection share a watch.
func TestTheDataOfAViewAreTheCallersOwn(t *testing.T) {
	inMemory(t, func(s *contract.Stage) {
		e := newCandidate(s, zklocks.WithData([]byte("data")))
		h := e.campaign()
		for range 2 {
			v, err := first(e.Observe(s.Ctx))
			s.Must(err)
			if string(v.Leader.Data) != "data" {
				s.Errorf("data %q", v.Leader.Data)
			}
			clear(v.Leader.Data)
		}
		s.Must(h.Release(s.Ctx))
	})
}

// Observe does not poll. It only checks its right to read: after five seconds, after ten more, and
// so on.
func TestObserveAsksForNothingWhileNothingChanges(t *testing.T) {
	inMemory(t, func(s *contract.Stage) {
		e, a := newCandidate(s), newCandidate(s)
		ctx, stop := context.WithCancel(s.Ctx)
		w := watch(s, ctx, e.Election)
		w.sees(0, true)
		h := a.campaign()
		w.sees(h.Token(), true)
		s.Settle()
		asked := func() int64 { return e.proxy.Seen(proxy.AnyOp) - e.proxy.Seen(proxy.CheckOp) }
		before, beats := asked(), e.proxy.Seen(proxy.CheckOp)
		time.Sleep(time.Minute) // virtual: nothing but heartbeats
		if n := asked() - before; n != 3 {
			s.Errorf("%d requests", n)
		}
		if n := e.proxy.Seen(proxy.CheckOp) - beats; n < int64(time.Minute/timeout) {
			s.Errorf("%d heartbeats", n)
		}
		s.Must(h.Release(s.Ctx))
		w.sees(0, true)
		stop()
		w.ended(context.Canceled)
	})
}

// The body of the loop may be slow, and may panic.
func TestTheBodyOfTheLoop(t *testing.T) {
	inMemory(t, func(s *contract.Stage) {
		e, a := newCandidate(s), newCandidate(s)
		var tokens, seen []int64
		var last *zklocks.Hold
		var terms []*zklocks.Hold
		for view, err := range e.Observe(s.Ctx) {
			s.Must(err)
			seen = append(seen, view.Leader.Token)
			if len(seen) == 3 {
				break
			}
			for range 3 { // the loop sees only the last of them
				if last != nil {
					a.deleteNode(last)
				}
				last = a.campaign()
				terms = append(terms, last)
				tokens = append(tokens, last.Token())
			}
		}
		if want := []int64{0, tokens[2], tokens[5]}; fmt.Sprint(seen) != fmt.Sprint(want) {
			s.Errorf("seen %v, want %v", seen, want)
		}
		func() {
			defer func() { _ = recover() }()
			for range e.Observe(s.Ctx) {
				panic("of the body")
			}
		}()
		s.Settle() // the test fails if a goroutine is left
		a.deleteNode(last)
		for _, term := range terms {
			s.Is(term.Release(s.Ctx), zklocks.ErrLost)
		}
	})
}

func TestLeaderAndObserveWithoutTheRightToRead(t *testing.T) {
	inMemory(t, func(s *contract.Stage) {
		e := newCandidate(s)
		_, err := s.Witness.Client().Create(s.Dir, nil, 0, zk.WorldACL(zk.PermAll))
		s.Must(err)
		node, err := s.Witness.Client().Create(s.Dir+"/lock-", nil, zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermWrite))
		s.Must(err)
		refused := func(right string) {
			for what, err := range map[string]error{
				"leader":  second(e.Leader(s.Ctx)),
				"observe": second(first(e.Observe(s.Ctx))),
			} {
				s.Is(err, zk.ErrNoAuth)
				if !strings.Contains(err.Error(), right) {
					s.Errorf("%s: %q does not say %q", what, err, right)
				}
			}
		}
		refused("READ on " + node)
		allow(s, s.Dir, zk.PermAll&^zk.PermRead)
		refused("READ on " + s.Dir)
		s.Must(s.Witness.Client().Delete(node, -1))
		allow(s, s.Dir, zk.PermAll)
	})
}

// first returns the first pair of a sequence.
func first[V any](seq func(func(V, error) bool)) (v V, err error) {
	seq(func(a V, b error) bool { v, err = a, b; return false })
	return v, err
}

// ctx was canceled before the call, or is canceled before there is a connection.
func TestLeaderAndObserveEndWithTheirContext(t *testing.T) {
	inMemory(t, func(s *contract.Stage) {
		e := newCandidate(s)
		dead, cancel := context.WithCancel(s.Ctx)
		cancel()
		s.Is(second(e.Leader(dead)), context.Canceled)
		s.Is(second(first(e.Observe(dead))), context.Canceled)
		e.proxy.Refuse()
		late, cancel := context.WithTimeout(s.Ctx, timeout/2)
		defer cancel()
		for _, err := range []error{second(e.Leader(late)), second(first(e.Observe(late)))} {
			s.Is(err, context.DeadlineExceeded)
			if !strings.Contains(err.Error(), e.proxy.Addr()) {
				s.Errorf("%q does not say which server was tried", err)
			}
		}
		s.Must(e.proxy.Accept())
	})
}

// A loop with a slow body acts on an old view, but only until the body returns.
func TestAViewIsNotCurrentAfterASlowBody(t *testing.T) {
	inMemory(t, func(s *contract.Stage) {
		e, a := newCandidate(s), newCandidate(s)
		h := a.campaign()
		began, seen := make(chan struct{}), make(chan time.Duration)
		go func() {
			var back time.Time
			for v := range e.Observe(s.Ctx) {
				if back.IsZero() {
					close(began)
					time.Sleep(3 * timeout) // virtual: the body
					back = time.Now()
					continue
				}
				if v.Current {
					s.Errorf("%+v is current", v)
				}
				seen <- time.Since(back)
				return
			}
		}()
		<-began
		time.Sleep(timeout / 10) // virtual: the first heartbeat of the body
		s.Must(h.Release(s.Ctx))
		defer e.overload(proxy.ListOp)()
		if late := <-seen; late > 0 {
			s.Errorf("a leader that had gone was current for %v after the body", late)
		}
	})
}

// The right READ on the leader's node is revoked while the node is watched. The server then
// withholds the event of its deletion.
func TestAViewIsNotCurrentWithoutTheRightToRead(t *testing.T) {
	follow(t, func(f *followed) {
		const long = 10 * time.Second
		time.Sleep(long) // virtual: the watch is old
		allow(f.Stage, contract.NodeOf(f.h), zk.PermAll&^zk.PermRead)
		f.Must(f.h.Release(f.Ctx))
		h := newCandidate(f.Stage).campaign()
		time.Sleep(long) // virtual: the next recheck is about twice as long after the view as the previous recheck
		f.w.sees(h.Token(), true)
		allow(f.Stage, contract.NodeOf(h), zk.PermAll&^zk.PermRead)
		f.Is(<-f.w.done, zk.ErrNoAuth)
		f.Must(h.Release(f.Ctx))
	})
}

// unseen creates and deletes a child of the directory without an event: the right READ is revoked
// meanwhile.
func unseen(s *contract.Stage) {
	s.Helper()
	allow(s, s.Dir, zk.PermAll&^zk.PermRead)
	child, err := s.Witness.Client().Create(s.Dir+"/x", nil, 0, zk.WorldACL(zk.PermAll))
	s.Must(err)
	s.Must(s.Witness.Client().Delete(child, -1))
	allow(s, s.Dir, zk.PermAll)
}

// A child was created and deleted without an event while there was no leader, so the watch on the
// directory is gone. The observer sets another at its next recheck, and a new observer at once.
func TestALeaderIsSeenWithoutTheEventThatItComes(t *testing.T) {
	for name, anew := range map[string]bool{"by an old observer": false, "by a new observer": true} {
		t.Run(name, func(t *testing.T) {
			inMemory(t, func(s *contract.Stage) {
				a, e := newCandidate(s), newCandidate(s)
				s.Must(second(s.Witness.Client().Create(s.Dir, nil, 0, zk.WorldACL(zk.PermAll))))
				ctx, cancel := context.WithCancel(s.Ctx)
				w := watch(s, ctx, e.Election)
				w.sees(0, true)
				if anew {
					cancel()
					w.ended(context.Canceled)
					unseen(s)
					w = watch(s, s.Ctx, e.Election)
					w.sees(0, true)
				} else {
					defer cancel()
					const long = 10 * time.Second
					time.Sleep(long) // virtual: the watch is old
					unseen(s)
					h := a.campaign()
					time.Sleep(long) // virtual: no event arrives
					w.sees(h.Token(), true)
					s.Must(h.Release(s.Ctx))
					w.sees(0, true)
				}
				h := a.campaign()
				came := time.Now()
				w.sees(h.Token(), true)
				s.Within("seeing the leader", time.Since(came), time.Second)
				s.Must(h.Release(s.Ctx))
				e.conn.Close()
			})
		})
	}
}

// Data that the leader proclaims while the observer lacks READ are shown after the next recheck.
func TestWhatIsProclaimedWithoutAnEventIsSeen(t *testing.T) {
	follow(t, func(f *followed) {
		node := contract.NodeOf(f.h)
		allow(f.Stage, node, zk.PermAll&^zk.PermRead)
		f.Must(second(f.Witness.Client().Set(node, []byte("news"), -1)))
		allow(f.Stage, node, zk.PermAll)
		if v := f.w.sees(f.h.Token(), true); string(v.Leader.Data) != "news" {
			f.Errorf("data %q", v.Leader.Data)
		}
		f.Must(f.h.Release(f.Ctx))
		f.w.sees(0, true)
	})
}
