package zkclient

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/internal/test/venue"
	"github.com/zklocks/zklocks/internal/wire"
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
		// All are gone, and the directory: the next create says so.
		cut, barrier = l.Next(proxy.CreateOp, proxy.CutAfterCommit), l.Next(proxy.CheckOp, proxy.HoldRequest)
		claimed = l.claiming(within(t, 20*time.Second), 1)
		fired(t, cut, barrier)
		for _, name := range l.children(t) {
			must(t, l.witness.Client().Delete(l.dir+"/"+name, -1))
		}
		must(t, l.witness.Client().Delete(l.dir, -1))
		barrier.Release()
		if err := result(t, 20*time.Second, "claim", claimed); err != zk.ErrNoNode {
			t.Error(err)
		}
	})
}

// The reply is lost, and the server refuses to list two of the directories: the error names the
// first. What is found is deleted at once, the rest when the server lists again.
func TestAClaimWhoseSearchIsRefused(t *testing.T) {
	t.Run("the second of three", func(t *testing.T) { claimsUnlisted(t, false) })
	t.Run("the second and the third", func(t *testing.T) { claimsUnlisted(t, true) })
}

func claimsUnlisted(t *testing.T, third bool) {
	withLine(t, 10*time.Second, func(t *testing.T, l *line) {
		rights := func(dir string, perms int32) {
			must(t, errOf(l.witness.Client().SetACL(dir, zk.WorldACL(perms), -1)))
		}
		claims := []Claim{l.want(1), l.want(2), l.want(1)}
		for i := range claims[1:] {
			claims[1+i].Dir += fmt.Sprint("-", i)
			must(t, errOf(l.witness.Client().Create(claims[1+i].Dir, nil, 0, open)))
		}
		cut, barrier := l.Next(proxy.CreateOp, proxy.CutAfterCommit), l.Next(proxy.CheckOp, proxy.HoldRequest)
		var at Step
		claimed := async(func() (err error) {
			_, at, err = l.client.Claim(within(t, 20*time.Second), l.sess, claims...)
			return err
		})
		fired(t, cut, barrier)
		rights(claims[1].Dir, zk.PermAll&^zk.PermRead)
		if third {
			rights(claims[2].Dir, zk.PermAll&^zk.PermRead)
		}
		barrier.Release()
		err := result(t, 20*time.Second, "claim", claimed)
		if !errors.As(err, new(*Unfound)) || !errors.Is(err, zk.ErrNoAuth) || at.Claim != 1 {
			t.Errorf("%v at %+v", err, at)
		}
		time.Sleep(time.Second) // virtual
		l.empty(t)
		if !third {
			test.AssertEmpty(t, l.witness.Client(), claims[2].Dir)
		}
		rights(claims[1].Dir, zk.PermAll)
		time.Sleep(firstWait) // virtual
		test.AssertEmpty(t, l.witness.Client(), claims[1].Dir)
		rights(claims[2].Dir, zk.PermAll)
		time.Sleep(2 * firstWait) // virtual
		test.AssertEmpty(t, l.witness.Client(), claims[2].Dir)
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

// The reply to the create is lost, and the client reconnects to another server, which has not
// applied the create yet. Without a barrier the search would find nothing, and the client would
// create a second node.
func TestAClaimIsFoundOnAnotherMember(t *testing.T) {
	for _, c := range []struct {
		delay   time.Duration
		actions []proxy.Action
	}{
		{200 * time.Millisecond, []proxy.Action{proxy.CutOnSend}}, // the client is connected again before the create is committed
		{0, []proxy.Action{proxy.CutOnSend, proxy.CutAfterCommit}},
	} {
		t.Run(fmt.Sprintf("commits take %v", c.delay), func(t *testing.T) {
			t.Parallel()
			venue.Both(t, func(t *testing.T, v venue.Venue) {
				ensemble := v.Cluster(t, 3, venue.Options{CommitDelay: c.delay})
				followers, err := ensemble.Followers()
				must(t, err)
				l := newLineAt(t, v, 20*time.Second, followers[0].Addr())
				rounds := 40
				if !v.Virtual() {
					rounds = 8 // to check that real members behave like those in memory
				}
				for round := range rounds {
					nodes := 1 + round%3
					l.SetTarget(followers[(round+1)%2].Addr())
					f := l.Next(proxy.CreateOp, c.actions[round/2%len(c.actions)])
					made, err := claimOne(within(t, 20*time.Second), l.client, l.sess, l.want(nodes))
					must(t, err)
					fired(t, f)
					// A busy member may have forwarded a create of the round before only now.
					test.Eventually(t, 20*time.Second, "only this claim", func() bool { return len(l.children(t)) == nodes })
					l.isTheLine(t, made, nodes)
					must(t, result(t, 20*time.Second, "remove", l.client.Remove(l.sess, Removal{Dir: l.dir, Nodes: made.Nodes})))
					test.Eventually(t, 20*time.Second, "nothing", func() bool { return len(l.children(t)) == 0 })
				}
				if l.conn.Session() != l.sess {
					t.Error("the session is another")
				}
			})
		})
	}
}

// A server reads the transaction of a Replace and does not forward it until the session has moved
// to another server, which has dropped a second one, and has come back. Then the leader executes
// the first, and refuses the third, because the old node is gone.
func TestAReplaceThatAServerForwardsMuchLaterSucceeds(t *testing.T) {
	venue.InMemory(t, func(t *testing.T, v venue.Venue) {
		followers, err := v.Cluster(t, 3, venue.Options{}).Followers()
		must(t, err)
		l := newLineAt(t, v, 20*time.Second, followers[0].Addr())
		old := l.claim(t, 1)[0]
		flow := followers[0].(interface{ Stall() (flow func()) }).Stall()
		l.SetTarget(followers[1].Addr())
		first, second := l.Next(proxy.MoveOp, proxy.CutOnSend), l.Next(proxy.MoveOp, throttled)
		replaced := async(func() error { return l.client.Replace(l.sess, l.dir, old, old.As(znode.Read), nil, open) })
		fired(t, first, second)
		before := l.Seen(proxy.MoveOp)
		l.SetTarget(followers[0].Addr())
		l.Cut()
		test.Eventually(t, 10*time.Second, "the third is sent", func() bool { return l.Seen(proxy.MoveOp) > before })
		flow()
		must(t, result(t, 10*time.Second, "replace", replaced))
		if left := l.children(t); len(left) != 1 || left[0] != old.As(znode.Read).Name {
			t.Errorf("left: %q", left)
		}
	})
}

// A server reads a create and does not forward it until the session has moved to another server,
// which has executed a second create, and has come back. Then the leader executes the first.
func TestACreateThatAServerForwardsMuchLaterLeavesNoNode(t *testing.T) {
	venue.InMemory(t, func(t *testing.T, v venue.Venue) {
		followers, err := v.Cluster(t, 3, venue.Options{}).Followers()
		must(t, err)
		l := newLineAt(t, v, 20*time.Second, followers[0].Addr())
		flow := followers[0].(interface{ Stall() (flow func()) }).Stall()
		l.SetTarget(followers[1].Addr())
		f := l.Next(proxy.CreateOp, proxy.CutOnSend)
		made := l.claim(t, 2)
		fired(t, f)
		l.SetTarget(followers[0].Addr())
		l.Cut()
		test.Eventually(t, 10*time.Second, "the session is back", func() bool { return l.conn.Server() == l.Addr() && l.Seen(proxy.ConnectOp) == 3 })
		flow()
		test.Eventually(t, 10*time.Second, "only the second claim is left", func() bool { return len(l.children(t)) == 2 })
		l.isTheLine(t, Claimed{Nodes: made}, 2)
	})
}

// The header of the reply to a create has the node's czxid, on the leader and on its followers,
// while other clients write.
func TestTheHeaderOfAReplyHasTheZxid(t *testing.T) {
	t.Parallel()
	venue.Both(t, func(t *testing.T, v venue.Venue) {
		// The timeouts are long, so that servers and clients on a busy machine do not lose each
		// other.
		const patience = 20 * time.Second
		members := v.Cluster(t, 3, venue.Options{SyncLimit: patience}).Addrs()
		dir := test.Path(t)
		_, err := v.Connect(t, 3*patience, members...).Client().Create(dir, nil, zk.FlagPersistent, open)
		must(t, err)
		// Connect all first: connecting takes time, and in a bubble no time passes while a
		// goroutine below runs without blocking.
		var conns []*wire.Conn
		for _, member := range members {
			conns = append(conns, v.Connect(t, 3*patience, member))
		}
		var all sync.WaitGroup
		for _, conn := range conns {
			for range 4 {
				all.Go(func() {
					c := Of(conn)
					for range 25 {
						made, err := claimOne(t.Context(), c, conn.Session(), Claim{Dir: dir, Kind: znode.Read, Nodes: 1, ACL: open})
						if err != nil {
							t.Error(err)
							return
						}
						_, stat, err := conn.Client().Exists(dir + "/" + made.Nodes[0].Name)
						if err != nil || stat.Czxid != made.Zxid {
							t.Errorf("czxid %+v, header %d, %v", stat, made.Zxid, err)
						}
						<-c.Remove(conn.Session(), Removal{Dir: dir, Nodes: made.Nodes})
					}
				})
			}
		}
		all.Wait()
	})
}

// Size is at least the size of the claim's operations.
func TestTheSizeOfAClaim(t *testing.T) {
	claim := Claim{Dir: "/jobs", Kind: znode.Lock, Data: make([]byte, 1000), ACL: open, Touch: true, Check: &zk.CheckVersionRequest{Path: strings.Repeat("/x", 200)}}
	for _, claim.Nodes = range []int{1, 2, 900} {
		if size, ops := claim.Size(), Size(newClaimTry(nil, 1, []Claim{claim}).ops); size < ops || size > ops+20*claim.Nodes+100 {
			t.Errorf("%d nodes: %d, the operations have %d", claim.Nodes, size, ops)
		}
	}
	if claim.Nodes = math.MaxInt; claim.Size() <= MaxRequest {
		t.Error("as many nodes as there are numbers fit into a request")
	}
}

// Each path that a server returns for a created node is parsed as a node with a usable sequence
// number, or as a node without any.
func FuzzMadeNodes(f *testing.F) {
	claim := Claim{Dir: "/jobs/nightly", Kind: znode.Lock, Nodes: 1}
	try := newClaimTry(nil, 1, []Claim{claim})
	for _, path := range []string{
		claim.Dir + "/" + znode.Prefix(znode.NewID(), znode.Lock) + "0000000007", claim.Dir, claim.Dir + "/", "/", "x", "/jobs",
		claim.Dir + "/lock--2147483648", claim.Dir + "/../a",
	} {
		f.Add(path)
	}
	f.Fuzz(func(t *testing.T, path string) {
		for _, n := range try.read(wire.Reply{Path: path})[0].Nodes {
			if again, ok := znode.Parse(n.Name, znode.Lock); ok && again != n || !ok && n.Usable() == nil {
				t.Errorf("%q was read as %+v", path, n)
			}
		}
	})
}
