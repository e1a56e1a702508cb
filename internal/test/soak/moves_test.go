package soak

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/realzk"
	"github.com/zklocks/zklocks/rwlock"
)

// moves changes a real ensemble under thirty connections that follow its configuration. Each has a
// hold, and some contend for one lock. Two members are added, two old members are removed and
// killed, the others are restarted one by one, and all connections are spread again. No hold may be
// lost and no call may fail. moves prints how long connections were away, and how many each server
// has.
func moves(t *testing.T, o options) {
	e := realzk.Cluster(t, 3, realzk.Options{Tick: 500 * time.Millisecond, ForceSync: true, Dynamic: true})
	const clients = 30
	gaps := new(gaps)
	var conns []*zklocks.Conn
	var holds []*zklocks.Hold
	for i := range clients {
		conn, err := zklocks.Connect(t.Context(), e.Addrs(), 10*time.Second, zklocks.WithServersFromEnsemble(), gaps.option())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		hold, err := rwlock.New(conn, fmt.Sprintf("%s/own-%d", test.Path(t), i)).Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		conns, holds = append(conns, conn), append(holds, hold)
	}
	admin := conns[0].Client()

	done := make(chan struct{})
	var contenders sync.WaitGroup
	for i := range 8 {
		contenders.Go(func() {
			lock := rwlock.New(conns[i], test.Path(t)+"/busy")
			for {
				select {
				case <-done:
					return
				default:
				}
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

	for range 10 {
		for _, conn := range conns[:6] {
			conn.Rebalance()
		}
	}
	gaps.print(t, "60 calls of Rebalance under contention")

	var lines []string
	for range 2 {
		s, line, err := e.Add()
		if err != nil {
			t.Fatal(err)
		}
		if !test.Poll(patience, func() bool {
			_, err = admin.IncrementalReconfig([]string{line}, nil, -1)
			return err == nil
		}) {
			t.Fatalf("add %s: %v", line, err)
		}
		lines = append(lines, s.Addr())
	}
	settle(t, conns, func() bool { return slices.ContainsFunc(lines, func(a string) bool { return count(conns)[a] > 0 }) })
	gaps.print(t, "3 to 5 members")
	even(t, conns, e.Addrs())

	leader, err := e.Leader()
	if err != nil {
		t.Fatal(err)
	}
	var old []*realzk.Server
	for _, s := range e.Servers()[:3] {
		if s != leader && len(old) < 2 {
			old = append(old, s)
		}
	}
	ids := make([]string, len(old))
	for i, s := range old {
		ids[i] = fmt.Sprint(slices.Index(e.Servers(), s) + 1)
	}
	if !test.Poll(patience, func() bool {
		_, err = admin.IncrementalReconfig(nil, ids, -1)
		return err == nil
	}) {
		t.Fatalf("remove %s: %v", ids, err)
	}
	settle(t, conns, func() bool {
		at := count(conns)
		return at[old[0].Addr()]+at[old[1].Addr()] == 0
	})
	var left []string
	for _, s := range e.Servers() {
		if !slices.Contains(old, s) {
			left = append(left, s.Addr())
		}
	}
	for _, s := range old {
		if err := s.Kill(); err != nil {
			t.Error(err)
		}
	}
	gaps.print(t, "5 to 3 members, two old ones killed")
	even(t, conns, left)

	if !o.short() {
		for _, s := range e.Servers() {
			if slices.Contains(old, s) {
				continue
			}
			if err := s.Kill(); err != nil {
				t.Error(err)
			}
			if err := s.Restart(); err != nil {
				t.Error(err)
			}
			if _, err := e.Leader(); err != nil {
				t.Error(err)
			}
		}
		gaps.print(t, "rolling restart")
		t.Logf("after it: %v", count(conns))
		var all sync.WaitGroup
		for _, conn := range conns {
			all.Go(conn.Rebalance)
		}
		all.Wait()
		gaps.print(t, "Rebalance of all")
		even(t, conns, left)
	}
	stop()
	for i, hold := range holds {
		if err := hold.Release(t.Context()); err != nil {
			t.Errorf("hold %d: %v", i, err)
		}
	}
}

// settle waits until the connections have followed a change: each waits up to five seconds, then
// moves at once.
func settle(t *testing.T, conns []*zklocks.Conn, enough func() bool) {
	t.Helper()
	time.Sleep(5*time.Second + 500*time.Millisecond) // real: the random pause of WithServersFromEnsemble
	if !test.Poll(patience, enough) {
		t.Errorf("the connections have not moved: %v", count(conns))
	}
}

// count returns how many connections each server has.
func count(conns []*zklocks.Conn) map[string]int {
	at := make(map[string]int)
	for _, conn := range conns {
		at[conn.Client().Server()]++
	}
	return at
}

// even fails if a server has more than three times the mean; chance alone exceeds twice the mean of
// thirty in one run of seventy.
func even(t *testing.T, conns []*zklocks.Conn, servers []string) {
	t.Helper()
	at := count(conns)
	t.Logf("connections at each server: %v", at)
	for addr, n := range at {
		if !slices.Contains(servers, addr) || n > 3*len(conns)/len(servers) {
			t.Errorf("%d of %d connections are at %s, servers are %s", n, len(conns), addr, strings.Join(servers, " "))
		}
	}
}

// gaps records how long connections are away.
type gaps struct {
	mu  sync.Mutex
	all []time.Duration
}

// option records the gaps of one connection.
func (g *gaps) option() zklocks.ConnectOption {
	var lost time.Time
	return zklocks.WithSessionEvents(func(e zk.Event) {
		g.mu.Lock()
		defer g.mu.Unlock()
		switch {
		case e.State == zk.StateDisconnected:
			lost = time.Now()
		case e.State == zk.StateHasSession && !lost.IsZero():
			g.all = append(g.all, time.Since(lost))
			lost = time.Time{}
		}
	})
}

// print logs the gaps since the last print.
func (g *gaps) print(t *testing.T, what string) {
	t.Helper()
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.all) == 0 {
		t.Logf("%s: no connection has moved", what)
		return
	}
	slices.Sort(g.all)
	t.Logf("%s: %d moved; away %v in the median, %v at most", what, len(g.all),
		g.all[len(g.all)/2].Round(100*time.Microsecond), g.all[len(g.all)-1].Round(100*time.Microsecond))
	g.all = nil
}
