package leader_test

import (
	"bytes"
	"context"
	"encoding/json"
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
	"github.com/zklocks/zklocks/leader"
)

// kuberhealthy #1533, kazoo #432: a leader that has lost its term does not campaign again until its
// process is restarted.
func TestRunCampaignsAgainAfterALoss(t *testing.T) {
	for name, lose := range map[string]func(*candidate, *term){
		"deleted": func(c *candidate, t *term) { c.deleteNode(t.hold) },
		"expired": func(c *candidate, _ *term) { c.Expire(c.conn) },
		"cut off": func(c *candidate, t *term) {
			c.proxy.Mute()
			<-t.ctx.Done()
			time.Sleep(2 * timeout) // virtual: the servers end the session
			c.proxy.Unmute()
		},
	} {
		t.Run(name, func(t *testing.T) {
			inMemory(t, func(s *contract.Stage) {
				r := newCandidate(s, leader.WithBackoff(time.Hour, time.Hour)).run(s.Ctx)
				var token int64
				for i := range 4 {
					term := r.leads()
					s.Must(term.hold.Verify(s.Ctx))
					if term.hold.Token() <= token {
						s.Errorf("token %d after %d", term.hold.Token(), token)
					}
					token = term.hold.Token()
					lose(r.candidate, term)
					r.over(term, zklocks.ErrLost)
					r.none()
					// The term was lost, which may make the function fail: no pause.
					term.end <- []error{errFailed, fmt.Errorf("stopped: %w", context.Cause(term.ctx))}[i%2]
				}
				r.resign(r.leads())
				s.EmptyNow()
			})
		})
	}
}

// Curator #985: the function continues while another process leads.
func TestTheContextEndsBeforeTheNextLeads(t *testing.T) {
	inMemory(t, func(s *contract.Stage) {
		a, b := newCandidate(s).run(s.Ctx), newCandidate(s)
		first := a.leads()
		next := b.run(s.Ctx)
		s.InLine(2)
		a.proxy.Mute()
		second := next.leads()
		if first.ctx.Err() == nil {
			s.Error("two lead")
		}
		s.Is(context.Cause(first.ctx), zklocks.ErrLost)
		a.proxy.Unmute()
		first.end <- nil
		s.InLine(2)
		next.resign(second)
		a.resign(a.leads())
		s.EmptyNow()
	})
}

// Kubernetes PR 139991: the leader resigns when its context is canceled. Its function still runs,
// concurrently with the function of the next leader.
func TestRunResignsWhenTheFunctionHasReturnedAndNotBefore(t *testing.T) {
	inMemory(t, func(s *contract.Stage) {
		a := newCandidate(s).run(s.Ctx)
		first := a.leads()
		b := newCandidate(s).run(s.Ctx)
		s.InLine(2)
		a.Cancel()
		r := a.candidate
		a.over(first, context.Canceled)
		for range 10 {
			time.Sleep(timeout) // virtual: the function continues for a long time
			b.none()
			if r.Status().State != leader.StateLeader || !first.hold.Held() {
				s.Fatal("it has resigned, and its function runs")
			}
		}
		first.end <- nil
		second := b.leads()
		s.Is(a.Failed(), context.Canceled)
		b.resign(second)
		s.EmptyNow()
	})
}

// Kubernetes PR 139991: no process can detect that the function of a lost term still runs.
func TestAFunctionThatGoesOnAfterTheLossIsOverdue(t *testing.T) {
	inMemory(t, func(s *contract.Stage) {
		c := newCandidate(s)
		r := c.run(s.Ctx)
		term := r.leads()
		s.Pass(time.Second)
		c.deleteNode(term.hold)
		r.over(term, zklocks.ErrLost)
		lost := time.Now()
		c.state(leader.StateOverdue, lost)
		for range 4 {
			s.Settle()
			s.EmptyNow() // it does not campaign
			r.none()
			time.Sleep(timeout) // virtual: the session timeout
		}
		c.state(leader.StateOverdue, lost)
		term.end <- nil
		term = r.leads()
		c.state(leader.StateLeader, time.Now())
		r.resign(term)
		s.EmptyNow()
	})
}

