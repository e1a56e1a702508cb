package queue

import (
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/test/venue"
	"github.com/zklocks/zklocks/internal/zkclient"
	"github.com/zklocks/zklocks/internal/znode"
)

// accompanied has a member make its node, and look at the line for those who may
// come along.
func (x *place) accompanied() *member {
	x.Helper()
	m := x.enter()
	m.entry.Company = &Company{Overtakes: func(znode.Node) bool { return true }}
	return m
}

func (x *place) looks(m *member) {
	x.Helper()
	epoch := x.line.client.Epoch()
	if _, _, err := m.list(x.Context(), epoch); err != nil {
		x.Fatal(err)
	}
}

// Whatever might mean that somebody stands behind whom they would overtake ends
// the coming along.
func TestWhoMayComeAlong(t *testing.T) {
	announce := func(x *place) { x.must(x.witness.Set(x.line.dir, nil, -1)) }
	heard := func(x *place, m *member) {
		x.until("it is told", func() bool { _, fired := m.entry.Company.Arrivals().Fired(); return fired })
	}
	for name, c := range map[string]struct {
		happen  func(*place, *member)
		welcome bool
	}{
		"before the first look": {func(*place, *member) {}, true},
		"after a look":          {(*place).looks, true},
		"somebody comes whom they do not overtake": {func(x *place, m *member) {
			x.looks(m)
			x.enter()
		}, true},
		"somebody announces himself": {func(x *place, m *member) {
			x.looks(m)
			announce(x)
			heard(x, m)
		}, false},
		"somebody stands behind already": {func(x *place, m *member) {
			x.enter()
			x.looks(m)
		}, false},
		"somebody came between the listing and the watch": {func(x *place, m *member) {
			epoch := x.line.client.Epoch()
			line, dir, err := x.line.list(x.Context(), m.sess)
			x.must(nil, err)
			x.enter()
			announce(x)
			m.entry.Company.looked(m, line, dir, x.line.arrivals(x.Context(), m.sess), epoch)
		}, false},
		"there is no watch": {func(x *place, m *member) {
			epoch := x.line.client.Epoch()
			line, dir, err := x.line.list(x.Context(), m.sess)
			x.must(nil, err)
			m.entry.Company.looked(m, line, dir, nil, epoch)
		}, false},
		"there is no connection": {func(x *place, m *member) {
			x.looks(m)
			x.proxy.Refuse()
			x.until("it is told", func() bool { return x.conn.State() != zk.StateHasSession })
		}, false},
		"the connection is made anew": {func(x *place, m *member) {
			x.looks(m)
			before := x.line.client.Epoch()
			x.proxy.Cut()
			x.until("it is up again", func() bool {
				now := x.line.client.Epoch()
				return now != before && x.line.client.Up(m.sess)
			})
		}, false},
		"the session ends": {func(x *place, m *member) {
			x.looks(m)
			x.venue.Expire(x, x.conn)
			x.until("another session", func() bool { id := x.conn.SessionID(); return id != 0 && id != m.sess })
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			venue.InMemory(t, func(t *testing.T, v venue.Venue) {
				x := newPlaceInLine(t, v, 10*time.Second)
				m := x.accompanied()
				c.happen(x, m)
				if got := m.entry.Company.Welcome(); got != c.welcome {
					t.Errorf("welcome: %v", got)
				}
			})
		})
	}
}

// Calm is a look that has shown nobody who announces himself, neither ahead nor
// behind, with a watch that is sure to be ordered before whatever comes later.
func TestWhatIsCalm(t *testing.T) {
	for name, c := range map[string]struct {
		happen func(*place, *member)
		calm   bool
	}{
		"nobody is there": {(*place).looks, true},
		"somebody stands ahead": {func(x *place, m *member) {
			m.nodes = x.enter().nodes
			x.looks(m)
		}, false},
		"somebody stands behind": {func(x *place, m *member) {
			x.enter()
			x.looks(m)
		}, false},
		"somebody has come since": {func(x *place, m *member) {
			x.looks(m)
			x.must(x.witness.Set(x.line.dir, nil, -1))
			x.until("it is told", func() bool { _, fired := m.entry.Company.Arrivals().Fired(); return fired })
		}, false},
		"the connection was made anew, and then looked at": {func(x *place, m *member) {
			x.line.arrivals(x.Context(), m.sess)
			before := x.line.client.Epoch()
			x.proxy.Cut()
			x.until("it is up again", func() bool {
				now := x.line.client.Epoch()
				return now != before && x.line.client.Up(m.sess)
			})
			x.looks(m)
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			venue.InMemory(t, func(t *testing.T, v venue.Venue) {
				x := newPlaceInLine(t, v, 10*time.Second)
				m := x.accompanied()
				m.entry.Company.Calm = new(Calm)
				m.entry.Company.Overtakes = func(n znode.Node) bool { return n.Name != m.nodes[0].Name }
				c.happen(x, m)
				epoch := x.line.client.Epoch()
				next := Company{Calm: m.entry.Company.Calm}
				if got := next.joinsCalm(m.sess, epoch); got != c.calm {
					t.Errorf("calm: %v", got)
				}
				if next.joinsCalm(m.sess+1, epoch) || next.joinsCalm(m.sess, epoch+1) {
					t.Error("calm in another session, or after a reconnect")
				}
			})
		})
	}
}

// What the header of a reply says is the token only where it has been seen to be.
func TestATokenFromAHeaderIsComparedFirst(t *testing.T) {
	t.Parallel()
	venue.InMemory(t, func(t *testing.T, v venue.Venue) {
		x := newPlaceInLine(t, v, 10*time.Second)
		enter := func(header int64) int64 {
			m := x.enter()
			m.entry.Terms = Fixed(Rule{Blocks: func(znode.Node) bool { return false }})
			epoch := x.line.client.Epoch()
			terms, err := m.entry.Terms(t.Context(), m.sess)
			x.must(nil, err)
			p, err := m.take(t.Context(), zkclient.Claimed{Nodes: m.nodes, Zxid: header}, terms, epoch, false)
			x.must(nil, err)
			_, stat, err := x.witness.Exists(x.line.path(m.nodes[0]))
			x.must(nil, err)
			return p.Token() - stat.Czxid
		}
		for _, header := range []int64{1, 2} {
			if off := enter(header); off != 0 {
				t.Errorf("a header of %d makes a token that is %d off", header, off)
			}
		}
	})
}
