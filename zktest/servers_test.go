package zktest_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/slot"
	"github.com/zklocks/zklocks/rwlock"
	"github.com/zklocks/zklocks/zktest"
)

// at returns the address of the server to which a connection is connected.
func at(conn *zklocks.Conn) string { return slot.Wire(conn).Server() }

// A hundred clients use all servers about evenly: after members were added, after members were
// removed, and after a rolling restart and Rebalance. No hold is lost.
func TestAHundredClientsUseAllServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.NewServer(t, zktest.WithMembers(3))
		var conns []*zklocks.Conn
		var holds []*zklocks.Hold
		for i := range 100 {
			conn := s.Host(fmt.Sprint("h", i)).Connect(t, 10*time.Second)
			hold, err := rwlock.New(conn, fmt.Sprint("/own/", i)).Lock(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			conns, holds = append(conns, conn), append(holds, hold)
		}
		even := func(when string) {
			t.Helper()
			time.Sleep(time.Second)
			counts := map[string]int{}
			for _, conn := range conns {
				counts[at(conn)]++
			}
			for _, addr := range s.Addrs() {
				if n := counts[addr]; n > 2*len(conns)/len(s.Addrs()) {
					t.Errorf("%s: %d of %d clients are at one of %d servers: %v", when, n, len(conns), len(s.Addrs()), counts)
				}
				delete(counts, addr)
			}
			if len(counts) > 0 {
				t.Errorf("%s: clients are at servers that have gone: %v", when, counts)
			}
		}
		all := func(do func(*zklocks.Conn)) {
			var wg sync.WaitGroup
			for _, conn := range conns {
				wg.Go(func() { do(conn) })
			}
			wg.Wait()
		}
		setServers := func(conn *zklocks.Conn) {
			if err := conn.SetServers(s.Addrs()); err != nil {
				t.Error(err)
			}
		}

		s.AddMember()
		s.AddMember()
		all(setServers)
		even("grown")

		old := s.Members()[:2]
		old[0].Remove()
		old[1].Remove()
		all(setServers)
		even("shrunk")
		old[0].Kill()
		old[1].Kill()

		for _, m := range s.Members() {
			m.Restart()
			time.Sleep(3 * time.Second)
		}
		all((*zklocks.Conn).Rebalance)
		even("rebalanced")
		for _, hold := range holds {
			if err := hold.Release(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
}

// Connections that follow the ensemble's configuration know new members, and survive the end of all
// old members.
func TestServersFromEnsemble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.NewServer(t, zktest.WithMembers(3))
		conn := s.Host("a").Connect(t, 10*time.Second, zklocks.WithServersFromEnsemble())
		other := s.Host("b").Connect(t, 10*time.Second, zklocks.WithServersFromEnsemble())
		hold, err := rwlock.New(conn, "/own").Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			old := s.Members()[0]
			added := s.AddMember()
			time.Sleep(10 * time.Second)
			old.Remove()
			time.Sleep(10 * time.Second)
			for _, c := range []*zklocks.Conn{conn, other} {
				if at(c) == old.Addr() {
					t.Errorf("still at %s, which was removed", old.Addr())
				}
			}
			old.Kill()
			t.Logf("member %d has taken the place of member %d", added.ID(), old.ID())
		}
		if !hold.Held() {
			t.Error(hold.Err())
		}
		if err := hold.Release(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// A target that cannot be reached leaves the connection where it is. Bad input changes nothing.
func TestMovesThatFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.NewServer(t, zktest.WithMembers(3))
		h := s.Host("a")
		conn := h.Connect(t, 10*time.Second)
		here := at(conn)
		for _, servers := range [][]string{nil, {"zk1:port"}, {"user@zk1"}} {
			if err := conn.SetServers(servers); err == nil {
				t.Errorf("SetServers(%q) succeeded", servers)
			}
		}
		for _, m := range s.Members() {
			if m.Addr() != here {
				h.To(m).Partition()
			}
		}
		begun := time.Now()
		for range 20 {
			conn.Rebalance()
		}
		elsewhere := slices.DeleteFunc(s.Addrs(), func(addr string) bool { return addr == here })
		if err := conn.SetServers(elsewhere); err != nil {
			t.Error(err)
		}
		if at(conn) != here || time.Since(begun) > 25*time.Second {
			t.Errorf("after %v the connection is at %s, was at %s", time.Since(begun), at(conn), here)
		}
		// Without a connection the next attempt takes the new servers.
		h.Heal()
		h.Cut()
		time.Sleep(time.Second)
		if !slices.Contains(elsewhere, at(conn)) {
			t.Errorf("connected to %s, which has gone from the list", at(conn))
		}
		conn.Close()
		if err := conn.SetServers(s.Addrs()); !errors.Is(err, zk.ErrClosing) {
			t.Errorf("SetServers after Close returned %v", err)
		}
		conn.Rebalance()
	})
}

