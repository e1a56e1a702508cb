package queue

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/hold"
	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/internal/test/venue"
	"github.com/zklocks/zklocks/internal/zkclient"
	"github.com/zklocks/zklocks/internal/znode"
)

// place is where a test has somebody stand in line, and a witness who is not.
type place struct {
	*testing.T
	venue   venue.Venue
	proxy   *proxy.Proxy
	conn    *zk.Conn
	line    *Line
	witness *zk.Conn
}

func newPlaceInLine(t *testing.T, v venue.Venue, timeout time.Duration) *place {
	t.Helper()
	server := v.Servers(t)[0]
	p := v.Proxy(t, server)
	x := &place{T: t, venue: v, proxy: p, conn: v.Connect(t, timeout, p.Addr()), witness: v.Connect(t, 20*time.Second, server)}
	dir := test.Path(t)
	if _, err := x.witness.Create(dir, nil, zk.FlagPersistent, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
	var err error
	if x.line, err = NewLine(x.conn, dir, Default(), znode.Lock); err != nil {
		t.Fatal(err)
	}
	return x
}

// enter has a member make its node, as attempt does.
func (x *place) enter() *member {
	x.Helper()
	sess := x.conn.SessionID()
	made, err := x.line.client.Claim(x.Context(), sess, zkclient.Claim{Dir: x.line.dir, Kind: znode.Lock, Nodes: 1, ACL: zk.WorldACL(zk.PermAll)})
	if err != nil {
		x.Fatal(err)
	}
	m := &member{line: x.line, sess: sess, nodes: made.Nodes, lease: x.line.client.Keep(sess)}
	x.Cleanup(m.lease.End)
	return m
}

// lists has the member look at the line, and so watch its own node.
func (x *place) lists(m *member) {
	x.Helper()
	if _, _, err := m.list(x.Context(), 0); err != nil {
		x.Fatal(err)
	}
}

func (x *place) must(_ any, err error) {
	x.Helper()
	if err != nil {
		x.Fatal(err)
	}
}

func (x *place) until(what string, ok func() bool) {
	x.Helper()
	test.Eventually(x, 20*time.Second, what, ok)
}

// A connection that does not tell the token has the node read, and somebody may have
// written into that by then.
func TestTheTokenOfANodeThatWasWrittenInto(t *testing.T) {
	t.Parallel()
	venue.InMemory(t, func(t *testing.T, v venue.Venue) {
		x := newPlaceInLine(t, v, 20*time.Second)
		x.line.client.Compare(1, 2)
		m := x.enter()
		x.must(x.witness.Set(x.line.path(m.nodes[0]), []byte("x"), -1))
		x.lists(m)
		_, node, err := x.witness.Get(x.line.path(m.nodes[0]))
		x.must(nil, err)
		if m.token != node.Czxid || node.Mzxid == node.Czxid {
			t.Errorf("token %d, czxid %d, mzxid %d", m.token, node.Czxid, node.Mzxid)
		}
	})
}

// Each of these may come between what a member has read and its grant. Some have
// an event that waits in a channel, beside that of the last blocker.
func TestWhatForbidsAGrant(t *testing.T) {
	fired := func(w *zkclient.Watch) func() bool {
		return func() bool { _, fired := w.Fired(); return fired }
	}
	for name, c := range map[string]struct {
		listed bool // and so it watches its own node; a grant by the reply of the create comes without
		happen func(*place, *member, *Terms)
		want   error
	}{
		"nothing, before a listing": {false, func(*place, *member, *Terms) {}, nil},
		"nothing, after a listing":  {true, func(*place, *member, *Terms) {}, nil},
		"its node is deleted": {true, func(x *place, m *member, _ *Terms) {
			x.must(nil, x.witness.Delete(x.line.path(m.nodes[0]), -1))
			x.until("it is told", fired(m.own[0]))
		}, errRequeue},
		"somebody writes into its node": {true, func(x *place, m *member, _ *Terms) {
			x.must(x.witness.Set(x.line.path(m.nodes[0]), []byte("x"), -1))
			x.until("it is told", fired(m.own[0]))
		}, errAgain},
		"its session ends": {false, func(x *place, m *member, _ *Terms) {
			x.venue.Expire(x, x.conn)
			x.until("another session", func() bool { id := x.conn.SessionID(); return id != 0 && id != m.sess })
		}, errRequeue},
		"the connection is made anew": {true, func(x *place, _ *member, _ *Terms) {
			before := x.line.client.Epoch()
			x.proxy.Cut()
			x.until("another connection", func() bool { now := x.line.client.Epoch(); return now != before })
		}, errAgain},
		"the connection ends that it watches itself by": {true, func(x *place, m *member, _ *Terms) {
			var err error
			m.own, err = x.line.client.WatchAll(x.Context(), m.sess, x.line.pathsOf(m.nodes))
			x.must(nil, err)
			x.proxy.Cut()
			x.until("it is told", fired(m.own[0]))
		}, errAgain},
		"the session may have run out": {true, func(x *place, m *member, _ *Terms) {
			x.proxy.Mute()
			x.until("its deadline has passed", func() bool { return m.lease.Alive() != nil })
		}, errAgain},
		"the terms change": {true, func(x *place, m *member, terms *Terms) {
			w, err := x.line.client.Watch(x.Context(), m.sess, x.line.dir)
			x.must(nil, err)
			terms.Watch = w
			x.must(x.witness.Set(x.line.dir, []byte("x"), -1))
			x.until("it is told", fired(w))
		}, errAgain},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			venue.InMemory(t, func(t *testing.T, v venue.Venue) {
				x := newPlaceInLine(t, v, 3*time.Second)
				m := x.enter()
				if c.listed {
					x.lists(m)
				}
				epoch := x.line.client.Epoch()
				var terms Terms
				c.happen(x, m, &terms)
				if err := m.look(terms, epoch); !errors.Is(err, c.want) {
					t.Errorf("%v, want %v", err, c.want)
				}
			})
		})
	}
}

