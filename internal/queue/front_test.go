package queue

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/internal/test/venue"
	"github.com/zklocks/zklocks/internal/znode"
)

// line returns the paths of the nodes, in order.
func (x *testQueue) line() []string {
	x.Helper()
	nodes, _, err := newQueue(x.T, x.witness, x.queue.dir, x.queue.cfg).list(x.Context(), x.witness.Session())
	x.must(nil, err)
	return x.queue.paths(nodes)
}

func (x *testQueue) goes(path string) {
	x.Helper()
	x.must(nil, x.witness.Client().Delete(path, -1))
}

// blind does something while the client may not read the node, so that it receives no event.
func (x *testQueue) blind(path string, do func()) {
	x.Helper()
	x.must(x.witness.Client().SetACL(path, zk.WorldACL(zk.PermAll&^zk.PermRead), -1))
	do()
	if found, _, _ := x.witness.Client().Exists(path); found {
		x.must(x.witness.Client().SetACL(path, zk.WorldACL(zk.PermAll), -1))
	}
}

// What Follow yields after an event, and how soon: the number of the first member, "-" for none, and
// "?" if that is not current.
func TestWhatFollowYields(t *testing.T) {
	t.Parallel()
	comes := func(x *testQueue) { x.other(znode.Lock) }
	refuse := func(x *testQueue, op proxy.Op) {
		for range 1000 {
			x.proxy.Next(op, proxy.Answer(-127))
		}
	}
	leaves := func(x *testQueue) { x.goes(x.line()[0]) }
	for name, c := range map[string]struct {
		members int
		event   func(*testQueue)
		pass    time.Duration // after the event
		want    string
	}{
		"nothing":                        {1, func(*testQueue) {}, time.Hour, "0"},
		"nobody is there":                {0, func(*testQueue) {}, time.Hour, "-"},
		"a member comes":                 {0, comes, 0, "- 0"},
		"another comes behind":           {1, comes, time.Hour, "0"},
		"the first leaves":               {2, leaves, 0, "0 1"},
		"the only one leaves":            {1, leaves, 0, "0 -"},
		"the second leaves":              {2, func(x *testQueue) { x.goes(x.line()[1]) }, time.Hour, "0"},
		"its node is written into":       {1, func(x *testQueue) { x.must(x.witness.Client().Set(x.line()[0], []byte("x"), -1)) }, 0, "0 0x"},
		"the connection is cut":          {1, func(x *testQueue) { x.reconnects(x.conn.Session()) }, time.Second, "0 0? 0"},
		"the session expires":            {1, func(x *testQueue) { x.venue.Expire(x, x.conn) }, 20 * time.Second, "0 0? 0"},
		"no server answers":              {1, func(x *testQueue) { x.proxy.Mute() }, 10 * time.Second, "0 0?"},
		"no server answers for a moment": {1, func(x *testQueue) { x.proxy.Mute() }, 2 * time.Second, "0"},
		"the first leaves unseen":        {2, func(x *testQueue) { x.blind(x.line()[0], func() { leaves(x) }) }, FirstRecheck, "0 1"},
		"it is written into unseen": {1, func(x *testQueue) {
			x.blind(x.line()[0], func() { x.must(x.witness.Client().Set(x.line()[0], []byte("x"), -1)) })
		}, FirstRecheck, "0 0x"},
		"a member comes unseen": {0, func(x *testQueue) { x.blind(x.queue.dir, func() { comes(x) }) }, FirstRecheck, "- 0"},
		"a member comes and goes unseen": {0, func(x *testQueue) {
			x.blind(x.queue.dir, func() { x.goes(x.other(znode.Lock)) })
			time.Sleep(FirstRecheck) // virtual
			synctest.Wait()
			comes(x) // the watch was set again
		}, 0, "- 1"},
		"the servers refuse to read the next": {2, func(x *testQueue) { refuse(x, proxy.ListOp); leaves(x) }, time.Minute, "0 0?"},
		"the servers have no quorum":          {1, func(x *testQueue) { refuse(x, proxy.CheckOp) }, 10 * time.Second, "0 0?"},
	} {
		t.Run(name, func(t *testing.T) {
			venue.InMemory(t, func(t *testing.T, v venue.Venue) {
				x := newTestQueue(t, v, 10*time.Second)
				for range c.members {
					comes(x)
				}
				var got []string
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error)
				go func() {
					done <- x.queue.Follow(ctx, func(f Front) bool {
						word := "-"
						if p := f.Member.Path; p != "" {
							word = p[len(p)-1:] + string(f.Member.Data)
						}
						if !f.Current {
							word += "?"
						}
						if f.Member.Holding != (word[0] != '-') {
							t.Errorf("%s is shown as holding: %v", word, f.Member.Holding)
						}
						got = append(got, word)
						return true
					})
				}()
				synctest.Wait()
				c.event(x)
				time.Sleep(c.pass) // virtual
				synctest.Wait()
				if got := strings.Join(got, " "); got != c.want {
					t.Errorf("%s, want %s", got, c.want)
				}
				cancel()
				if err := <-done; !errors.Is(err, context.Canceled) {
					t.Errorf("got %v", err)
				}
				x.proxy.Close()
			})
		})
	}
}

// Follow ends when yield returns false, and leaves no lease and no watch.
func TestFollowLeavesNothing(t *testing.T) {
	t.Parallel()
	venue.InMemory(t, func(t *testing.T, v venue.Venue) {
		x := newTestQueue(t, v, 10*time.Second)
		x.goes(x.queue.dir)
		x.must(nil, x.queue.Follow(t.Context(), func(Front) bool { return false }))
		sent := x.proxy.Seen(proxy.CheckOp)
		time.Sleep(time.Minute) // virtual
		if n := x.proxy.Seen(proxy.CheckOp) - sent; n > 0 || len(v.Watched(t, x.conn.Session())) > 0 {
			t.Errorf("%d heartbeats, watches on %q", n, v.Watched(t, x.conn.Session()))
		}
	})
}

// First asks the quorum on the connection on which it reads.
func TestFirstAsksTheQuorum(t *testing.T) {
	t.Parallel()
	venue.InMemory(t, func(t *testing.T, v venue.Venue) {
		x := newTestQueue(t, v, 10*time.Second)
		x.other(znode.Lock)
		first := func(asks int64) {
			t.Helper()
			before := x.proxy.Seen(proxy.CheckOp)
			m, err := x.queue.First(t.Context())
			if n := x.proxy.Seen(proxy.CheckOp) - before; n != asks || err != nil || !m.Holding || m.Path != x.line()[0] {
				t.Errorf("%+v, %v after %d questions", m, err, n)
			}
		}
		first(1)
		x.proxy.Next(proxy.ReadOp, proxy.CutBefore)
		first(2)
		x.must(x.witness.Client().SetACL(x.queue.dir, zk.WorldACL(zk.PermAll&^zk.PermRead), -1))
		if _, err := x.queue.First(t.Context()); !errors.Is(err, zk.ErrNoAuth) {
			t.Errorf("got %v", err)
		}
	})
}