// After its function has failed, Run pauses, so that another candidate can lead. In Druid (PR 4699)
// a leader whose function failed at once was elected again at once, thousands of times a second,
// and no other candidate ever led.
func TestRunPausesAfterAFailure(t *testing.T) {
	t.Run("by default", func(t *testing.T) { pausesAfterAFailure(t, time.Second, time.Minute) })
	t.Run("as set", func(t *testing.T) {
		const shortest, longest = 2 * time.Second, 40 * time.Second
		pausesAfterAFailure(t, shortest, longest, leader.WithBackoff(shortest, longest))
	})
}

func pausesAfterAFailure(t *testing.T, shortest, longest time.Duration, opts ...leader.Option) {
	inMemory(t, func(s *contract.Stage) {
		c := newCandidate(s, opts...)
		r := c.run(context.WithoutCancel(s.Ctx))
		pause := func(term *term, err error) (time.Duration, *term) {
			term.end <- err
			<-term.out
			ended := time.Now()
			s.Settle()
			if err != nil {
				s.EmptyNow() // other candidates can lead during the pause
				c.state(leader.StateFollower, ended)
			}
			next := r.leads()
			return time.Since(ended), next
		}
		var d time.Duration
		term := r.leads()
		fail := func(times int) (long, drawn bool) { // call it after a term that did not fail
			last := shortest
			for range times {
				d, term = pause(term, errFailed)
				if d < shortest || d > min(longest, 3*last) {
					s.Errorf("paused for %v after %v", d, last)
				}
				long, drawn = long || d > longest/2, drawn || d < min(longest, 3*last)
				last = d
			}
			return long, drawn
		}
		// 1 of 2,500 runs of 30 pauses has no long pause; practically no run of 200 pauses lacks
		// one.
		if long, drawn := fail(200); !long || !drawn {
			s.Error("the pauses do not grow, or are not drawn")
		}
		for i := range 30 {
			length := time.Second * time.Duration(i) / 10 // of a term that does not fail
			time.Sleep(length)                            // virtual
			if d, term = pause(term, nil); d != max(0, time.Second-length) {
				s.Errorf("paused for %v after a term of %v that has not failed", d, length)
			}
			fail(5)
			time.Sleep(longest + time.Second) // virtual: the term
			fail(5)
		}
		term.end <- errFailed
		<-term.out
		r.stop() // in the pause, at once
		r.Prompt()
		s.EmptyNow()
	})
}

// A function that finds nothing to do is not called hundreds of times a second, also if its pauses
// after a failure are long; shorter pauses shorten the time between two terms.
func TestTheTimeBetweenTermsThatEndAtOnce(t *testing.T) {
	for shortest, want := range map[time.Duration]int{10 * time.Millisecond: 1000, time.Second: 10, time.Hour: 10} {
		t.Run(shortest.String(), func(t *testing.T) {
			inMemory(t, func(s *contract.Stage) {
				ctx, cancel := context.WithTimeout(s.Ctx, 10*time.Second-time.Millisecond) // virtual
				defer cancel()
				terms := 0
				s.Is(newCandidate(s, leader.WithBackoff(shortest, 2*shortest)).Run(ctx, func(context.Context, *zklocks.Hold) error {
					terms++
					return nil
				}), context.DeadlineExceeded)
				if terms != want {
					s.Errorf("%d terms in ten seconds, want %d", terms, want)
				}
			})
		})
	}
}

func TestRunResignsWhenTheFunctionPanics(t *testing.T) {
	inMemory(t, func(s *contract.Stage) {
		c := newCandidate(s)
		func() {
			defer func() {
				if p := recover(); p != errFailed {
					s.Errorf("panic %v", p)
				}
			}()
			_ = c.Run(s.Ctx, func(context.Context, *zklocks.Hold) error { panic(errFailed) })
			s.Error("no panic")
		}()
		s.EmptyNow()
		c.state(leader.StateFollower, time.Now())
	})
}

