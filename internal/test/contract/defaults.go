package contract

import (
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

func defaultsOfConnect(s *scene) {
	all, own := NewEvents(s), NewEvents(s)
	world, ours := zk.WorldACL(zk.PermAll), append(zk.WorldACL(zk.PermAll), zk.DigestACL(zk.PermAll, "ann", "secret")...)
	conn := s.connection(zklocks.WithData([]byte("ours")), zklocks.WithACL(ours), zklocks.WithObserver(all.Observer()))
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
		h, err := row.lock.Lock(s.Ctx)
		s.Must(err)
		members, err := row.lock.Queue(s.Ctx)
		s.Must(err)
		if len(members) != 1 || members[0].Path != NodeOf(h) || string(members[0].Data) != row.data {
			s.Fatalf("lock %d: queue %+v, want the node %s with the data %q", i, members, NodeOf(h), row.data)
		}
		acl, _, err := s.Witness.Client().GetACL(members[0].Path)
		s.Must(err)
		if !slices.Equal(acl, row.acl) {
			s.Errorf("lock %d: the list %v, want %v", i, acl, row.acl)
		}
		s.release(h)
		Next[observe.Released](all, i+1) // the observers of Connect and of the lock get the events
		if n := len(Of[observe.Released](own)); n != row.own {
			s.Errorf("lock %d: the observer of the second is notified of %d holds, want %d", i, n, row.own)
		}
	}
	all.Balanced()
	own.Balanced()
}
