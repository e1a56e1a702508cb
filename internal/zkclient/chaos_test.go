package zkclient

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/internal/test/venue"
)

// The proxy cuts the connection three hundred times, while goroutines create, abandon and delete
// nodes. The session outlives all cuts, so its end deletes no node.
func TestThreeHundredCutsLeaveNoOrphan(t *testing.T) {
	t.Parallel()
	venue.InMemory(t, func(t *testing.T, v venue.Venue) {
		const cuts, workers = 300, 8
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		v.Latency(time.Millisecond)
		l := newLine(t, v, 30*time.Second)
		stop := make(chan struct{})
		var made, canceled, removed atomic.Int64
		var wg sync.WaitGroup
		for i := range workers {
			random := rand.New(rand.NewPCG(seed, uint64(i)))
			wg.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					ctx, cancel := context.WithCancel(context.Background())
					var timer *time.Timer
					if random.IntN(2) == 0 {
						timer = time.AfterFunc(time.Duration(random.IntN(10_000))*time.Microsecond, cancel)
					}
					claimed, err := claimOne(ctx, l.client, l.sess, l.want(1+random.IntN(3)))
					if timer != nil {
						timer.Stop()
					}
					cancel()
					if err != nil {
						canceled.Add(1)
						if !errors.Is(err, context.Canceled) {
							t.Error(err)
						}
						continue
					}
					made.Add(1)
					if err := <-l.client.Remove(l.sess, Removal{Dir: l.dir, Nodes: claimed.Nodes}); err != nil {
						t.Errorf("remove: %v", err)
					}
					removed.Add(1)
				}
			})
		}
		random := rand.New(rand.NewPCG(seed, workers))
		ops := []proxy.Op{proxy.AnyOp, proxy.CreateOp, proxy.CreateOp, proxy.DeleteOp, proxy.CheckOp, proxy.ListOp}
		actions := []proxy.Action{proxy.CutBefore, proxy.CutOnSend, proxy.CutAfterCommit}
		for range cuts {
			f := l.Nth(ops[random.IntN(len(ops))], 1+random.IntN(6), actions[random.IntN(len(actions))])
			select {
			case <-f.Fired():
			case <-time.After(10 * time.Millisecond): // recovery may be over with no listing
				f.Cancel()
				l.Cut()
			}
			before := made.Load() + canceled.Load()
			test.Eventually(t, 20*time.Second, "some request gets through", func() bool { return made.Load()+canceled.Load() > before })
		}
		close(stop)
		wg.Wait()
		test.AssertEmpty(t, l.witness, l.dir)
		if l.conn.SessionID() != l.sess {
			t.Error("the session is another: its end has swept up")
		}
		if made.Load() < cuts/4 || canceled.Load() == 0 {
			t.Errorf("%d claims, %d canceled: too few to mean anything", made.Load(), canceled.Load())
		}
		t.Logf("%d claims, %d canceled, %d removed", made.Load(), canceled.Load(), removed.Load())
	})
}

// A create that the zk client has queued while it was disconnected is executed in the next session,
// without an error. Claim must not return its node.
func TestACreateCarriedIntoAnotherSessionIsNotOurs(t *testing.T) {
	for name, settle := range map[string]func(*line, *claimTry, <-chan answer[results]) error{
		"waited for": func(l *line, try *claimTry, call <-chan answer[results]) error {
			a := <-call
			if a.err != nil {
				return a.err
			}
			_, _, err := try.ours(l.sess, try.read(a.value.replies))
			return err
		},
		"given up": func(_ *line, try *claimTry, call <-chan answer[results]) error {
			try.cleanUp(call)
			return ErrOver
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			venue.InMemory(t, func(t *testing.T, v venue.Venue) {
				l := newLine(t, v, 20*time.Second)
				try := newClaimTry(l.client, []Claim{l.want(2)})
				l.Refuse()
				test.Eventually(t, 10*time.Second, "the connection is down", func() bool { return l.conn.State() != zk.StateHasSession })
				// Claim itself waits for a connection. But a create that Claim sends at the moment
				// when the connection is lost is queued like this create.
				call := make(chan answer[results], 1)
				go func() {
					made, err := try.send()
					call <- answer[results]{made, err}
				}()
				v.Expire(t, l.conn)
				must(t, l.Accept())
				mustBe(t, result(t, 15*time.Second, "carried over", async(func() error { return settle(l, try, call) })), ErrOver)
				test.Eventually(t, 10*time.Second, "nodes were made and deleted", func() bool {
					return l.Seen(proxy.CreateOp) == 1 && l.Seen(proxy.DeleteOp) == 1
				})
				test.AssertEmpty(t, l.witness, l.dir)
				if now := l.newSession(t); now == l.sess {
					t.Error("the session is the same: nothing was carried over")
				}
			})
		})
	}
}

// A delete that is sent in the next session finds no node, because the end of the old session has
// deleted it.
func TestADeleteCarriedIntoAnotherSessionIsTheEndOfOurs(t *testing.T) {
	t.Parallel()
	venue.InMemory(t, func(t *testing.T, v venue.Venue) {
		l := newLine(t, v, 20*time.Second)
		path := l.path(l.claim(t, 1)[0])
		l.Refuse()
		test.Eventually(t, 10*time.Second, "the connection is down", func() bool { return l.conn.State() != zk.StateHasSession })
		call := async(func() error { return l.conn.Delete(path, -1) }) // sent at the moment when the connection is lost
		v.Expire(t, l.conn)
		must(t, l.Accept())
		err := result(t, 15*time.Second, "carried over", call)
		mustBe(t, err, zk.ErrNoNode)
		now := l.newSession(t)
		mustBe(t, l.client.refusal(l.sess, err), ErrOver)
		mustBe(t, l.client.refusal(now, err), zk.ErrNoNode)
		mustBe(t, l.client.refusal(AnySession, err), zk.ErrNoNode)
		test.AssertEmpty(t, l.witness, l.dir)
	})
}

// The same end to end: sessions end while many goroutines claim.
func TestClaimsAroundTheEndOfASession(t *testing.T) {
	t.Parallel()
	venue.InMemory(t, func(t *testing.T, v venue.Venue) {
		v.Latency(500 * time.Microsecond)
		l := newLine(t, v, 20*time.Second)
		for range 10 {
			l.sess = l.conn.SessionID()
			sess := l.sess
			var wg sync.WaitGroup
			for range 16 {
				wg.Go(func() {
					for {
						made, err := claimOne(context.Background(), l.client, sess, l.want(1))
						if err != nil {
							if !errors.Is(err, ErrOver) {
								t.Error(err)
							}
							return
						}
						// Some nodes are left for the end of the session.
						if made.Nodes[0].Seq%2 == 0 {
							err = <-l.client.Remove(sess, Removal{Dir: l.dir, Nodes: made.Nodes})
						}
						if err != nil && !errors.Is(err, ErrOver) {
							t.Error(err)
						}
					}
				})
			}
			l.seen(t, proxy.CreateOp, 20)
			l.Refuse()
			v.Expire(t, l.conn)
			must(t, l.Accept())
			l.newSession(t)
			wg.Wait()
			test.AssertEmpty(t, l.witness, l.dir)
		}
	})
}