func TestAFunctionMayReleaseItsTerm(t *testing.T) {
	inMemory(t, func(s *contract.Stage) {
		r := newCandidate(s).run(s.Ctx)
		term := r.leads()
		s.Must(term.hold.Release(s.Ctx))
		r.over(term, zklocks.ErrReleased)
		s.EmptyNow()
		r.none() // it still runs
		term.end <- nil
		term = r.leads()
		s.Must(term.hold.Release(s.Ctx))
		resigned := time.Now()
		term.end <- errFailed // also a failure
		term = r.leads()
		if time.Since(resigned) == 0 {
			s.Error("no pause")
		}
		r.resign(term)
		s.EmptyNow()
	})
}

// Two calls on one value are two candidates, and one of them leads.
func TestTwoRunsOfOneValueExcludeEachOther(t *testing.T) {
	inMemory(t, func(s *contract.Stage) {
		c := newCandidate(s)
		began := time.Now()
		c.state(leader.StateFollower, began)
		a := c.run(s.Ctx)
		first := a.leads()
		s.Pass(time.Second)
		b := c.run(s.Ctx)
		s.InLine(2)
		b.none()
		c.state(leader.StateLeader, began)
		a.resign(first)
		second := b.leads()
		began = time.Now()
		s.Pass(time.Second)
		c.state(leader.StateLeader, began)
		b.resign(second)
		c.state(leader.StateFollower, time.Now())
		s.EmptyNow()
	})
}

func TestStatusOfACampaignByHand(t *testing.T) {
	inMemory(t, func(s *contract.Stage) {
		other, c := newCandidate(s), newCandidate(s)
		h := other.campaign()
		s.Pass(time.Second)
		since := time.Now()
		a := contract.Begin(s, s.Ctx, c.Campaign)
		s.InLine(2)
		s.Pass(time.Second)
		var later []*contract.Attempt[*zklocks.Hold]
		for range 5 {
			later = append(later, contract.Begin(s, s.Ctx, c.Campaign))
		}
		s.InLine(7)
		c.state(leader.StateCandidate, since) // of its first candidate
		for _, a := range later {
			a.Cancel()
			s.Is(a.Failed(), context.Canceled)
		}
		s.Must(h.Release(s.Ctx))
		h = a.Granted()
		c.state(leader.StateLeader, time.Now())
		other.state(leader.StateFollower, time.Now())
		lost := h.Lost()
		s.Pass(time.Second)
		c.deleteNode(h)
		<-lost
		since = time.Now()
		s.Pass(time.Second)
		c.state(leader.StateOverdue, since) // until its Release is called
		s.Is(h.Release(s.Ctx), zklocks.ErrLost)
		c.state(leader.StateFollower, time.Now())
		h = c.campaign()
		s.Must(h.Release(s.Ctx))
		since = time.Now()
		s.Pass(time.Minute)
		s.Is(h.Release(s.Ctx), zklocks.ErrReleased) // does not change the state
		c.state(leader.StateFollower, since)
		s.EmptyNow()
		for state, text := range map[leader.State]string{
			leader.StateFollower: "follower", leader.StateCandidate: "candidate", leader.StateLeader: "leader", leader.StateOverdue: "overdue",
			-1: "unknown", leader.StateOverdue + 1: "unknown",
		} {
			if state.String() != text {
				s.Errorf("%v, want %s", state, text)
			}
			shown, err := json.Marshal(leader.Status{State: state})
			s.Must(err)
			if !strings.HasPrefix(string(shown), `{"State":"`+text+`",`) {
				s.Errorf("JSON shows %s", shown)
			}
			var read leader.Status
			if err := json.Unmarshal(shown, &read); (err == nil) != (text != "unknown") || err == nil && read.State != state {
				s.Errorf("%s is read as %v, %v", shown, read.State, err)
			}
		}
	})
}

