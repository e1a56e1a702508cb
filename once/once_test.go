package once_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/locks"
	"github.com/zklocks/zklocks/internal/test/venue"
	"github.com/zklocks/zklocks/once"
	"github.com/zklocks/zklocks/rwlock"
	"github.com/zklocks/zklocks/zktest"
)

const (
	path   = "/jobs/report"
	record = path + "/last"
	t10    = 10 * time.Second // the session timeout
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// runs records who has worked, by process name.
type runs struct {
	mu     sync.Mutex
	by     []string
	at     []time.Time
	inside int
	errs   []error
}

// work returns a function that works for a while, or until its context is canceled.
func (r *runs) work(by string, lasts time.Duration) func(context.Context, *zklocks.Hold) error {
	return func(ctx context.Context, _ *zklocks.Hold) error {
		r.mu.Lock()
		r.by, r.at = append(r.by, by), append(r.at, time.Now())
		if r.inside++; r.inside > 1 {
			r.errs = append(r.errs, fmt.Errorf("%s works at the same time as another process", by))
		}
		r.mu.Unlock()
		defer func() {
			r.mu.Lock()
			r.inside--
			r.mu.Unlock()
		}()
		select {
		case <-time.After(lasts):
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// took returns who has worked since the last call, and fails the test if two worked at once.
func (r *runs) took(t *testing.T) []string {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, err := range r.errs {
		t.Error(err)
	}
	by := r.by
	r.by, r.at, r.errs = nil, nil, nil
	return by
}

func (r *runs) want(t *testing.T, by ...string) {
	t.Helper()
	if got := r.took(t); !slices.Equal(got, by) {
		t.Errorf("the work was done by %q, want %q", got, by)
	}
}

// nothing is work that returns at once.
func nothing(context.Context, *zklocks.Hold) error { return nil }

// cluster has a server and the jobs of a few processes.
type cluster struct {
	*testing.T
	server *zktest.Server
	runs   runs
	all    sync.WaitGroup
}

func play(t *testing.T, f func(*testing.T, *cluster), opts ...zktest.Option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f(t, &cluster{T: t, server: zktest.NewServer(t, opts...)})
	})
}

// A process calls the job.
type process struct {
	*zktest.Host
	*zklocks.Conn
	job *once.Job
}

func (c *cluster) process(name string, opts ...once.Option) process {
	c.Helper()
	host := c.server.Host(name)
	conn := host.Connect(c.T, t10)
	return process{host, conn, once.New(conn, path, opts...)}
}

// every calls RunEvery on a goroutine, and sends the result.
func (c *cluster) every(p process, period, lasts time.Duration) chan error {
	result := make(chan error, 1)
	go func() { result <- p.job.RunEvery(c.Context(), period, c.runs.work(p.Name(), lasts)) }()
	return result
}

func (c *cluster) wantDone(err error) {
	c.Helper()
	if !errors.Is(err, once.ErrDone) {
		c.Errorf("error %v, want ErrDone", err)
	}
}

// onTheMinute waits for the next multiple of a minute, so that times in a test are easy to read.
func onTheMinute() { time.Sleep(time.Until(time.Now().Truncate(time.Minute).Add(time.Minute))) }

// Twelve processes call the job each minute. Their clocks differ by up to twenty seconds, and the
// work takes a tenth of a second: with a lock alone each of them would run it.
func TestTwelveProcessesWhoseClocksDiffer(t *testing.T) {
	play(t, func(t *testing.T, c *cluster) {
		const period, periods = time.Minute, 40
		var mu sync.Mutex
		refused := 0
		onTheMinute()
		for i := range 12 {
			p := c.process(fmt.Sprint("p", i))
			c.all.Go(func() {
				for n := range periods {
					// The order changes: in period n the process i with i ≡ n (mod 12) is ahead.
					late := time.Duration((5*n+7*i)%12) * 1800 * time.Millisecond
					time.Sleep(time.Until(time.Now().Truncate(period).Add(period + late)))
					switch err := p.job.RunEvery(t.Context(), period, c.runs.work(p.Name(), 100*time.Millisecond)); {
					case errors.Is(err, once.ErrDone):
						mu.Lock()
						refused++
						mu.Unlock()
					case err != nil:
						t.Error(err)
					}
				}
			})
		}
		c.all.Wait()
		byPeriod := map[time.Time]int{}
		for _, at := range c.runs.at {
			byPeriod[at.Truncate(period)]++
		}
		for at, n := range byPeriod {
			if n != 1 {
				t.Errorf("%d runs in the minute of %v", n, at)
			}
		}
		if ran := c.runs.took(t); len(ran) != periods || len(byPeriod) != periods || refused != 11*periods {
			t.Errorf("%d runs in %d of %d periods, %d calls refused", len(ran), len(byPeriod), periods, refused)
		}
	})
}

// A process is killed while it works. The next waiter does the work, and it counts for the period
// in which that waiter called: the third process does not repeat it, and the next period is not
// skipped.
func TestTheRunnerIsKilled(t *testing.T) {
	play(t, func(t *testing.T, c *cluster) {
		a, b, d := c.process("a"), c.process("b"), c.process("d")
		onTheMinute()
		began := time.Now()
		first := c.every(a, time.Minute, time.Hour)
		time.Sleep(time.Second)
		second := c.every(b, time.Minute, 5*time.Second)
		time.Sleep(time.Second)
		third := c.every(d, time.Minute, time.Second)
		time.Sleep(25 * time.Second)
		a.Partition()
		must(t, <-second)
		if err := <-first; !errors.Is(err, zklocks.ErrLost) {
			t.Errorf("the process that was cut off: %v", err)
		}
		c.wantDone(<-third)
		last, err := d.job.Last(t.Context())
		must(t, err)
		if called := last.Called.Sub(began); called.Round(100*time.Millisecond) != time.Second {
			t.Errorf("called %v after the beginning, want a second", called)
		}
		if waited := last.Start.Sub(last.Called); waited < 31*time.Second || waited > 45*time.Second { // so the work begins after half the period
			t.Errorf("waited %v for the session of the other to expire", waited)
		}
		if worked := last.End.Sub(last.Start); worked.Round(time.Second) != 5*time.Second {
			t.Errorf("worked for %v", worked)
		}
		onTheMinute()
		must(t, <-c.every(d, time.Minute, time.Second))
		c.runs.want(t, "a", "b", "d")
	})
}

// Work that takes longer than the period never runs twice at the same time. The calls of the next
// period wait for its end, and one of them runs.
func TestWorkOutlastsThePeriod(t *testing.T) {
	play(t, func(t *testing.T, c *cluster) {
		a, b := c.process("a"), c.process("b")
		onTheMinute()
		began := time.Now()
		first := c.every(a, time.Minute, 90*time.Second)
		time.Sleep(time.Second)
		same := c.every(b, time.Minute, time.Second)
		time.Sleep(time.Minute)
		next := []chan error{c.every(b, time.Minute, 10*time.Second)}
		time.Sleep(time.Second)
		next = append(next, c.every(a, time.Minute, time.Second))
		must(t, <-first)
		c.wantDone(<-same)
		must(t, <-next[0])
		c.wantDone(<-next[1])
		last, err := a.job.Last(t.Context())
		must(t, err)
		if called := last.Called.Sub(began).Round(100 * time.Millisecond); called != 61*time.Second {
			t.Errorf("called %v after the beginning, want 61 s", called)
		}
		c.runs.want(t, "a", "b")
	})
}

// The session of a process expires while it waits for a run of more than half the period. It queues
// again, late, and its call still belongs to that run.
func TestAWaiterThatQueuesAgain(t *testing.T) {
	play(t, func(t *testing.T, c *cluster) {
		a, b := c.process("a"), c.process("b")
		onTheMinute()
		first := c.every(a, time.Minute, 50*time.Second)
		time.Sleep(time.Second)
		second := c.every(b, time.Minute, time.Second)
		time.Sleep(40 * time.Second)
		c.server.Expire(b.Conn)
		must(t, <-first)
		c.wantDone(<-second)
		c.runs.want(t, "a")
	})
}

// A process loses its connection before it calls, and reconnects more than half a period later.
func TestACallDuringAnOutage(t *testing.T) {
	play(t, func(t *testing.T, c *cluster) {
		a, b := c.process("a"), c.process("b")
		onTheMinute()
		b.Refuse()
		late := c.every(b, time.Minute, time.Second)
		must(t, <-c.every(a, time.Minute, time.Second))
		time.Sleep(40 * time.Second)
		b.Accept()
		c.wantDone(<-late)
		c.runs.want(t, "a")
	})
}

// The reply is lost to the write that reads the ensemble's clock, or to the write of the record.
func TestLostReplies(t *testing.T) {
	writes := func(r zktest.Request) bool { return slices.Contains(r.Paths, record) && !r.Is(zktest.Read) }
	for name, nth := range map[string]int{"of the clock": 1, "of the record": 2} {
		for _, action := range []zktest.Action{zktest.CutAfterCommit, zktest.LoseReply, zktest.CutOnSend, zktest.CutBefore, zktest.LoseRequest} {
			t.Run(name+", "+action.String(), func(t *testing.T) {
				play(t, func(t *testing.T, c *cluster) {
					a, b := c.process("a"), c.process("b")
					fault := a.Where(writes, nth, action)
					must(t, a.job.RunSlot(t.Context(), "1", c.runs.work("a", time.Second)))
					select {
					case <-fault.Fired():
					default:
						t.Error("the fault has not struck")
					}
					c.wantDone(b.job.RunSlot(t.Context(), "1", c.runs.work("b", time.Second)))
					c.runs.want(t, "a")
				})
			})
		}
	}
}

// A lagging server shows the record of the previous period. A call that reads it is still refused.
func TestAServerThatLagsBehind(t *testing.T) {
	play(t, func(t *testing.T, c *cluster) {
		var behind *zktest.Member
		for _, m := range c.server.Members() {
			if m != c.server.Leader() {
				behind = m
			}
		}
		a, b := c.process("a"), c.process("b")
		must(t, a.job.RunSlot(t.Context(), "1", c.runs.work("a", time.Second)))
		for _, m := range c.server.Members() {
			switch m {
			case behind:
				a.To(m).Partition()
			default:
				b.To(m).Partition()
			}
		}
		time.Sleep(time.Minute) // each connection has moved to its server
		behind.Lag(time.Second)
		must(t, a.job.RunSlot(t.Context(), "2", c.runs.work("a", time.Second)))
		if last, err := b.job.Last(t.Context()); err != nil || last.Slot != "1" {
			t.Fatalf("%+v, %v: the server does not lag behind", last, err)
		}
		c.wantDone(b.job.RunSlot(t.Context(), "2", c.runs.work("b", time.Second)))
		c.runs.want(t, "a", "a")
	}, zktest.WithMembers(3))
}

func TestALostLockIsNotRecorded(t *testing.T) {
	for name, lose := range map[string]func(*cluster, process){
		"expired":     func(c *cluster, a process) { c.server.Expire(a.Conn) },
		"partitioned": func(c *cluster, a process) { a.Partition() },
		"closed":      func(c *cluster, a process) { must(c.T, a.Close()) },
	} {
		t.Run(name, func(t *testing.T) {
			play(t, func(t *testing.T, c *cluster) {
				a, b := c.process("a"), c.process("b")
				err := a.job.RunSlot(t.Context(), "1", func(_ context.Context, hold *zklocks.Hold) error {
					lose(c, a)
					<-hold.Lost()
					return nil
				})
				if !errors.Is(err, zklocks.ErrLost) {
					t.Errorf("error %v, want ErrLost", err)
				}
				a.Heal()
				if last, err := b.job.Last(t.Context()); !errors.Is(err, once.ErrNever) {
					t.Errorf("%+v, %v: want ErrNever", last, err)
				}
				must(t, b.job.RunSlot(t.Context(), "1", c.runs.work("b", time.Second)))
				c.runs.want(t, "b")
			})
		})
	}
}

// The lock is lost while the write of the record has no answer. The error says that the record may
// have been written. The next caller runs exactly if it was not.
func TestTheLockIsLostDuringTheRecord(t *testing.T) {
	play(t, func(t *testing.T, c *cluster) {
		a, b := c.process("a"), c.process("b")
		fault := a.Where(func(r zktest.Request) bool { return slices.Contains(r.Paths, record) && r.Is(zktest.Set) }, 1, zktest.HoldReply)
		result := make(chan error, 1)
		go func() { result <- a.job.RunSlot(t.Context(), "1", nothing) }()
		<-fault.Fired()
		a.Partition()
		if err := <-result; !errors.Is(err, zklocks.ErrLost) || !strings.Contains(err.Error(), "the record of it is not confirmed") {
			t.Errorf("error %v", err)
		}
		fault.Cancel()
		c.wantDone(b.job.RunSlot(t.Context(), "1", c.runs.work("b", time.Second)))
		c.runs.want(t)
	})
}

func TestFailingWorkLeavesTheSlotOpen(t *testing.T) {
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		work func(context.Context, *zklocks.Hold) error
		want error // nil: a panic
	}{
		"an error":              {func(context.Context, *zklocks.Hold) error { return broken }, broken},
		"a panic":               {func(context.Context, *zklocks.Hold) error { panic(broken) }, nil},
		"it releases":           {func(ctx context.Context, h *zklocks.Hold) error { return h.Release(ctx) }, zklocks.ErrReleased},
		"it returns ctx's":      {func(ctx context.Context, h *zklocks.Hold) error { return context.Canceled }, context.Canceled},
		"another job's ErrDone": {func(ctx context.Context, h *zklocks.Hold) error { return once.ErrDone }, once.ErrDone},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, func(t *testing.T, cl *cluster) {
				a, b := cl.process("a"), cl.process("b")
				must(t, a.job.RunSlot(t.Context(), "1", nothing))
				func() {
					defer func() {
						if r := recover(); (r != nil) != (c.want == nil) {
							t.Errorf("panic %v", r)
						}
					}()
					if err := a.job.RunSlot(t.Context(), "2", c.work); !errors.Is(err, c.want) {
						t.Errorf("error %v, want %v", err, c.want)
					}
				}()
				if last, err := b.job.Last(t.Context()); err != nil || last.Slot != "1" {
					t.Errorf("%+v, %v: want slot 1", last, err)
				}
				must(t, b.job.RunSlot(t.Context(), "2", nothing))
			})
		})
	}
}

