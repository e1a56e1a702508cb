package zkclient

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/internal/znode"
)

func TestClaimTellsWhatTheTransactionSaw(t *testing.T) {
	withLine(t, 10*time.Second, func(t *testing.T, l *line) {
		made, err := claimOne(within(t, 10*time.Second), l.client, l.sess, l.want(3))
		must(t, err)
		l.isTheLine(t, made, 3)
		if made.Dir == nil || made.Dir.NumChildren != 3 {
			t.Fatalf("directory: %+v", made.Dir)
		}
		_, stat, err := l.witness.Client().Exists(l.path(made.Nodes[2]))
		must(t, err)
		if stat.Czxid != made.Dir.Mzxid || stat.EphemeralOwner != l.sess {
			t.Errorf("node %+v of session %d, directory %+v", stat, l.sess, made.Dir)
		}
		if n := l.Seen(proxy.AnyOp); n != 1 {
			t.Errorf("%d requests, want 1", n)
		}
	})
}

// isTheLine checks that the directory has the claimed nodes and no others, with consecutive
// numbers.
func (l *line) isTheLine(t *testing.T, made Claimed, want int) {
	t.Helper()
	children := l.children(t)
	if len(children) != want || len(made.Nodes) != want {
		t.Fatalf("%d children and %d nodes, want %d: %q", len(children), len(made.Nodes), want, children)
	}
	line, err := znode.Sort(children, znode.Lock)
	must(t, err)
	for i, n := range made.Nodes {
		if n != line[i] || n.ID != line[0].ID || n.Seq != line[0].Seq+int64(i) {
			t.Errorf("node %d is %+v, the directory has %+v", i, n, line[i])
		}
	}
}

func TestClaimSurvivesALostConnection(t *testing.T) {
	for name, c := range map[string]struct {
		create  proxy.Action
		more    func(*line) []*proxy.Fault // other faults
		creates int64                      // creates that reach the server
	}{
		"before the commit":  {create: proxy.CutBefore, creates: 1},
		"after the commit":   {create: proxy.CutAfterCommit, creates: 1},
		"after, and barrier": {proxy.CutAfterCommit, (*line).cutBarrier, 1},
		"after, and listing": {proxy.CutAfterCommit, (*line).cutListing, 1},
		"after, and both": {proxy.CutAfterCommit, func(l *line) []*proxy.Fault {
			return append(l.cutBarrier(), l.cutListing()...)
		}, 1},
		"before, and both": {proxy.CutBefore, func(l *line) []*proxy.Fault {
			return append(l.cutBarrier(), l.cutListing()...)
		}, 1},
		"before, and again before": {proxy.CutBefore, func(l *line) []*proxy.Fault {
			return []*proxy.Fault{l.Nth(proxy.CreateOp, 2, proxy.CutBefore)}
		}, 1},
		"before, and then after": {proxy.CutBefore, func(l *line) []*proxy.Fault {
			return []*proxy.Fault{l.Nth(proxy.CreateOp, 2, proxy.CutAfterCommit)}
		}, 1},
	} {
		for _, nodes := range []int{1, 3} {
			t.Run(fmt.Sprintf("%s, %d", name, nodes), func(t *testing.T) {
				withLine(t, 10*time.Second, func(t *testing.T, l *line) {
					faults := []*proxy.Fault{l.Next(proxy.CreateOp, c.create)}
					if c.more != nil {
						faults = append(faults, c.more(l)...)
					}
					made, err := claimOne(within(t, 20*time.Second), l.client, l.sess, l.want(nodes))
					must(t, err)
					fired(t, faults...)
					l.isTheLine(t, made, nodes)
					if n := l.Seen(proxy.CreateOp); n != c.creates {
						t.Errorf("%d creates have reached the server, want %d", n, c.creates)
					}
				})
			})
		}
	}
}