// Run returns each error that ends a campaign, and the error of a node that cannot be deleted.
func TestWhatEndsRun(t *testing.T) {
	t.Run("the connection is closed", func(t *testing.T) {
		inMemory(t, func(s *contract.Stage) {
			r := newCandidate(s).run(s.Ctx)
			term := r.leads()
			r.conn.Close()
			r.over(term, zklocks.ErrLost)
			term.end <- nil
			s.Is(r.Failed(), zk.ErrClosing)
			s.Empty()
		})
	})
	for name, rights := range map[string]int32{"no right to create": zk.PermRead, "no right to delete": zk.PermAll &^ zk.PermDelete} {
		t.Run(name, func(t *testing.T) {
			inMemory(t, func(s *contract.Stage) {
				s.Must(second(s.Witness.Client().Create(s.Path, nil, 0, zk.WorldACL(rights))))
				r := newCandidate(s).run(s.Ctx)
				if rights&zk.PermCreate != 0 {
					r.leads().end <- nil
				}
				s.Is(r.Failed(), zk.ErrNoAuth)
				r.none()
				r.conn.Close()
				s.Empty()
			})
		})
	}
	for name, open := range map[string]func(*zklocks.Conn) *leader.Election{
		"a bad path":        func(c *zklocks.Conn) *leader.Election { return leader.New(c, "path") },
		"no pause":          func(c *zklocks.Conn) *leader.Election { return leader.New(c, "/path", leader.WithBackoff(0, 1)) },
		"a shorter longest": func(c *zklocks.Conn) *leader.Election { return leader.New(c, "/path", leader.WithBackoff(2, 1)) },
	} {
		t.Run(name, func(t *testing.T) {
			inMemory(t, func(s *contract.Stage) {
				e := open(locks.On(s.Connect()))
				for op, err := range map[string]error{
					"run":       e.Run(s.Ctx, func(context.Context, *zklocks.Hold) error { s.Error("called"); return nil }),
					"campaign":  second(e.Campaign(s.Ctx)),
					"leader of": second(e.Leader(s.Ctx)),
					"queue of":  second(e.Queue(s.Ctx)),
				} {
					if err == nil || !strings.HasPrefix(err.Error(), "leader: "+op) {
						s.Errorf("%s: %v", op, err)
					}
				}
				n := 0
				for view, err := range e.Observe(s.Ctx) {
					if n++; err == nil || view.Current {
						s.Errorf("observed %+v, %v", view, err)
					}
				}
				if n != 1 {
					s.Errorf("observed %d errors", n)
				}
				if state := e.Status().State; state != leader.StateFollower {
					s.Error(state)
				}
			})
		})
	}
}

func second[T any](_ T, err error) error { return err }

// A nil context and a nil function panic before anything changes.
func TestWhatPanics(t *testing.T) {
	inMemory(t, func(s *contract.Stage) {
		c := newCandidate(s)
		h := c.campaign()
		var none context.Context
		for name, call := range map[string]func() error{
			"zklocks: the context is nil":           func() error { return c.Run(none, func(context.Context, *zklocks.Hold) error { return nil }) },
			"zklocks: the context is nil, proclaim": func() error { return c.Proclaim(none, h, nil) },
			"leader: the function is nil":           func() error { return c.Run(s.Ctx, nil) },
		} {
			func() {
				defer func() {
					if want, _, _ := strings.Cut(name, ","); fmt.Sprint(recover()) != want {
						s.Errorf("no panic %q", name)
					}
				}()
				s.Errorf("%s: returned %v", name, call())
			}()
		}
		c.state(leader.StateLeader, c.Status().Since)
		s.Must(h.Release(s.Ctx))
		s.EmptyNow()
	})
}

