package contract

import (
	"context"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/slot"
	"github.com/zklocks/zklocks/observe"
)

var defaults = []scenario{
	{"options given to Connect are those of all its locks", defaultsOfConnect, single},
}

// connection connects as programs do.
func (s *scene) connection(opts ...zklocks.ConnectOption) *zklocks.Conn {
	s.Helper()
	for _, o := range s.Venue.Dialer() {
		opts = append(opts, slot.Connect{Wire: o})
	}
	conn, err := zklocks.Connect(s.Ctx, []string{s.Server}, session, opts...)
	s.Must(err)
	s.Cleanup(func() {
		if err := conn.Close(); err != nil {
			s.Error(err)
		}
	})
	return conn
}

// during takes a lock, and shows its node meanwhile.
func (s *scene) during(l Locker, look func(zklocks.Member, []zk.ACL)) {
	s.Helper()
	s.Must(zklocks.Do(s.Ctx, l.Lock, func(ctx context.Context, h *zklocks.Hold) error {
		members, err := l.Queue(ctx)
		if err != nil {
			return err
		}
		if len(members) != 1 || members[0].Path != NodeOf(h) || members[0].Token != h.Token() {
			s.Fatalf("queue %+v, want the node %s, token %d, alone", members, NodeOf(h), h.Token())
		}
		acl, _, err := s.Witness.GetACL(members[0].Path)
		if err != nil {
			return err
		}
		look(members[0], acl)
		return nil
	}))
	s.EmptyNow()
}

func defaultsOfConnect(s *scene) {
	all, own := NewEvents(s), NewEvents(s)
	world, ours := zk.WorldACL(zk.PermAll), append(zk.WorldACL(zk.PermAll), zk.DigestACL(zk.PermAll, "ann", "secret")...)
	conn := s.connection(zklocks.WithData([]byte("ours")), zklocks.WithACL(ours), zklocks.WithObserver(all.Observer()))
	wants := func(data string, list []zk.ACL) func(zklocks.Member, []zk.ACL) {
		return func(m zklocks.Member, acl []zk.ACL) {
			s.Helper()
			if string(m.Data) != data || !slices.Equal(acl, list) {
				s.Errorf("data %q, list %v, want %q, %v", m.Data, acl, data, list)
			}
		}
	}
	plain := s.r.New(conn, s.Path)
	special := s.r.New(conn, s.Path, zklocks.WithObserver(own.Observer()), zklocks.WithACL(world), zklocks.WithData([]byte("mine")))
	for i, row := range []struct {
		lock Locker
		data string
		acl  []zk.ACL
		own  int // how many grants the observer has recorded until then
	}{
		{plain, "ours", ours, 0},
		{special, "mine", world, 1},
		{plain, "ours", ours, 1},
		{s.r.New(conn, s.Path), "ours", ours, 1}, // an option of one lock is not a default of the others
		{s.r.New(conn, s.Path, zklocks.WithData(nil)), "", ours, 1},
	} {
		s.during(row.lock, wants(row.data, row.acl))
		Next[observe.Released](all, i+1) // the observers of Connect and of the lock get the events
		if n := len(Of[observe.Released](own)); n != row.own {
			s.Errorf("lock %d: the observer of the second is told of %d holds, want %d", i, n, row.own)
		}
	}
	all.Balanced()
	own.Balanced()
}
