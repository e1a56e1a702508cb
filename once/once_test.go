package once_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
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

// cluster has a server, the jobs of a few processes, and a record of who has worked when.
type cluster struct {
	*testing.T
	server *zktest.Server
	all    sync.WaitGroup

	mu     sync.Mutex
	by     []string // names of processes
	at     []time.Time
	inside int
}

func play(t *testing.T, f func(*testing.T, *cluster), opts ...zktest.Option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, &cluster{T: t, server: zktest.NewServer(t, opts...)}) })
}

// work returns a function that works for a while, or until its context is canceled.
func (c *cluster) work(by string, lasts time.Duration) func(context.Context, *zklocks.Hold) error {
	return func(ctx context.Context, _ *zklocks.Hold) error {
		c.mu.Lock()
		c.by, c.at = append(c.by, by), append(c.at, time.Now())
		if c.inside++; c.inside > 1 {
			c.Errorf("%s works at the same time as another process", by)
		}
		c.mu.Unlock()
		defer func() {
			c.mu.Lock()
			c.inside--
			c.mu.Unlock()
		}()
		select {
		case <-time.After(lasts):
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// worked asserts who has worked.
func (c *cluster) worked(by ...string) {
	c.Helper()
	if !slices.Equal(c.by, by) {
		c.Errorf("the work was done by %q, want %q", c.by, by)
	}
}

// nothing is work that returns at once.
func nothing(context.Context, *zklocks.Hold) error { return nil }

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
	go func() { result <- p.job.RunEvery(c.Context(), period, c.work(p.Name(), lasts)) }()
	return result
}

// slot calls RunSlot with work that takes a second.
func (c *cluster) slot(p process, slot string) error {
	return p.job.RunSlot(c.Context(), slot, c.work(p.Name(), time.Second))
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
		var refused atomic.Int64
		onTheMinute()
		for i := range 12 {
			p := c.process(fmt.Sprint("p", i))
			c.all.Go(func() {
				for n := range periods {
					// The order changes: in period n the process i with i ≡ n (mod 12) is ahead.
					late := time.Duration((5*n+7*i)%12) * 1800 * time.Millisecond
					time.Sleep(time.Until(time.Now().Truncate(period).Add(period + late)))
					switch err := p.job.RunEvery(t.Context(), period, c.work(p.Name(), 100*time.Millisecond)); {
					case errors.Is(err, once.ErrDone):
						refused.Add(1)
					case err != nil:
						t.Error(err)
					}
				}
			})
		}
		c.all.Wait()
		byPeriod := map[time.Time]bool{}
		for _, at := range c.at {
			byPeriod[at.Truncate(period)] = true
		}
		if len(c.at) != periods || len(byPeriod) != periods || refused.Load() != 11*periods {
			t.Errorf("%d runs in %d of %d periods, %d calls refused", len(c.at), len(byPeriod), periods, refused.Load())
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
		c.worked("a", "b", "d")
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
		c.worked("a", "b")
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
		c.worked("a")
	})
}

// The reply is lost to the write that reads the ensemble's clock, or to the write of the record.
func TestLostReplies(t *testing.T) {
	writes := func(r zktest.Request) bool { return slices.Contains(r.Paths, record) && !r.Is(zktest.Read) }
	for name, nth := range map[string]int{"of the clock": 1, "of the record": 2} {
		for _, action := range []zktest.Action{zktest.CutAfterCommit, zktest.LoseReply, zktest.CutOnSend, zktest.CutBefore, zktest.LoseRequest} {
			for kind, runs := range map[string]func(c *cluster, p process, n int) error{
				"a slot":   func(c *cluster, p process, n int) error { return c.slot(p, strconv.Itoa(n)) },
				"a period": func(c *cluster, p process, n int) error { return <-c.every(p, time.Minute, time.Second) },
			} {
				t.Run(name+", "+action.String()+", "+kind, func(t *testing.T) {
					play(t, func(t *testing.T, c *cluster) {
						b := c.process("b")
						for n, name := range []string{"a1", "a2", "a3"} { // the first writes when there is no record
							a := c.process(name)
							fault := a.Where(writes, nth, action)
							called := time.Now()
							must(t, runs(c, a, n))
							select {
							case <-fault.Fired():
							default:
								t.Error("the fault has not struck")
							}
							c.wantDone(runs(c, b, n))
							if last, err := b.job.Last(t.Context()); err != nil || last.Start.Before(called.Truncate(time.Millisecond)) {
								t.Errorf("the last run is %+v, %v, but it was called at %v", last, err, called)
							}
							time.Sleep(time.Minute - time.Since(called))
						}
						c.worked("a1", "a2", "a3")
					})
				})
			}
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
		must(t, c.slot(a, "1"))
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
		must(t, c.slot(a, "2"))
		if last, err := b.job.Last(t.Context()); err != nil || last.Slot != "1" {
			t.Fatalf("%+v, %v: the server does not lag behind", last, err)
		}
		c.wantDone(c.slot(b, "2"))
		c.worked("a", "a")
	}, zktest.WithMembers(3))
}

func TestWorkThatFailsOrLosesItsLockIsNotRecorded(t *testing.T) {
	broken := errors.New("broken")
	for name, tc := range map[string]struct {
		work func(context.Context, *zklocks.Hold) error
		lose func(*cluster, process) // before the work returns nil
		want error                   // nil: a panic
	}{
		"an error":              {work: func(context.Context, *zklocks.Hold) error { return broken }, want: broken},
		"a panic":               {work: func(context.Context, *zklocks.Hold) error { panic(broken) }},
		"it releases":           {work: func(ctx context.Context, h *zklocks.Hold) error { return h.Release(ctx) }, want: zklocks.ErrReleased},
		"it returns ctx's":      {work: func(context.Context, *zklocks.Hold) error { return context.Canceled }, want: context.Canceled},
		"another job's ErrDone": {work: func(context.Context, *zklocks.Hold) error { return once.ErrDone }, want: once.ErrDone},
		"expired":               {lose: func(c *cluster, a process) { c.server.Expire(a.Conn) }, want: zklocks.ErrLost},
		"partitioned":           {lose: func(c *cluster, a process) { a.Partition() }, want: zklocks.ErrLost},
		"closed":                {lose: func(c *cluster, a process) { must(c.T, a.Close()) }, want: zklocks.ErrLost},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, func(t *testing.T, c *cluster) {
				a, b := c.process("a"), c.process("b")
				must(t, c.slot(a, "1"))
				func() {
					defer func() {
						if r := recover(); (r != nil) != (tc.want == nil) {
							t.Errorf("panic %v", r)
						}
					}()
					err := a.job.RunSlot(t.Context(), "2", func(ctx context.Context, hold *zklocks.Hold) error {
						if tc.work != nil {
							return tc.work(ctx, hold)
						}
						tc.lose(c, a)
						<-hold.Lost()
						return nil
					})
					if !errors.Is(err, tc.want) {
						t.Errorf("error %v, want %v", err, tc.want)
					}
				}()
				a.Heal()
				if last, err := b.job.Last(t.Context()); err != nil || last.Slot != "1" {
					t.Errorf("%+v, %v: want slot 1", last, err)
				}
				must(t, c.slot(b, "2"))
				c.worked("a", "b")
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
		c.wantDone(c.slot(b, "1"))
		c.worked()
	})
}

// ctx is canceled during the last step of the work: the run is recorded.
func TestTheContextIsCanceledDuringTheWork(t *testing.T) {
	play(t, func(t *testing.T, c *cluster) {
		a, b := c.process("a"), c.process("b")
		ctx, cancel := context.WithCancel(t.Context())
		must(t, a.job.RunSlot(ctx, "1", func(context.Context, *zklocks.Hold) error { cancel(); return nil }))
		test.AssertEmpty(t, b.Client(), path+"/lock")
		c.wantDone(c.slot(b, "1"))
	})
}

// Slots grow as strings. A slot that is done, or that a larger slot has passed, costs one read.
func TestSlots(t *testing.T) {
	play(t, func(t *testing.T, c *cluster) {
		a := c.process("a")
		for _, s := range []struct {
			slot string
			want error
		}{
			{"2026-11-24", nil}, {"2026-11-26", nil}, {"2026-11-26", once.ErrDone}, {"2026-11-24", once.ErrDone},
			{"2026-11-25", once.ErrPassed}, {"2026-11-23", once.ErrPassed}, {"2026-11-27", nil},
			{"2026-11-25", once.ErrPassed}, {"9", nil}, {"10", once.ErrPassed}, {"2026-11-26", once.ErrDone},
		} {
			err := a.job.RunSlot(t.Context(), s.slot, nothing)
			for _, sentinel := range []error{once.ErrDone, once.ErrPassed} {
				if errors.Is(err, sentinel) != (s.want == sentinel) || err != nil && s.want == nil {
					t.Errorf("slot %s: %v, want %v", s.slot, err, s.want)
				}
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
		if err := a.job.RunSlot(t.Context(), "9a", nothing); !errors.Is(err, once.ErrPassed) {
			t.Errorf("slot 9a: %v, want ErrPassed", err)
		}
		c.all.Wait()

		host, _ := os.Hostname()
		by := fmt.Sprintf("by process %d on %q, from ", os.Getpid(), host)
		for slot, text := range map[string]string{
			"9b": `done already: slot "9b", ` + by,
			"9":  `done already: slot "9", before slot "9b", ` + by,
			"10": `slot passed: the record does not have slot "10", and slots must grow: the last is slot "9b", ` + by,
		} {
			before := a.Seen(zktest.Any)
			err := a.job.RunSlot(t.Context(), slot, nothing)
			if sent := a.Seen(zktest.Any) - before; sent != 1 {
				t.Errorf("slot %s: %d requests, want one", slot, sent)
			}
			if !strings.HasPrefix(fmt.Sprint(err), "once: run /jobs/report: "+text) {
				t.Errorf("slot %s: error %q", slot, err)
			}
		}
	})
}

// The record has the last slots, so that it does not grow forever.
func TestTheRecordIsLimited(t *testing.T) {
	play(t, func(t *testing.T, c *cluster) {
		a := c.process("a")
		for i := range 40 {
			must(t, a.job.RunSlot(t.Context(), fmt.Sprintf("%02d", i), nothing))
		}
		must(t, a.job.RunEvery(t.Context(), time.Nanosecond, nothing)) // keeps the slots
		for slot, want := range map[string]error{"07": once.ErrDone, "06": once.ErrPassed} {
			if err := a.job.RunSlot(t.Context(), slot, nothing); !errors.Is(err, want) {
				t.Errorf("slot %s: %v, want %v", slot, err, want)
			}
		}
	})
}

// Two processes catch up at the same time. The work of one day fails twice: each process stops at
// that day, so that the day is not passed, and the next calls begin with it.
func TestCatchUpStopsAtAFailure(t *testing.T) {
	play(t, func(t *testing.T, c *cluster) {
		days := []*once.Job{c.process("a").job, c.process("b").job}
		var sent []string
		failures := 0
		broken := errors.New("broken")
		night := func(day int, want error) {
			for _, job := range days {
				c.all.Go(func() {
					err := catchUp(t.Context(), job, time.Date(2026, 11, day, 0, 0, 0, 0, time.UTC), func(_ context.Context, day string) error {
						time.Sleep(time.Second)
						if day == "2026-11-25" && failures < 2 {
							failures++
							return broken
						}
						sent = append(sent, day)
						return nil
					})
					if !errors.Is(err, want) {
						t.Errorf("day %d: %v, want %v", day, err, want)
					}
				})
			}
			c.all.Wait()
		}
		night(24, nil)
		night(26, broken)
		night(27, nil)
		if want := []string{"2026-11-24", "2026-11-25", "2026-11-26", "2026-11-27"}; !slices.Equal(sent, want) {
			t.Errorf("sent %q, want %q", sent, want)
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
		must(t, job.RunSlot(t.Context(), "1", func(_ context.Context, hold *zklocks.Hold) error {
			node := hold.Guard()[0].(*zk.CheckVersionRequest).Path
			data, _, err := conn.Client().Get(node)
			if must(t, err); string(data) != "mine" || !strings.HasPrefix(node, "/tenant"+path+"/lock/") {
				t.Errorf("%s has the data %q", node, data)
			}
			return nil
		}))
		got, _, err := conn.Client().GetACL("/tenant" + record)
		if must(t, err); len(got) != 1 || got[0].Scheme != "digest" {
			t.Errorf("ACL %v", got)
		}
		stranger := once.New(c.server.Host("b").Connect(t, t10, zklocks.WithChroot("/tenant")), path)
		_, last := stranger.Last(t.Context())
		for _, err := range []error{last, stranger.RunSlot(t.Context(), "2", nothing)} {
			if !errors.Is(err, zk.ErrNoAuth) {
				t.Errorf("%v, want zk.ErrNoAuth", err)
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
		func() {
			defer func() {
				if r := recover(); r != "once: the function is nil" {
					t.Errorf("panic %v", r)
				}
			}()
			t.Error(a.job.RunSlot(t.Context(), "1", nil))
		}()
		must(t, once.New(a.Conn, "/longest").RunSlot(t.Context(), strings.Repeat("1", 1024), nothing))
		must(t, a.Client().Delete("/longest/last", -1))
		must(t, a.Client().Delete("/longest/lock", -1))
		must(t, a.Client().Delete("/longest", -1))
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
		for _, theirs := range []string{"theirs", `{"slot":"1"}`, "{}", "null", "5"} {
			_, err := a.Client().Set(record, []byte(theirs), -1)
			must(t, err)
			_, last := a.job.Last(t.Context())
			for _, err := range []error{last, a.job.RunSlot(t.Context(), "2", nothing), a.job.RunEvery(t.Context(), time.Hour, nothing)} {
				want := fmt.Sprintf("%s has %d bytes of data that are not a record", record, len(theirs))
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("error %v, want %q", err, want)
				}
			}
			if data, _, err := a.Client().Get(record); err != nil || string(data) != theirs {
				t.Errorf("%q is stored, want %q; %v", data, theirs, err)
			}
		}
		// What another program writes during the work remains, and the run is not recorded.
		for _, theirs := range []string{"theirs", `{"slot":"0","start":"2026-11-26T00:00:00Z"}`} {
			must(t, a.Client().Delete(record, -1))
			err := a.job.RunSlot(t.Context(), "1", func(context.Context, *zklocks.Hold) error {
				_, err := a.Client().Set(record, []byte(theirs), -1)
				return err
			})
			if data, _, _ := a.Client().Get(record); err == nil || !strings.Contains(err.Error(), "the record of it is not confirmed") || string(data) != theirs {
				t.Errorf("%v, and the record is %q", err, data)
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

// A failure, a run, a done slot and ErrNever, on the in-memory and on a real server.
func TestOnRealServers(t *testing.T) {
	venue.Both(t, func(t *testing.T, v venue.Venue) {
		v.Latency(time.Millisecond)
		path, began := test.Path(t), time.Now()
		a, b := once.New(locks.On(v.Connect(t, t10)), path), once.New(locks.On(v.Connect(t, t10)), path)
		is := func(err, want error) {
			t.Helper()
			if !errors.Is(err, want) {
				t.Errorf("error %v, want %v", err, want)
			}
		}
		_, err := a.Last(t.Context())
		is(err, once.ErrNever)
		broken := errors.New("broken")
		is(a.RunEvery(t.Context(), time.Hour, func(context.Context, *zklocks.Hold) error { return broken }), broken)
		must(t, b.RunEvery(t.Context(), time.Hour, nothing))
		is(a.RunEvery(t.Context(), time.Hour, nothing), once.ErrDone)
		must(t, a.RunSlot(t.Context(), "1", nothing))
		is(b.RunSlot(t.Context(), "1", nothing), once.ErrDone)
		last, err := a.Last(t.Context())
		must(t, err)
		// The test and the server read the same clock.
		if last.Slot != "1" || last.Pid != os.Getpid() || last.Called.Before(began.Add(-time.Second)) || last.Start.Before(last.Called) ||
			last.End.Before(last.Start) || time.Since(last.End) < -time.Second {
			t.Errorf("%+v, begun %v", last, began)
		}
		witness := v.Connect(t, t10)
		test.AssertEmpty(t, witness.Client(), path+"/lock")
		must(t, witness.Client().Delete(path+"/last", -1))
	})
}