// Candidates with other names do not lead at once on one path. Only the directory of kazoo's names
// remains: kazoo creates it once.
func TestNamesOfOtherLibraries(t *testing.T) {
	for part, names := range map[string]leader.Option{"-latch-": leader.WithLatchNames(), "__lock__": leader.WithKazooNames()} {
		t.Run(part, func(t *testing.T) {
			inMemory(t, func(s *contract.Stage) {
				a, b := newCandidate(s, names), newCandidate(s, names)
				h := a.campaign()
				wait := contract.Begin(s, s.Ctx, b.Campaign)
				s.InLine(2)
				wait.Waits()
				if _, err := newCandidate(s).Campaign(s.Ctx); err == nil || !strings.Contains(err.Error(), "in use by a lock of another kind") {
					s.Errorf("with other names: %v", err)
				}
				q, err := b.Queue(s.Ctx)
				s.Must(err)
				m, err := b.Leader(s.Ctx)
				s.Must(err)
				if node := contract.NodeOf(h); len(q) != 2 || !q[0].Holding || q[1].Holding || m.Path != node || !strings.Contains(node, part) {
					s.Errorf("%s leads: queue %+v, leader %+v", node, q, m)
				}
				s.Must(h.Release(s.Ctx))
				s.Must(wait.Granted().Release(s.Ctx))
				s.EmptyNow()
				time.Sleep(time.Minute) // virtual: the server deletes an empty container
				if there, _, err := s.Witness.Client().Exists(s.Path); err != nil || there != (part == "__lock__") {
					s.Errorf("the directory is there: %v, %v", there, err)
				}
				_ = s.Witness.Client().Delete(s.Path, -1)
			})
		})
	}
}

// A function is asked to resign. It releases the term itself, and then returns ctx's error.
func TestATermThatIsReleasedOnRequestIsNotAFailure(t *testing.T) {
	inMemory(t, func(s *contract.Stage) {
		a, other := newCandidate(s, leader.WithBackoff(10*time.Second, 10*time.Second)).run(s.Ctx), newCandidate(s)
		first := a.leads()
		other.ask()
		<-first.ctx.Done() // its context is canceled
		s.Must(first.hold.Release(s.Ctx))
		first.end <- first.ctx.Err()
		began := time.Now()
		second := a.leads()
		if d := time.Since(began); d != 0 {
			s.Errorf("it paused for %v after its context had ended", d)
		}
		a.resign(second)
	})
}

func (c *candidate) ask() {
	c.Helper()
	m, err := c.Leader(c.Ctx)
	c.Must(err)
	c.Must(locks.On(c.conn).RequestRelease(c.Ctx, m))
}

// Kubernetes #62120: there is no way to ask a leader to step down.
func TestALeaderThatIsAskedResigns(t *testing.T) {
	inMemory(t, func(s *contract.Stage) {
		a, b, other := newCandidate(s, leader.WithBackoff(time.Hour, time.Hour)).run(s.Ctx), newCandidate(s), newCandidate(s)
		first := a.leads()
		next := b.run(s.Ctx)
		s.InLine(2)
		w := watch(s, s.Ctx, other.Election)
		w.sees(first.hold.Token(), true)
		other.ask()
		if v := w.sees(first.hold.Token(), true); !v.Leader.ReleaseRequested {
			s.Errorf("%+v: not asked", v)
		}
		test.Within(s, soon, "the end of the context", func() { <-first.ctx.Done() })
		if cause := context.Cause(first.ctx); !strings.Contains(cause.Error(), "asked") {
			s.Errorf("the context has ended because of %v", cause)
		}
		next.none() // the first function still runs, and its candidate leads
		if !first.hold.Held() {
			s.Error("lost by a request")
		}
		first.end <- first.ctx.Err() // the function was asked to return: no failure, no pause
		second := next.leads()
		s.InLine(2)
		a.none()
		a.stop()
		next.resign(second)
		w.sees(second.hold.Token(), true)
		other.conn.Close()
		s.Empty()
	})
}

