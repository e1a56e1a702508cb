package soak

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/realzk"
	"github.com/zklocks/zklocks/rwlock"
)

// moves changes a real ensemble under connections that follow its configuration. Each has a hold, and
// some contend for one lock. Connections are moved, a member is added, another is removed and killed,
// and in a run of full size the others are restarted one by one. No hold may be lost and no call may
// fail. How the connections are spread is tested in memory, in zktest.
func moves(t *testing.T, o options) {
	e := realzk.Cluster(t, 3, realzk.Options{Tick: 500 * time.Millisecond, ForceSync: true, Dynamic: true})
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	var conns []*zklocks.Conn
	var holds []*zklocks.Hold
	for i := range 30 {
		conn, err := zklocks.Connect(t.Context(), e.Addrs(), 10*time.Second, zklocks.WithServersFromEnsemble())
		must(err)
		defer conn.Close()
		hold, err := rwlock.New(conn, fmt.Sprintf("%s/own-%d", test.Path(t), i)).Lock(t.Context())
		must(err)
		conns, holds = append(conns, conn), append(holds, hold)
	}
	done, path := make(chan struct{}), test.Path(t)
	var contenders sync.WaitGroup
	for _, conn := range conns[:4] {
		contenders.Go(func() {
			for lock := rwlock.New(conn, path); !closed(done); {
				hold, err := lock.Lock(t.Context())
				if err == nil {
					err = hold.Release(t.Context())
				}
				if err != nil {
					t.Errorf("a cycle under contention: %v", err)
					return
				}
			}
		})
	}
	stop := sync.OnceFunc(func() { close(done); contenders.Wait() })
	defer stop()
	at := func(addr string) (n int) {
		for _, conn := range conns {
			if conn.Client().Server() == addr {
				n++
			}
		}
		return n
	}
	reconfigured := func(what string, joins, leaves []string) {
		t.Helper()
		var err error
		if !test.Poll(patience, func() bool {
			_, err = conns[0].Client().IncrementalReconfig(joins, leaves, -1)
			return err == nil
		}) {
			t.Fatalf("%s: %v", what, err)
		}
	}

	for range 10 {
		for _, conn := range conns {
			conn.Rebalance()
		}
	}
	added, line, err := e.Add()
	must(err)
	reconfigured("add", []string{line}, nil)
	test.Eventually(t, patience, "connections move to the new member", func() bool { return at(added.Addr()) > 0 })

	leader, err := e.Leader()
	must(err)
	old := slices.IndexFunc(e.Servers(), func(s *realzk.Server) bool { return s != leader && s != added })
	removed := e.Servers()[old]
	reconfigured("remove", nil, []string{fmt.Sprint(old + 1)})
	test.Eventually(t, patience, "the connections leave the old member", func() bool { return at(removed.Addr()) == 0 })
	must(removed.Kill())

	for _, s := range e.Servers() {
		if s != removed && !o.short() {
			must(s.Restart())
			_, err := e.Leader()
			must(err)
		}
	}
	stop()
	for i, hold := range holds {
		if err := hold.Release(t.Context()); err != nil {
			t.Errorf("hold %d: %v", i, err)
		}
	}
}
