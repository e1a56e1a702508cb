package queue

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/hold"
	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/internal/test/venue"
	"github.com/zklocks/zklocks/internal/wire"
	"github.com/zklocks/zklocks/internal/zkclient"
	"github.com/zklocks/zklocks/internal/znode"
)

// testQueue is a queue for a test, and a witness that does not queue.
type testQueue struct {
	*testing.T
	venue   venue.Venue
	proxy   *proxy.Proxy
	conn    *wire.Conn
	queue   *Queue
	witness *wire.Conn
	kind    znode.Kind // of its waiters
}

func newTestQueue(t *testing.T, v venue.Venue, timeout time.Duration) *testQueue {
	t.Helper()
	server := v.Servers(t)[0]
	p := v.Proxy(t, server)
	x := &testQueue{T: t, venue: v, proxy: p, conn: v.Connect(t, timeout, p.Addr()), witness: v.Connect(t, 20*time.Second, server), kind: znode.Lock}
	dir := test.Path(t)
	if _, err := x.witness.Client().Create(dir, nil, zk.FlagPersistent, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
	x.queue = newQueue(t, x.conn, dir, with(Default(), lockNames))
	return x
}

func newQueue(t *testing.T, conn *wire.Conn, dir string, cfg Config) *Queue {
	t.Helper()
	cfg.Conn, cfg.Dir = conn, dir
	q := New(cfg)
	if err := q.Invalid(); err != nil {
		t.Fatal(err)
	}
	return q
}

// lock returns a hold of one node.
func lock(t *testing.T, q *Queue, kind znode.Kind) *Hold {
	t.Helper()
	g, err := q.Join(t.Context(), Request{Kind: kind, Nodes: 1}, true)
	if err != nil {
		t.Fatal(err)
	}
	h := new(Hold)
	h.Begin(g, q, nil, nil)
	return h
}

// enter has a waiter create its node, as enqueue does.
func (x *testQueue) enter() *waiter {
	x.Helper()
	sess := x.conn.Session()
	made, _, err := x.queue.client.Claim(x.Context(), sess, zkclient.Claim{Dir: x.queue.dir, Kind: x.kind, Nodes: 1, ACL: zk.WorldACL(zk.PermAll)})
	if err != nil {
		x.Fatal(err)
	}
	m := &waiter{
		queue: x.queue, request: Request{Kind: x.kind, Nodes: 1}, sess: sess, epoch: x.queue.client.Epoch(),
		made: made[0], nodes: made[0].Nodes, lease: x.queue.client.Keep(sess), token: tokenOf(made), ahead: new(atomic.Int64),
	}
	m.together = waiters{m}
	x.Cleanup(m.lease.End)
	return m
}

// lists has the waiter list the queue and read its token.
func (x *testQueue) lists(m *waiter) {
	x.Helper()
	if _, err := m.list(x.Context()); err != nil {
		x.Fatal(err)
	}
}

// watchesItself has the waiter watch its own node, as it does when it watches its blockers.
func (x *testQueue) watchesItself(m *waiter) {
	x.Helper()
	var err error
	m.own, err = x.queue.client.WatchNodes(x.Context(), m.sess, "", x.queue.paths(m.nodes))
	x.must(nil, err)
}

func (x *testQueue) must(_ any, err error) {
	x.Helper()
	if err != nil {
		x.Fatal(err)
	}
}

func (x *testQueue) until(what string, ok func() bool) {
	x.Helper()
	test.Eventually(x, 20*time.Second, what, ok)
}

// If the reply to the create was lost, the waiter reads its node to get the token. Another client
// may have written into the node before, or deleted it. Then the waiter queues again.
func TestTheTokenOfANodeThatWasWrittenInto(t *testing.T) {
	t.Parallel()
	venue.InMemory(t, func(t *testing.T, v venue.Venue) {
		x := newTestQueue(t, v, 20*time.Second)
		m := x.enter()
		m.token = 0 // as after a lost reply
		x.must(x.witness.Client().Set(x.queue.path(m.nodes[0]), []byte("x"), -1))
		x.lists(m)
		_, node, err := x.witness.Client().Get(x.queue.path(m.nodes[0]))
		x.must(nil, err)
		if m.token != node.Czxid || node.Mzxid == node.Czxid {
			t.Errorf("token %d, czxid %d, mzxid %d", m.token, node.Czxid, node.Mzxid)
		}
		x.goes(x.queue.path(m.nodes[0]))
		for _, now := range []string{"no node", "a node of another session"} {
			synctest.Wait()
			if err := m.readToken(t.Context()); err != errNoNode {
				t.Errorf("%s: %v, want %v", now, err, errNoNode)
			}
			_, _ = x.witness.Client().Create(x.queue.path(m.nodes[0]), nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
		}
	})
}

// A reader whose reply was lost lists also if the check in its create has shown that no writer is
// queued: a hold without a token fences nothing.
func TestTheTokenOfAReaderThatNeedNotList(t *testing.T) {
	t.Parallel()
	venue.InMemory(t, func(t *testing.T, v venue.Venue) {
		x := shared(t, v)
		for range 3 {
			x.must(nil, x.reads())
		}
		m := x.enter()
		m.token, m.noWriter, m.request.shared = 0, x.queue.view.noWriter(), &sharedNode{queue: x.queue}
		if m.noWriter == nil {
			t.Fatal("each reader lists, so there is nothing to see")
		}
		x.must(nil, m.waitTurn(t.Context(), true))
		_, node, err := x.witness.Client().Exists(x.queue.path(m.nodes[0]))
		x.must(nil, err)
		if m.token != node.Czxid {
			t.Errorf("token %d, czxid %d", m.token, node.Czxid)
		}
	})
}

// Each of these may happen between a waiter's listing and its grant. Some fire a watch at the same
// time as the last blocker's watch.
func TestWhatForbidsAGrant(t *testing.T) {
	fired := func(w *zkclient.Watch) func() bool {
		return func() bool { _, fired := w.Fired(); return fired }
	}
	for name, c := range map[string]struct {
		watches bool // it watches its own node; not before a grant by the reply to the create
		happen  func(*testQueue, *waiter, *Limit)
		want    turn
		gone    error
	}{
		"nothing, without a watch": {false, func(*testQueue, *waiter, *Limit) {}, granted, nil},
		"nothing, with a watch":    {true, func(*testQueue, *waiter, *Limit) {}, granted, nil},
		"its node is deleted": {true, func(x *testQueue, m *waiter, _ *Limit) {
			x.must(nil, x.witness.Client().Delete(x.queue.path(m.nodes[0]), -1))
			x.until("it is told", fired(m.own[0]))
		}, relist, errNoNode},
		"a client writes into its node": {true, func(x *testQueue, m *waiter, _ *Limit) {
			x.must(x.witness.Client().Set(x.queue.path(m.nodes[0]), []byte("x"), -1))
			x.until("it is told", fired(m.own[0]))
		}, relist, nil},
		"its session ends": {false, func(x *testQueue, m *waiter, _ *Limit) {
			x.venue.Expire(x, x.conn)
			x.until("another session", func() bool { id := x.conn.Session(); return id != 0 && id != m.sess })
		}, relist, zkclient.ErrOver},
		"the client reconnects": {false, func(x *testQueue, _ *waiter, _ *Limit) {
			before := x.queue.client.Epoch()
			x.proxy.Cut()
			x.until("another connection", func() bool { now := x.queue.client.Epoch(); return now != before })
		}, relist, nil},
		"its watch ends with the connection": {true, func(x *testQueue, m *waiter, _ *Limit) {
			x.proxy.Cut()
			x.until("it is told", fired(m.own[0]))
		}, relist, nil},
		"the session may have run out": {false, func(x *testQueue, m *waiter, _ *Limit) {
			x.proxy.Mute()
			x.until("its deadline has passed", func() bool { return m.lease.Alive() != nil })
		}, relist, nil},
		"the limit changes": {true, func(x *testQueue, m *waiter, limit *Limit) {
			w, err := x.queue.client.Watch(x.Context(), m.sess, x.queue.dir)
			x.must(nil, err)
			limit.Changed = w
			x.must(x.witness.Client().Set(x.queue.dir, []byte("x"), -1))
			x.until("it is told", fired(w))
		}, relist, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			venue.InMemory(t, func(t *testing.T, v venue.Venue) {
				x := newTestQueue(t, v, 3*time.Second)
				m := x.enter()
				if c.watches {
					x.watchesItself(m)
				}
				c.happen(x, m, &m.limit)
				if next, err := m.recheck(); next != c.want || err != c.gone {
					t.Errorf("%v, %v, want %v, %v", next, err, c.want, c.gone)
				}
			})
		})
	}
}

// A waiter checks its turn at once after an event, and not at its next recheck, about 5 s later.
func TestWhatWakesAWaiter(t *testing.T) {
	t.Parallel()
	for name, event := range map[string]func(x *testQueue, ahead *Hold, more *atomic.Bool){
		"the node ahead is deleted": func(x *testQueue, ahead *Hold, _ *atomic.Bool) { x.must(nil, ahead.Release(x.Context())) },
		"the node ahead becomes a read node": func(x *testQueue, ahead *Hold, _ *atomic.Bool) {
			x.must(nil, ahead.Downgrade(x.Context(), x.queue, znode.Write, znode.Read))
		},
		"its own node is deleted": func(x *testQueue, ahead *Hold, _ *atomic.Bool) {
			x.goes(x.line()[1])
			synctest.Wait()
			if n := len(x.line()); n != 2 {
				x.Errorf("it has not queued again: %d nodes", n)
			}
			x.must(nil, ahead.Release(x.Context()))
		},
		"the limit changes": func(x *testQueue, _ *Hold, more *atomic.Bool) {
			more.Store(true)
			x.must(x.witness.Client().Set(x.queue.dir, nil, -1))
		},
	} {
		t.Run(name, func(t *testing.T) {
			venue.InMemory(t, func(t *testing.T, v venue.Venue) {
				x := shared(t, v)
				ahead, more, began := lock(t, x.queue, znode.Write), new(atomic.Bool), time.Now()
				time.AfterFunc(time.Second, func() { event(x, ahead, more) })
				g, err := x.queue.Join(t.Context(), Request{Kind: znode.Read, Nodes: 1, Limit: func(ctx context.Context, sess int64) (Limit, error) {
					var limit Limit
					var err error
					limit.Changed, err = x.queue.client.Watch(ctx, sess, x.queue.dir)
					if more.Load() {
						limit.AllowedAhead = 1
					}
					return limit, err
				}}, true)
				x.must(nil, err)
				if took := time.Since(began); took > 2*time.Second {
					t.Errorf("granted after %v", took)
				}
				x.must(nil, g.GiveUp(t.Context()))
			})
		})
	}
}

// The last blocker is gone, but the waiter watches no node of its own, so its own node may be gone,
// too.
func TestNoGrantByAnEventWithoutAWatchOnTheOwnNode(t *testing.T) {
	t.Parallel()
	venue.InMemory(t, func(t *testing.T, v venue.Venue) {
		x := newTestQueue(t, v, 10*time.Second)
		m := x.enter()
		for _, c := range []struct {
			watches bool
			want    turn
		}{{false, relist}, {true, pending}} {
			if c.watches {
				x.watchesItself(m)
			}
			if next, err := m.waitEvent(t.Context(), &blockers{rule: lockRule}); next != c.want || err != nil {
				t.Errorf("it watches its node: %v: %v, %v, want %v", c.watches, next, err, c.want)
			}
		}
	})
}

// The reply to the create, and a listing, count only for the directory that the limit belongs to.
// If the directory was deleted and created again, another limit may have the same version: so the
// limit is read again, and the queue is listed.
func TestTheListingOfAnotherDirectoryGrantsNothing(t *testing.T) {
	t.Parallel()
	venue.InMemory(t, func(t *testing.T, v venue.Venue) {
		x := newTestQueue(t, v, 10*time.Second)
		m := x.enter()
		_, dir, err := x.witness.Client().Exists(x.queue.dir)
		x.must(nil, err)
		forgotten := 0
		limit := Limit{Dir: dir.Czxid - 1, Forget: func() { forgotten++ }}
		m.request.Limit = func(context.Context, int64) (Limit, error) { return limit, nil }
		if b, err := m.compare(t.Context(), true); b != nil || err != nil || forgotten != 1 {
			t.Errorf("%v, %v; forgotten %d times", b, err, forgotten)
		}
		limit.Dir = dir.Czxid
		if b, err := m.compare(t.Context(), true); b == nil || b.ahead() != 0 || err != nil || forgotten != 1 {
			t.Errorf("%v, %v for the limit of this directory; forgotten %d times", b, err, forgotten)
		}
	})
}

func TestTheReplyOfAnotherDirectoryGrantsNothing(t *testing.T) {
	t.Parallel()
	venue.InMemory(t, func(t *testing.T, v venue.Venue) {
		x := newTestQueue(t, v, 10*time.Second)
		x.enter() // the holder
		for _, c := range []struct {
			of, dir int64
			want    error
		}{
			{2, 3, hold.ErrBusy}, // with one node ahead
			{0, 2, nil},          // any directory
			{2, 2, nil},
		} {
			m := x.enter()
			forgotten := false
			m.limit = Limit{Dir: c.of, Forget: func() { forgotten = true }}
			m.made.Dir, m.token = &zk.Stat{NumChildren: 1, Czxid: c.dir}, 1
			err := m.waitTurn(t.Context(), false)
			if !errors.Is(err, c.want) || forgotten != (c.want != nil) {
				t.Errorf("limit of %d, directory %d: %v, want %v; forgotten: %v", c.of, c.dir, err, c.want, forgotten)
			}
		}
	})
}

// Another program makes the directory, with data, while a create is on its way: the data stay.
func TestADirectoryThatAnotherProgramMakesMeanwhile(t *testing.T) {
	t.Parallel()
	venue.InMemory(t, func(t *testing.T, v venue.Venue) {
		x := newTestQueue(t, v, 20*time.Second)
		dir := x.queue.dir + "/made"
		q := newQueue(t, x.conn, dir, with(Default(), lockNames))
		create, done := x.proxy.Next(proxy.CreateOp, proxy.HoldRequest), make(chan struct{})
		go func() {
			defer close(done)
			g, err := q.Join(t.Context(), Request{Kind: znode.Lock, Nodes: 1}, true)
			if x.must(nil, err); err == nil {
				x.must(nil, g.GiveUp(t.Context()))
			}
		}()
		<-create.Fired()
		_, err := x.witness.Client().Create(dir, []byte("config"), zk.FlagPersistent, zk.WorldACL(zk.PermAll))
		x.must(nil, err)
		create.Release()
		<-done
		if data, stat, err := x.witness.Client().Get(dir); err != nil || string(data) != "config" || stat.Version != 0 {
			t.Errorf("%q in version %d, %v", data, stat.Version, err)
		}
	})
}

// After a reconnect a waiter lists once, on the new connection, and needs no listing more for its
// grant than a waiter whose connection has lasted.
func TestAWaiterListsOnceForAReconnect(t *testing.T) {
	t.Parallel()
	venue.InMemory(t, func(t *testing.T, v venue.Venue) {
		x := newTestQueue(t, v, 20*time.Second)
		lists := func(cut bool) int64 {
			before := x.proxy.Seen(proxy.ListOp)
			ahead := x.other(x.kind)
			time.AfterFunc(time.Second, func() {
				if cut {
					x.proxy.Cut()
				}
			})
			time.AfterFunc(3*time.Second, func() { x.must(nil, x.witness.Client().Delete(ahead, -1)) })
			g, err := x.queue.Join(t.Context(), Request{Kind: x.kind, Nodes: 1}, true)
			x.must(nil, err)
			x.must(nil, g.GiveUp(t.Context()))
			return x.proxy.Seen(proxy.ListOp) - before
		}
		if usual, once := lists(false), lists(true); once != usual+1 {
			t.Errorf("%d listings with a reconnect, %d without", once, usual)
		}
	})
}

// A client may not read its own node, so the server withholds the node's events. A watch that has
// not fired is not evidence that the node exists, so the waiter returns an error instead of
// waiting.
func TestNoGrantByANodeThatTheClientMayNotRead(t *testing.T) {
	t.Parallel()
	venue.InMemory(t, func(t *testing.T, v venue.Venue) {
		x := newTestQueue(t, v, 20*time.Second)
		cfg := with(Default(), rwNames)
		cfg.ACL = zk.WorldACL(zk.PermDelete)
		q := newQueue(x.T, x.conn, x.queue.dir, cfg)
		x.other(znode.Write) // the holder
		began := time.Now()
		_, err := q.Join(t.Context(), Request{Kind: znode.Write, Nodes: 1}, true)
		if !errors.Is(err, zk.ErrNoAuth) || time.Since(began) >= FirstRecheck {
			t.Errorf("after %v: %v, want %v at once", time.Since(began), err, zk.ErrNoAuth)
		}
		if n := len(test.Children(t, x.witness.Client(), x.queue.dir)); n != 1 {
			t.Errorf("%d nodes are left, want the holder's", n)
		}
	})
}

// The right to read the node ahead is revoked while the waiter watches it, so the server withholds
// the event of the deletion. The waiter detects the deletion after waiting about as long again.
// Until then it lists after 5 s, 10 s later, 20 s later and so on, each time up to a quarter
// earlier.
func TestAWaiterThatMayNotReadTheNodeAheadAnyMore(t *testing.T) {
	t.Parallel()
	for what, gone := range map[string]bool{"it is deleted": true, "it stays": false} {
		t.Run(what, func(t *testing.T) {
			venue.InMemory(t, func(t *testing.T, v venue.Venue) {
				x := newTestQueue(t, v, 20*time.Second)
				ahead, err := x.witness.Client().Create(x.queue.dir+"/"+znode.Prefix(znode.NewID(), x.kind), nil, zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
				x.must(nil, err)
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				began, forgotten := time.Now(), 0
				time.AfterFunc(10*time.Minute, func() {
					if forgotten < 6 {
						t.Errorf("it has read its limit again %d times", forgotten)
					}
					if n := x.proxy.Seen(proxy.ListOp); n < 1+6 || n > 1+7 {
						t.Errorf("%d listings in ten minutes", n)
					}
					_, err := x.witness.Client().SetACL(ahead, zk.WorldACL(zk.PermAll&^zk.PermRead), -1)
					x.must(nil, err)
					if gone {
						x.must(nil, x.witness.Client().Delete(ahead, -1))
					}
				})
				limit := Limit{Forget: func() { forgotten++ }}
				g, err := x.queue.Join(ctx, Request{Kind: x.kind, Nodes: 1, Limit: func(context.Context, int64) (Limit, error) { return limit, nil }}, true)
				if took := time.Since(began); took > 21*time.Minute {
					t.Errorf("it has waited for %v", took)
				}
				if !gone {
					if !errors.Is(err, zk.ErrNoAuth) {
						t.Errorf("%v, want %v", err, zk.ErrNoAuth)
					}
					return
				}
				if x.must(nil, err); err == nil {
					x.must(nil, g.GiveUp(ctx))
				}
			})
		})
	}
}