// A candidate that is asked while it waits is notified when it leads.
func TestACandidateThatIsAskedLeadsForAMoment(t *testing.T) {
	inMemory(t, func(s *contract.Stage) {
		a, b := newCandidate(s), newCandidate(s)
		h := a.campaign()
		r := b.run(s.Ctx)
		s.InLine(2)
		q, err := a.Queue(s.Ctx)
		s.Must(err)
		s.Must(locks.On(a.conn).RequestRelease(s.Ctx, q[1]))
		s.Must(h.Release(s.Ctx))
		term := r.leads()
		test.Within(s, soon, "the end of the context", func() { <-term.ctx.Done() })
		term.end <- nil
		term = r.leads() // with a new node, in which there is no request
		s.Settle()
		if term.ctx.Err() != nil {
			s.Error("asked again")
		}
		r.resign(term)
		s.EmptyNow()
	})
}

// The request to release is stored in the leader's node, which Proclaim overwrites.
func TestProclaimTellsOfARequestThatItOverwrites(t *testing.T) {
	inMemory(t, func(s *contract.Stage) {
		c, other := newCandidate(s), newCandidate(s)
		asked := func(h *zklocks.Hold, want bool) {
			s.Helper()
			s.Settle()
			if open(h.ReleaseRequested()) == want {
				s.Errorf("asked: %v", !want)
			}
		}
		// The request is written before Proclaim, and nothing has called ReleaseRequested.
		h := c.campaign()
		other.ask()
		s.Must(c.Proclaim(s.Ctx, h, []byte("data")))
		asked(h, true)
		s.Must(h.Release(s.Ctx))

		// The request is written between Proclaim's read and its write.
		h = c.campaign()
		write := c.proxy.Next(proxy.SetOp, proxy.HoldRequest)
		proclaims := contract.Begin(s, s.Ctx, func(ctx context.Context) (any, error) {
			return nil, c.Proclaim(ctx, h, []byte("data"))
		})
		<-write.Fired()
		other.ask()
		write.Release()
		proclaims.Granted()
		asked(h, true)
		m, err := other.Leader(s.Ctx)
		s.Must(err)
		if string(m.Data) != "data" || m.ReleaseRequested {
			s.Errorf("%+v", m)
		}
		s.Must(h.Release(s.Ctx))

		// The leader must not proclaim the data that mean a request.
		h = c.campaign()
		if err := c.Proclaim(s.Ctx, h, []byte("__REVOKE__")); err == nil {
			s.Error("the word of a request was proclaimed")
		}
		asked(h, false)
		s.Must(h.Release(s.Ctx))
		s.EmptyNow()
	})
}

// Like Proclaim in etcd: the data change during the term, and only then.
func TestProclaim(t *testing.T) {
	inMemory(t, func(s *contract.Stage) {
		c := newCandidate(s, zklocks.WithData([]byte("at first")))
		data := func(want string) {
			s.Helper()
			m, err := c.Leader(s.Ctx)
			s.Must(err)
			if string(m.Data) != want {
				s.Errorf("data %q, want %q", m.Data, want)
			}
		}
		h := c.campaign()
		data("at first")
		lost := h.Lost()
		text := []byte("in office")
		s.Must(c.Proclaim(s.Ctx, h, text))
		data("in office")
		text[0] = 'I' // the caller may reuse its slice
		most := bytes.Repeat([]byte("x"), 512<<10)
		s.Must(c.Proclaim(s.Ctx, h, most))
		data(string(most))
		if err := c.Proclaim(s.Ctx, h, append(most, 'x')); err == nil {
			s.Error("more than 512 KiB")
		}
		data(string(most))
		s.Must(c.Proclaim(s.Ctx, h, nil))
		data("")
		s.Settle()
		if !h.Held() || !open(lost) {
			s.Error("lost by its own words")
		}

		s.Must(h.Release(s.Ctx))
		s.Is(c.Proclaim(s.Ctx, h, nil), zklocks.ErrReleased)
		h = c.campaign()
		data("at first")
		c.deleteNode(h)
		next := newCandidate(s).campaign()
		s.Is(c.Proclaim(s.Ctx, h, []byte("too late")), zklocks.ErrLost)
		s.Is(h.Release(s.Ctx), zklocks.ErrLost)

		for name, foreign := range map[string]*zklocks.Hold{"nil": nil, "zero": {}} {
			if err := c.Proclaim(s.Ctx, foreign, nil); err == nil {
				s.Errorf("%s: no error", name)
			} else {
				s.Is(err, zklocks.ErrLost)
			}
		}
		if err := c.Proclaim(s.Ctx, next, nil); err == nil {
			s.Error("the term of another value")
		}
		s.Must(next.Release(s.Ctx))
		s.EmptyNow()
	})
}