// If two nodes held three permits, a semaphore would grant one permit too many.
func TestAClaimOfWhichSomeIsGoneIsMadeAgain(t *testing.T) {
	withLine(t, 10*time.Second, func(t *testing.T, l *line) {
		cut := l.Next(proxy.CreateOp, proxy.CutAfterCommit)
		barrier := l.Next(proxy.CheckOp, proxy.HoldRequest)
		var made Claimed
		claimed := async(func() (err error) {
			made, err = claimOne(within(t, 20*time.Second), l.client, l.sess, l.want(3))
			return err
		})
		fired(t, cut, barrier)
		must(t, l.witness.Client().Delete(l.dir+"/"+l.children(t)[1], -1))
		barrier.Release()
		must(t, result(t, 20*time.Second, "claim", claimed))
		test.Eventually(t, 10*time.Second, "what was left of the first is gone", func() bool { return len(l.children(t)) == 3 })
		l.isTheLine(t, made, 3)
	})
}

func (l *line) cutBarrier() []*proxy.Fault {
	return []*proxy.Fault{
		l.Next(proxy.CheckOp, proxy.CutBefore),
		l.Nth(proxy.CheckOp, 2, proxy.CutAfterCommit),
	}
}

func (l *line) cutListing() []*proxy.Fault {
	return []*proxy.Fault{
		l.Next(proxy.ListOp, proxy.CutAfterCommit),
		l.Nth(proxy.ListOp, 2, proxy.CutBefore),
	}
}

// The server may not have applied the create yet, so the barrier is sent first, and the same server
// must answer both.
func TestTheBarrierComesBeforeTheSearch(t *testing.T) {
	withLine(t, 10*time.Second, func(t *testing.T, l *line) {
		cut := l.Next(proxy.CreateOp, proxy.CutAfterCommit)
		barrier := l.Next(proxy.CheckOp, proxy.HoldReply)
		claimed := l.claiming(within(t, 20*time.Second), 1)
		fired(t, cut, barrier)
		if n := l.Seen(proxy.ListOp); n != 0 {
			t.Errorf("%d listings before the barrier was answered", n)
		}
		// The connection to the server that answered the barrier is lost. The listing of another
		// server proves nothing.
		barrier.Release()
		again := l.Next(proxy.ListOp, proxy.CutBefore)
		must(t, result(t, 10*time.Second, "claim", claimed))
		select {
		case <-again.Fired():
			if n := l.Seen(proxy.CheckOp); n < 2 {
				t.Errorf("%d barriers for two servers", n)
			}
		default: // the request was faster
		}
		if n := len(l.children(t)); n != 1 {
			t.Errorf("%d nodes", n)
		}
	})
}

func TestACanceledClaimLeavesNothing(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(*line) *proxy.Fault // the test cancels the claim when this fault fires
		then    func(*line)
	}{
		"its reply is late":   {func(l *line) *proxy.Fault { return l.Next(proxy.CreateOp, proxy.HoldReply) }, nil},
		"its request is late": {func(l *line) *proxy.Fault { return l.Next(proxy.CreateOp, proxy.HoldRequest) }, nil},
		"its reply is lost":   {func(l *line) *proxy.Fault { return l.Next(proxy.CreateOp, proxy.HoldReply) }, func(l *line) { l.Cut() }},
		"its barrier is late": {func(l *line) *proxy.Fault {
			l.Next(proxy.CreateOp, proxy.CutAfterCommit)
			return l.Next(proxy.CheckOp, proxy.HoldReply)
		}, nil},
		"its listing is lost": {func(l *line) *proxy.Fault {
			l.Next(proxy.CreateOp, proxy.CutAfterCommit)
			return l.Next(proxy.ListOp, proxy.HoldReply)
		}, func(l *line) { l.Cut() }},
		"the server goes away": {func(l *line) *proxy.Fault { return l.Next(proxy.CreateOp, proxy.HoldReply) }, func(l *line) {
			l.Refuse()
			_ = l.Accept()
		}},
	} {
		for _, nodes := range []int{1, 3} {
			t.Run(fmt.Sprintf("%s, %d", name, nodes), func(t *testing.T) {
				withLine(t, 10*time.Second, func(t *testing.T, l *line) {
					f := c.prepare(l)
					ctx, cancel := context.WithCancel(context.Background())
					claimed := l.claiming(ctx, nodes)
					fired(t, f)
					if name == "its reply is late" {
						if n := len(l.children(t)); n != nodes {
							t.Fatalf("%d nodes exist, want %d", n, nodes)
						}
					}
					cancel()
					mustBe(t, result(t, time.Second, "claim", claimed), context.Canceled)
					if c.then != nil {
						c.then(l)
					}
					f.Release()
					// The late request may still be under way, so wait until the server has
					// received it.
					test.Eventually(t, 10*time.Second, "the create has arrived", func() bool { return l.Seen(proxy.CreateOp) > 0 })
					test.Eventually(t, 10*time.Second, "its nodes are being deleted", func() bool { return l.Seen(proxy.DeleteOp) > 0 })
					test.AssertEmpty(t, l.witness.Client(), l.dir)
					if l.conn.Session() != l.sess {
						t.Error("the session is another: its end has swept up")
					}
				})
			})
		}
	}
}