// A node of the same name may be there and belong to somebody else.
func TestANodeOfSomebodyElseIsNoPlace(t *testing.T) {
	t.Parallel()
	venue.InMemory(t, func(t *testing.T, v venue.Venue) {
		x := newPlaceInLine(t, v, 10*time.Second)
		m := x.enter()
		path := x.line.path(m.nodes[0])
		x.must(x.witness.Multi(
			&zk.DeleteRequest{Path: path, Version: -1},
			&zk.CreateRequest{Path: path, Acl: zk.WorldACL(zk.PermAll), Flags: zk.FlagEphemeral},
		))
		if _, _, err := m.list(t.Context(), 0); !errors.Is(err, errRequeue) {
			t.Errorf("%v, want %v", err, errRequeue)
		}
	})
}

// The server has numbered the node, and the number is one of the last.
func TestNobodyQueuesAtTheEndOfTheCounter(t *testing.T) {
	t.Parallel()
	venue.InMemory(t, func(t *testing.T, v venue.Venue) {
		x := newPlaceInLine(t, v, 10*time.Second)
		m := x.enter()
		m.entry.Terms = Fixed(Rule{Blocks: func(znode.Node) bool { return true }})
		made := zkclient.Claimed{Dir: &zk.Stat{NumChildren: 1, Mzxid: 1}}
		take := func() error {
			terms, err := m.entry.Terms(t.Context(), m.sess)
			x.must(nil, err)
			epoch := x.line.client.Epoch()
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			_, err = m.take(ctx, made, terms, epoch, false)
			return err
		}
		m.nodes[0].Seq = 1<<31 - 1<<20
		if err := take(); !errors.Is(err, znode.ErrSequence) {
			t.Errorf("%v, want %v", err, znode.ErrSequence)
		}
		m.nodes[0].Seq--
		if err := take(); err != nil {
			t.Errorf("the last number that is good: %v", err)
		}
	})
}