// Close at any moment of a move leaves nothing behind.
func TestCloseDuringAMove(t *testing.T) {
	for i := range 40 {
		synctest.Test(t, func(t *testing.T) {
			s := zktest.NewServer(t, zktest.WithMembers(3))
			h := s.Host("a")
			conn := h.Connect(t, 10*time.Second)
			h.Delay(time.Duration(rand.IntN(5)) * time.Millisecond)
			moved := make(chan struct{})
			go func() {
				defer close(moved)
				for range 3 {
					conn.Rebalance()
				}
			}()
			time.Sleep(time.Duration(i) * 300 * time.Microsecond)
			if err := conn.Close(); err != nil {
				t.Error(err)
			}
			<-moved
		})
	}
}

// An ensemble grows from three to five members, and shrinks to the two new members and one old
// member. The data and /zookeeper/config are everywhere, and the members elect as they should.
func TestMembersJoinAndLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.NewServer(t, zktest.WithMembers(3))
		first := s.Host("a").Connect(t, 10*time.Second)
		hold, err := rwlock.New(first, "/l").Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		config := func(lines int) {
			t.Helper()
			data, _, err := first.Client().Get("/zookeeper/config")
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Count(string(data), "server."); got != lines {
				t.Errorf("%d members in %q, want %d", got, data, lines)
			}
		}
		config(3)
		four, five := s.AddMember(), s.AddMember()
		config(5)

		old := s.Members()
		old[0].Remove()
		old[1].Remove()
		config(3)
		old[0].Kill()
		old[1].Kill()
		if got, want := s.Addrs(), []string{old[2].Addr(), four.Addr(), five.Addr()}; strings.Join(got, " ") != strings.Join(want, " ") {
			t.Errorf("Addrs returns %q, want %q", got, want)
		}

		// A new member leads, and has the lock's node.
		s.Elect(five)
		there := s.Host("b").Connect(t, 10*time.Second)
		if _, err := rwlock.New(there, "/l").TryLock(t.Context()); err == nil {
			t.Error("a lock that is held was granted")
		}
		if err := hold.Release(t.Context()); err != nil {
			t.Error(err)
		}

		// A leader that is removed follows the next, and serves its clients, until it is killed.
		six := s.AddMember()
		s.Elect(old[2])
		old[2].Remove()
		time.Sleep(time.Second)
		if l := s.Leader(); l == nil || l == old[2] {
			t.Errorf("after its leader was removed the ensemble is led by %v", l)
		}
		only := s.Host("c")
		for _, m := range s.Members() {
			only.To(m).Partition()
		}
		onTheOld, err := zklocks.Connect(t.Context(), []string{old[2].Addr()}, 10*time.Second, zklocks.WithDialer(only.Dial))
		if err != nil {
			t.Fatal(err)
		}
		defer onTheOld.Close()
		if queue, err := rwlock.New(onTheOld, "/l").Queue(t.Context()); err != nil || len(queue) != 0 {
			t.Errorf("a removed member lists %v, %v", queue, err)
		}
		old[2].Kill()
		six.Remove()
		six.Kill()
		time.Sleep(time.Second)
		s.AddMember()

		// Two of three are a majority; one is none.
		five.Kill()
		again, err := rwlock.New(there, "/l").Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := again.Release(t.Context()); err != nil {
			t.Error(err)
		}
		four.Kill()
		time.Sleep(time.Minute)
		if s.Leader() != nil {
			t.Error("one of three members leads")
		}
		old[0].Restart()
		time.Sleep(time.Minute)
		if s.Leader() != nil {
			t.Error("a member that was removed has voted")
		}
		four.Restart()
	})
}