// A client that may not list the directory cannot search for its nodes. But it has the reply, which
// names them.
func TestACanceledClaimThatMayNotListLeavesNothing(t *testing.T) {
	withLine(t, 10*time.Second, func(t *testing.T, l *line) {
		_, err := l.witness.Client().SetACL(l.dir, zk.WorldACL(zk.PermAll&^zk.PermRead), -1)
		must(t, err)
		hold := l.Next(proxy.CreateOp, proxy.HoldReply)
		ctx, cancel := context.WithCancel(context.Background())
		claimed := l.claiming(ctx, 3)
		fired(t, hold)
		cancel()
		mustBe(t, result(t, time.Second, "claim", claimed), context.Canceled)
		hold.Release()
		test.Eventually(t, 10*time.Second, "its nodes are being deleted", func() bool { return l.Seen(proxy.DeleteOp) > 0 })
		_, err = l.witness.Client().SetACL(l.dir, open, -1)
		must(t, err)
		test.AssertEmpty(t, l.witness.Client(), l.dir)
	})
}

func TestARefusedClaimLeavesNothing(t *testing.T) {
	withLine(t, 10*time.Second, func(t *testing.T, l *line) {
		ctx := within(t, 10*time.Second)
		nowhere := l.want(2)
		nowhere.Dir += "/nowhere"
		_, err := claimOne(ctx, l.client, l.sess, nowhere)
		mustBe(t, err, zk.ErrNoNode)
		changed := l.want(2)
		changed.Check = &zk.CheckVersionRequest{Path: l.dir, Version: 3}
		_, err = claimOne(ctx, l.client, l.sess, changed)
		mustBe(t, err, zk.ErrBadVersion)
		private := l.want(1)
		private.ACL = nil
		_, err = claimOne(ctx, l.client, l.sess, private)
		mustBe(t, err, zk.ErrInvalidACL)
		_, err = claimOne(ctx, l.client, l.sess+1, l.want(1))
		mustBe(t, err, ErrOver)
		l.empty(t)
	})
}

// Claim does not adopt nodes of other clients with a similar or forged name.
func TestOnlyNodesOfTheClaimAreFound(t *testing.T) {
	withLine(t, 10*time.Second, func(t *testing.T, l *line) {
		for _, name := range []string{"_c_", "_c_x", "_c_x-lock-0000000000", "lock-0000000001", "README"} {
			_, err := l.witness.Client().Create(l.dir+"/"+name, nil, 0, open)
			must(t, err)
		}
		f := l.Next(proxy.CreateOp, proxy.CutBefore)
		made, err := claimOne(within(t, 10*time.Second), l.client, l.sess, l.want(1))
		must(t, err)
		fired(t, f)
		_, stat, err := l.witness.Client().Exists(l.path(made.Nodes[0]))
		must(t, err)
		if len(made.Nodes) != 1 || stat.EphemeralOwner != l.sess {
			t.Errorf("%+v, %+v", made, stat)
		}
	})
}
