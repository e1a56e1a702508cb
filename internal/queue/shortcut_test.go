package queue

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zklocks/zklocks/internal/test/venue"
	"github.com/zklocks/zklocks/internal/znode"
)

// registers adds the node of a waiter to the local nodes of a queue.
func registers(q *Queue, session, seq int64) (own, predecessor *localNode) {
	n := znode.Node{Kind: q.cfg.Names[0].Kind, Seq: seq}
	w := &waiter{queue: q, request: Request{Kind: n.Kind, Nodes: 1}, sess: session, nodes: []znode.Node{n}}
	predecessor = w.register()
	return w.local, predecessor
}

func TestThePredecessorIsTheNodeWithTheNumberBefore(t *testing.T) {
	q := &Queue{cfg: with(Default(), lockNames)}
	a, predecessor := registers(q, 1, 7)
	if predecessor != nil {
		t.Errorf("the first node of all follows %v", predecessor.node)
	}
	for _, other := range []struct{ session, seq int64 }{{2, 8}, {1, 9}, {1, 6}} {
		if _, predecessor := registers(q, other.session, other.seq); predecessor != nil {
			t.Errorf("%v follows %v", other, predecessor.node)
		}
	}
	b, predecessor := registers(q, 1, 8)
	if predecessor != a || predecessor.isFirst() {
		t.Errorf("the predecessor is %v, and not the first of all", predecessor)
	}
	a.setAhead(0)
	q.local.unregister(a)
	if !predecessor.isFirst() {
		t.Error("what the waiter knew of a node is forgotten with it")
	}
	again, _ := registers(q, 1, 8) // the directory was deleted and made again
	q.local.unregister(b)
	if _, predecessor := registers(q, 1, 9); predecessor != again {
		t.Error("a node went with another of the same number")
	}
}

// Nodes that hold beside others tell nothing of the nodes ahead of them. They are not followed, and
// follow none.
func TestOnlyExclusiveNodesAreFollowed(t *testing.T) {
	for name, c := range map[string]struct {
		names Names
		local bool
	}{
		"mutexes": {lockNames, true},
		"writers": {Names{{znode.Write, Write}}, true},
		"readers": {Names{{znode.Read, Read}}, false},
		"permits": {permitNames, false},
	} {
		q := &Queue{cfg: with(Default(), c.names)}
		own, _ := registers(q, 1, 1)
		_, predecessor := registers(q, 1, 2)
		if (own != nil) != c.local || (predecessor != nil) != c.local {
			t.Errorf("%s: local node %v, the second follows %v", name, own, predecessor)
		}
		own.setAhead(0)
		q.local.unregister(own)
	}
}

// How many nodes are ahead is known as soon as any waiter of those that follow each other knows it.
func TestHowManyNodesAreAheadOfAFollower(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		q := &Queue{cfg: with(Default(), lockNames)}
		first, _ := registers(q, 1, 1)
		second, _ := registers(q, 1, 2)
		third, _ := registers(q, 1, 3)
		count := func() string {
			n, ok, err := third.countAhead(ctx)
			return fmt.Sprint(n, ok, err)
		}
		var answer chan string // to the last that asked
		ask := func() {
			answers := make(chan string, 1)
			go func() { answers <- count() }()
			answer = answers
			synctest.Wait()
		}
		answered := func() string {
			synctest.Wait()
			select {
			case a := <-answer:
				return a
			default:
				return "none yet"
			}
		}
		for _, step := range []struct {
			what string
			do   func()
			want string
		}{
			{"no waiter has told anything", func() {}, "none yet"},
			{"the third follows the second", func() { third.setBehind(second) }, "none yet"},
			{"the second follows the first", func() { second.setBehind(first) }, "none yet"},
			{"the first has listed", func() { first.setAhead(5) }, "7 true <nil>"},
			{"the first moves", func() { first.setAhead(4) }, "6 true <nil>"},
			{"the first holds", func() { first.setAhead(0) }, "2 true <nil>"},
			{"the first is deleted", func() { q.local.unregister(first) }, "2 true <nil>"},
			{"the second has listed", func() { second.setAhead(1) }, "2 true <nil>"},
			{"the second leaves", func() { q.local.unregister(second) }, "0 false <nil>"},
		} {
			ask()
			step.do()
			if got := answered(); (got == "none yet") != (step.want == "none yet") {
				t.Errorf("%s: %s to the call that came before, want %s", step.what, got, step.want)
			}
			if step.want == "none yet" {
				continue
			}
			if got := count(); got != step.want {
				t.Errorf("%s: %s, want %s", step.what, got, step.want)
			}
		}
		third.setBehind(nil)
		ask()
		cancel()
		if got := answered(); got != "0 false context canceled" {
			t.Errorf("ctx has ended: %s", got)
		}
	})
}

func TestLocalNodesAreForgotten(t *testing.T) {
	q := &Queue{cfg: with(Default(), lockNames)}
	for seq := range int64(100) {
		own, _ := registers(q, 1, seq)
		q.local.unregister(own)
	}
	if n := len(q.local.at); n != 0 {
		t.Errorf("%d nodes are left", n)
	}
}

// The deletion of the predecessor grants nothing to a follower that knows too little of its own
// node: after a reconnect it may have been deleted, and its event be late.
func TestAFollowerLooksBeforeItsGrant(t *testing.T) {
	for name, c := range map[string]struct {
		happen func(*testQueue, *waiter)
		want   turn
	}{
		"nothing has happened":                        {func(*testQueue, *waiter) {}, granted},
		"the client has reconnected since its create": {func(x *testQueue, m *waiter) { x.reconnects(m.sess) }, relist},
		"its node has been deleted":                   {func(x *testQueue, m *waiter) { x.must(nil, x.witness.Delete(x.queue.path(m.nodes[0]), -1)) }, requeue},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			venue.InMemory(t, func(t *testing.T, v venue.Venue) {
				x := newTestQueue(t, v, 10*time.Second)
				holder, m := x.enter(), x.enter()
				holder.register()
				holder.local.setAhead(0)
				predecessor := m.register()
				c.happen(x, m)
				result := make(chan turn, 1)
				go func() {
					next, err := m.follow(t.Context(), predecessor)
					if next != requeue && err != nil {
						t.Error(err)
					}
					result <- next
				}()
				synctest.Wait() // it watches
				x.must(nil, x.witness.Delete(x.queue.path(holder.nodes[0]), -1))
				if next := <-result; next != c.want {
					t.Errorf("%v, want %v", next, c.want)
				}
			})
		})
	}
}

// Where no reply tells the token it is read beside a listing. A grant without that would have none.
func TestAWaiterWithoutATokenDoesNotFollow(t *testing.T) {
	t.Parallel()
	venue.InMemory(t, func(t *testing.T, v venue.Venue) {
		x := newTestQueue(t, v, 10*time.Second)
		x.queue.client.VerifyHeaderZxid(1, 2)
		holder, m := x.enter(), x.enter()
		holder.register()
		holder.local.setAhead(0)
		result := make(chan turn, 1)
		go func() {
			next, err := m.waitTurn(t.Context(), true)
			if err != nil {
				t.Error(err)
			}
			result <- next
		}()
		synctest.Wait() // it watches
		_, stat, err := x.witness.Exists(x.queue.path(m.nodes[0]))
		x.must(nil, err)
		x.must(nil, x.witness.Delete(x.queue.path(holder.nodes[0]), -1))
		if next := <-result; next != granted || m.token != stat.Czxid {
			t.Errorf("%v with token %d, want %d", next, m.token, stat.Czxid)
		}
	})
}