// What the reply of the create tells of the line counts only for the line that the
// terms were read with. One that was made anew may go with other terms, of the same
// version; then the line is listed, under terms that are read anew.
// The same for a listing.
func TestTheListingOfAnotherLineGrantsNothing(t *testing.T) {
	t.Parallel()
	venue.InMemory(t, func(t *testing.T, v venue.Venue) {
		x := newPlaceInLine(t, v, 10*time.Second)
		m := x.enter()
		_, dir, err := x.witness.Exists(x.line.dir)
		x.must(nil, err)
		dropped := 0
		terms := Terms{Rule: Rule{Blocks: func(znode.Node) bool { return true }}, Line: dir.Czxid - 1, Drop: func() { dropped++ }}
		m.entry.Terms = func(context.Context, int64) (Terms, error) { return terms, nil }
		if _, err := m.survey(t.Context(), true); !errors.Is(err, errAgain) || dropped != 1 {
			t.Errorf("%v, want %v; dropped %d times", err, errAgain, dropped)
		}
		terms.Line = dir.Czxid
		if _, err := m.survey(t.Context(), true); err != nil || dropped != 1 {
			t.Errorf("%v for the terms of this line; dropped %d times", err, dropped)
		}
	})
}

func TestTheReplyOfAnotherLineGrantsNothing(t *testing.T) {
	t.Parallel()
	venue.InMemory(t, func(t *testing.T, v venue.Venue) {
		x := newPlaceInLine(t, v, 10*time.Second)
		x.enter() // who holds, in truth
		for _, c := range []struct {
			line, of int64
			want     error
		}{
			{0, 2, nil}, // any line
			{2, 2, nil},
			{2, 3, hold.ErrBusy},
		} {
			m := x.enter()
			rule := Rule{Blocks: func(znode.Node) bool { return true }}
			m.entry.Terms = Fixed(rule)
			dropped := false
			terms := Terms{Rule: rule, Line: c.line, Drop: func() { dropped = true }}
			epoch := x.line.client.Epoch()
			made := zkclient.Claimed{Dir: &zk.Stat{NumChildren: 1, Czxid: c.of, Mzxid: 1}}
			_, err := m.take(t.Context(), made, terms, epoch, false)
			if !errors.Is(err, c.want) || dropped != (c.want != nil) {
				t.Errorf("terms of %d, line %d: %v, want %v; dropped: %v", c.line, c.of, err, c.want, dropped)
			}
		}
	})
}

// reflect.Select takes 65,536 cases: who waits behind more permits than that still hears the first that goes, the end
// of ctx, and doubt.
func TestAWaiterBehindMoreNodesThanASelectTakes(t *testing.T) {
	t.Parallel()
	venue.InMemory(t, func(t *testing.T, v venue.Venue) {
		x := newPlaceInLine(t, v, 20*time.Second)
		m, last := x.enter(), x.enter()
		const many = 70_000
		paths := make([]string, many)
		for i := range paths {
			paths[i] = x.line.path(m.nodes[0])
		}
		paths[many-1] = x.line.path(last.nodes[0])
		watches, err := x.line.client.WatchAll(t.Context(), m.sess, paths)
		x.must(nil, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if i, _, err := m.first(ctx, Terms{}, watches, nil); i != another || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("ctx ends: %d, %v", i, err)
		}
		if i, _, err := m.first(t.Context(), Terms{}, watches, time.After(time.Second)); i != doubted || err != nil {
			t.Errorf("doubt: %d, %v", i, err)
		}
		x.must(nil, x.witness.Delete(paths[many-1], -1))
		if i, event, err := m.first(t.Context(), Terms{}, watches, nil); i != many-1 || !zkclient.Gone(event) || err != nil {
			t.Errorf("the last of them goes: %d, %v, %v", i, event, err)
		}
		x.must(nil, x.witness.Delete(paths[0], -1))
		m.own = watches[:1]
		if i, event, err := m.first(t.Context(), Terms{}, watches[1:many-1], nil); !zkclient.Gone(event) || err != nil || i >= many-2 {
			t.Errorf("all others go: %d, %v, %v", i, event, err)
		}
	})
}