func open(c <-chan struct{}) bool {
	select {
	case <-c:
		return false
	default:
		return true
	}
}

func TestProclaimWithoutTheRightToWrite(t *testing.T) {
	inMemory(t, func(s *contract.Stage) {
		c := newCandidate(s, zklocks.WithACL(zk.WorldACL(zk.PermAll&^zk.PermWrite)))
		h := c.campaign()
		s.Is(c.Proclaim(s.Ctx, h, nil), zk.ErrNoAuth)
		if !h.Held() {
			s.Error("lost by a refusal")
		}
		s.Must(h.Release(s.Ctx))
		s.EmptyNow()
	})
}

// If the answer is lost, the error says that the data may have been replaced.
func TestProclaimWithoutAnAnswer(t *testing.T) {
	inMemory(t, func(s *contract.Stage) {
		c := newCandidate(s)
		h := c.campaign()
		lost := c.proxy.Next(proxy.SetOp, proxy.CutAfterCommit)
		s.Unsure(c.Proclaim(s.Ctx, h, []byte("a")), zk.ErrConnectionClosed)
		<-lost.Fired()
		s.Must(c.Proclaim(s.Ctx, h, []byte("b")))
		m, err := c.Leader(s.Ctx)
		s.Must(err)
		if string(m.Data) != "b" {
			s.Errorf("data %q", m.Data)
		}
		s.Must(h.Release(s.Ctx))
		s.EmptyNow()
	})
}

// Proclaim fires the watch of the candidate behind the leader only, and both continue to wait.
func TestProclaimWakesNoHerd(t *testing.T) {
	inMemory(t, func(s *contract.Stage) {
		a, b, c := newCandidate(s), newCandidate(s), newCandidate(s)
		h := a.campaign()
		second := contract.Begin(s, s.Ctx, b.Campaign)
		s.InLine(2)
		third := contract.Begin(s, s.Ctx, c.Campaign)
		s.InLine(3)
		s.Settle()
		count := func(c *candidate) int64 { return c.proxy.Seen(proxy.ListOp) }
		near, far := count(b), count(c)
		const times = 10
		for range times {
			s.Must(a.Proclaim(s.Ctx, h, []byte(time.Now().String())))
			s.Settle()
		}
		if n := count(b) - near; n > times {
			s.Errorf("%d listings of the next for %d times", n, times)
		}
		if n := count(c) - far; n != 0 {
			s.Errorf("%d listings of the last", n)
		}
		second.Waits()
		third.Waits()
		s.Must(h.Release(s.Ctx))
		h = second.Granted()
		third.Waits()
		s.Must(h.Release(s.Ctx))
		s.Must(third.Granted().Release(s.Ctx))
		s.EmptyNow()
	})
}

// Like Multi and Verify, Proclaim returns ErrLost after a loss, also with the term's context.
func TestProclaimWithTheContextOfALostTerm(t *testing.T) {
	inMemory(t, func(s *contract.Stage) {
		c := newCandidate(s)
		h := c.campaign()
		ctx := h.Context(s.Ctx)
		c.proxy.Refuse()
		s.Settle()
		s.Is(c.Proclaim(ctx, h, []byte("x")), zklocks.ErrLost)
		s.Is(h.Err(), zklocks.ErrLost)
		s.Must(c.proxy.Accept())
		_ = h.Release(s.Ctx)
	})
}