// ctx is canceled during the last step of the work: the run is recorded.
func TestTheContextIsCanceledDuringTheWork(t *testing.T) {
	play(t, func(t *testing.T, c *cluster) {
		a, b := c.process("a"), c.process("b")
		ctx, cancel := context.WithCancel(t.Context())
		must(t, a.job.RunSlot(ctx, "1", func(context.Context, *zklocks.Hold) error { cancel(); return nil }))
		test.AssertEmpty(t, b.Client(), path+"/lock")
		c.wantDone(b.job.RunSlot(t.Context(), "1", nothing))

		time.Sleep(time.Minute)
		ctx, cancel = context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		first := c.every(a, time.Minute, time.Hour)
		synctest.Wait()
		time.Sleep(time.Second)
		began := time.Now()
		if err := b.job.RunEvery(ctx, time.Minute, nothing); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > time.Minute {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		must(t, a.Close())
		<-first
	})
}

// Slots grow as strings. A slot that is done costs one read.
func TestSlots(t *testing.T) {
	play(t, func(t *testing.T, c *cluster) {
		a := c.process("a")
		for _, s := range []struct {
			slot string
			done bool
		}{{"2026-11-26", false}, {"2026-11-26", true}, {"2026-11-25", true}, {"2026-11-27", false}, {"9", false}, {"10", true}, {"2026-11-28", true}} {
			err := a.job.RunSlot(t.Context(), s.slot, nothing)
			if errors.Is(err, once.ErrDone) != s.done || err != nil && !s.done {
				t.Errorf("slot %s: %v", s.slot, err)
			}
		}
		// The smaller slot waits for the larger slot.
		working := make(chan bool)
		c.all.Go(func() {
			must(t, a.job.RunSlot(t.Context(), "9b", func(context.Context, *zklocks.Hold) error {
				close(working)
				time.Sleep(time.Second)
				return nil
			}))
		})
		<-working
		c.wantDone(a.job.RunSlot(t.Context(), "9a", nothing))
		c.all.Wait()

		before := a.Seen(zktest.Any)
		err := a.job.RunSlot(t.Context(), "10", nothing)
		c.wantDone(err)
		if sent := a.Seen(zktest.Any) - before; sent != 1 {
			t.Errorf("%d requests, want one", sent)
		}
		host, _ := os.Hostname()
		if !strings.Contains(err.Error(), fmt.Sprintf(`once: run /jobs/report: done already: slot "9b", by process %d on %q`, os.Getpid(), host)) {
			t.Errorf("error %q", err)
		}
	})
}

// A program calls RunSlot and RunEvery for one job, in turn. No slot and no period runs twice, and
// the run of a slot counts as the run of its period.
func TestSlotsAndPeriodsOfOneJob(t *testing.T) {
	play(t, func(t *testing.T, c *cluster) {
		a := c.process("a")
		must(t, a.job.RunSlot(t.Context(), "5", nothing))
		c.wantDone(a.job.RunEvery(t.Context(), time.Minute, nothing))
		time.Sleep(time.Minute)
		must(t, a.job.RunEvery(t.Context(), time.Minute, nothing))
		c.wantDone(a.job.RunSlot(t.Context(), "5", nothing))
		must(t, a.job.RunSlot(t.Context(), "6", nothing))
	})
}

// A record that was written while the ensemble's clock was wrong does not stop the job. A record
// that is ahead by a little, as after a change of the ensemble's leader, is a run of this period.
func TestARecordFromTheFuture(t *testing.T) {
	for ahead, done := range map[time.Duration]bool{20 * time.Second: true, 10 * time.Hour: false} {
		play(t, func(t *testing.T, c *cluster) {
			a := c.process("a")
			must(t, a.job.RunEvery(t.Context(), time.Minute, nothing))
			at := time.Now().Add(ahead).UTC().Format(time.RFC3339)
			_, err := a.Client().Set(record, fmt.Appendf(nil, `{"called":%q,"start":%q,"end":%q,"pid":1}`, at, at, at), -1)
			must(t, err)
			if err := a.job.RunEvery(t.Context(), time.Minute, nothing); errors.Is(err, once.ErrDone) != done {
				t.Errorf("%v ahead: %v", ahead, err)
			}
		})
	}
}

// Two jobs of one connection run concurrently; two values of one job exclude each other.
func TestTwoJobsOfOneConn(t *testing.T) {
	play(t, func(t *testing.T, c *cluster) {
		conn := c.process("a").Conn
		one, other, same := once.New(conn, "/jobs/one"), once.New(conn, "/jobs/other"), once.New(conn, "/jobs/one")
		began := time.Now()
		for _, job := range []*once.Job{one, other} {
			c.all.Go(func() {
				must(t, job.RunSlot(t.Context(), "1", func(context.Context, *zklocks.Hold) error { time.Sleep(time.Minute); return nil }))
			})
		}
		time.Sleep(time.Second)
		c.wantDone(same.RunSlot(t.Context(), "1", nothing))
		c.all.Wait()
		if took := time.Since(began).Round(time.Second); took != time.Minute {
			t.Errorf("the two took %v", took)
		}
		// A job may run another job.
		must(t, one.RunSlot(t.Context(), "2", func(ctx context.Context, _ *zklocks.Hold) error { return other.RunSlot(ctx, "2", nothing) }))
	})
}

// The record outlives the lock's nodes, also where the lock has created path as a container.
func TestTheRecordRemains(t *testing.T) {
	play(t, func(t *testing.T, c *cluster) {
		a := c.process("a")
		hold, err := rwlock.New(a.Conn, path+"/lock").Lock(t.Context()) // creates path
		must(t, err)
		must(t, hold.Release(t.Context()))
		must(t, a.job.RunSlot(t.Context(), "1", nothing))
		time.Sleep(time.Hour)
		children, _, err := a.Client().Children(path)
		if must(t, err); !slices.Equal(children, []string{"last"}) {
			t.Errorf("children %q, want the record alone", children)
		}
		c.wantDone(a.job.RunSlot(t.Context(), "1", nothing))
	})
}

// Options and the connection's defaults apply to the record, too.
func TestOptions(t *testing.T) {
	play(t, func(t *testing.T, c *cluster) {
		conn := c.server.Host("a").Connect(t, t10, zklocks.WithChroot("/tenant"), zklocks.WithDigestAuth("u", "p"))
		acl := zk.AuthACL(zk.PermAll)
		job := once.New(conn, path, zklocks.WithACL(acl), zklocks.WithData([]byte("mine")))
		must(t, job.RunSlot(t.Context(), "1", func(context.Context, *zklocks.Hold) error {
			children, _, err := conn.Client().Children("/tenant" + path + "/lock")
			if must(t, err); len(children) != 1 {
				t.Fatalf("children %q", children)
			}
			data, _, err := conn.Client().Get("/tenant" + path + "/lock/" + children[0])
			if must(t, err); string(data) != "mine" {
				t.Errorf("data %q", data)
			}
			return nil
		}))
		got, _, err := conn.Client().GetACL("/tenant" + record)
		if must(t, err); len(got) != 1 || got[0].Scheme != "digest" {
			t.Errorf("ACL %v", got)
		}
		stranger := once.New(c.server.Host("b").Connect(t, t10, zklocks.WithChroot("/tenant")), path)
		for name, err := range map[string]error{
			"last": func() error { _, err := stranger.Last(t.Context()); return err }(),
			"run":  stranger.RunSlot(t.Context(), "2", nothing),
		} {
			if !errors.Is(err, zk.ErrNoAuth) {
				t.Errorf("%s: %v, want zk.ErrNoAuth", name, err)
			}
		}
	})
}

// Bad input is an error at once, and creates no node.
func TestBadInput(t *testing.T) {
	play(t, func(t *testing.T, c *cluster) {
		a := c.process("a")
		for text, call := range map[string]func() error{
			"the period is 0s: it must be positive":   func() error { return a.job.RunEvery(t.Context(), 0, nothing) },
			"the period is -1ns: it must be positive": func() error { return a.job.RunEvery(t.Context(), -1, nothing) },
			"the slot is empty":                       func() error { return a.job.RunSlot(t.Context(), "", nothing) },
			"the slot has 1025 bytes":                 func() error { return a.job.RunSlot(t.Context(), strings.Repeat("1", 1025), nothing) },
			`the slot "\xff" is not valid UTF-8`:      func() error { return a.job.RunSlot(t.Context(), "\xff", nothing) },
			"path is empty":                           func() error { return once.New(a.Conn, "").RunSlot(t.Context(), "1", nothing) },
			"path is the root":                        func() error { return once.New(a.Conn, "/").RunEvery(t.Context(), time.Minute, nothing) },
			"is relative":                             func() error { _, err := once.New(a.Conn, "jobs").Last(t.Context()); return err },
			"the connection is nil":                   func() error { return once.New(nil, "/nil").RunSlot(t.Context(), "1", nothing) },
			"WithACL needs at least one entry": func() error {
				return once.New(a.Conn, path, zklocks.WithACL(nil)).RunEvery(t.Context(), time.Minute, nothing)
			},
		} {
			if err := call(); err == nil || !strings.HasPrefix(err.Error(), "once: ") || !strings.Contains(err.Error(), text) {
				t.Errorf("%v, want %q", err, text)
			}
		}
		for name, call := range map[string]func(){
			"once: the function is nil": func() { _ = a.job.RunSlot(t.Context(), "1", nil) },
		} {
			func() {
				defer func() {
					if r := recover(); fmt.Sprint(r) != name {
						t.Errorf("panic %v, want %s", r, name)
					}
				}()
				call()
			}()
		}
		children, _, err := a.Client().Children("/")
		if must(t, err); !slices.Equal(children, []string{"zookeeper"}) {
			t.Errorf("left: %q", children)
		}
	})
}

// If another program has written other data to the record, the error says so, and the data remain.
func TestForeignData(t *testing.T) {
	play(t, func(t *testing.T, c *cluster) {
		a := c.process("a")
		must(t, a.job.RunSlot(t.Context(), "1", nothing))
		_, err := a.Client().Set(record, []byte("theirs"), -1)
		must(t, err)
		_, last := a.job.Last(t.Context())
		for _, err := range []error{last, a.job.RunSlot(t.Context(), "2", nothing)} {
			if err == nil || !strings.Contains(err.Error(), "not a record") {
				t.Errorf("error %v", err)
			}
		}
		// An operator deletes the record: the slot is run again.
		must(t, a.Client().Delete(record, -1))
		if _, err := a.job.Last(t.Context()); !errors.Is(err, once.ErrNever) {
			t.Errorf("error %v, want ErrNever", err)
		}
		must(t, a.job.RunSlot(t.Context(), "1", nothing))
	})
}

// A run, a done slot, a failure, a wait and ErrNever, on the in-memory and on a real server.
func TestOnRealServers(t *testing.T) {
	venue.Both(t, func(t *testing.T, v venue.Venue) {
		v.Latency(time.Millisecond)
		path := test.Path(t)
		job := func() *once.Job { return once.New(locks.On(v.Connect(t, t10)), path) }
		a, b := job(), job()
		if _, err := a.Last(t.Context()); !errors.Is(err, once.ErrNever) {
			t.Errorf("error %v, want ErrNever", err)
		}
		broken := errors.New("broken")
		working, waits := make(chan bool), make(chan error)
		go func() {
			waits <- a.RunEvery(t.Context(), time.Hour, func(context.Context, *zklocks.Hold) error { close(working); <-waits; return broken })
		}()
		<-working
		began := time.Now()
		ran := make(chan error, 1)
		go func() { ran <- b.RunEvery(t.Context(), time.Hour, nothing) }()
		waits <- nil
		if err := <-waits; !errors.Is(err, broken) {
			t.Errorf("error %v, want that of the work", err)
		}
		must(t, <-ran)
		if err := a.RunEvery(t.Context(), time.Hour, nothing); !errors.Is(err, once.ErrDone) {
			t.Errorf("error %v, want ErrDone", err)
		}
		must(t, a.RunSlot(t.Context(), "1", nothing))
		if err := b.RunSlot(t.Context(), "1", nothing); !errors.Is(err, once.ErrDone) {
			t.Errorf("error %v, want ErrDone", err)
		}
		last, err := a.Last(t.Context())
		must(t, err)
		// The test and the server read the same clock.
		if last.Slot != "1" || last.Pid != os.Getpid() || last.Called.Before(began.Add(-time.Second)) || last.Start.Before(last.Called) ||
			last.End.Before(last.Start) || time.Since(last.End) < -time.Second {
			t.Errorf("%+v, begun %v", last, began)
		}
		witness := v.Connect(t, t10)
		test.AssertEmpty(t, witness, path+"/lock")
		must(t, witness.Delete(path+"/last", -1))
	})
}
