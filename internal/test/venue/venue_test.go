package venue

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/leaks"
	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/internal/test/realzk"
	"github.com/zklocks/zklocks/internal/wire"
)

func TestMain(m *testing.M) { leaks.Main(m) }

var acl = zk.WorldACL(zk.PermAll)

// The tests have the same results at both venues.

func TestConnectionsAndExpiry(t *testing.T) {
	t.Parallel()
	Both(t, func(t *testing.T, v Venue) {
		path := test.Path(t)
		conn, foreign := v.Connect(t, 10*time.Second), v.ConnectForeign(t, 10*time.Second)
		if _, err := conn.Create(path, nil, zk.FlagEphemeral, acl); err != nil {
			t.Fatal(err)
		}
		_, _, gone, err := foreign.GetW(path)
		if err != nil {
			t.Fatal(err)
		}
		if watched := v.Watched(t, foreign.SessionID()); len(watched) != 1 || watched[0] != path {
			t.Errorf("watched: %q", watched)
		}
		session := conn.SessionID()
		v.Expire(t, conn)
		if e := <-gone; e.Type != zk.EventNodeDeleted {
			t.Errorf("event %v", e)
		}
		test.Eventually(t, 20*time.Second, "another session", func() bool {
			id := conn.SessionID()
			return id != 0 && id != session && conn.State() == zk.StateHasSession
		})
	})
}

func TestPackets(t *testing.T) {
	t.Parallel()
	Both(t, func(t *testing.T, v Venue) {
		path := test.Path(t)
		p := v.Proxy(t, v.Servers(t)[0])
		conn, witness := v.Connect(t, 10*time.Second, p.Addr()), v.Connect(t, 10*time.Second)
		lost := p.Next(proxy.CreateOp, proxy.CutAfterCommit)
		if _, err := conn.Create(path, nil, zk.FlagEphemeral, acl); !errors.Is(err, zk.ErrConnectionClosed) {
			t.Errorf("a lost reply: %v", err)
		}
		<-lost.Fired()
		if there, _, err := witness.Exists(path); err != nil || !there {
			t.Errorf("the server has done it: %v, %v", there, err)
		}
		if n := p.Seen(proxy.CreateOp); n != 1 {
			t.Errorf("%d creates", n)
		}
	})
}

func TestServersOfTheTestsOwn(t *testing.T) {
	t.Parallel()
	Both(t, func(t *testing.T, v Venue) {
		s := v.Standalone(t, Options{})
		conn := v.Connect(t, 20*time.Second, s.Addr())
		if _, err := conn.Create("/a", nil, 0, acl); err != nil {
			t.Fatal(err)
		}
		if err := s.SetSequences(map[string]int32{"/a": 7}); err != nil {
			t.Fatal(err)
		}
		if err := s.Restart(); err != nil {
			t.Fatal(err)
		}
		var name string
		test.Eventually(t, 20*time.Second, "an answer", func() bool {
			var err error
			name, err = conn.Create("/a/", nil, zk.FlagSequence, acl)
			return err == nil
		})
		if name != "/a/0000000007" {
			t.Errorf("the next number: %s", name)
		}
		if err := s.Pause(); err != nil {
			t.Fatal(err)
		}
		answered := make(chan error, 1)
		go func() { _, _, err := conn.Exists("/a"); answered <- err }()
		select {
		case err := <-answered:
			t.Errorf("a paused server answered: %v", err)
		case <-time.After(300 * time.Millisecond): // a running server answers in a few milliseconds
		}
		if err := s.Resume(); err != nil {
			t.Fatal(err)
		}
		if err := <-answered; err != nil {
			t.Error(err)
		}
		if err := s.Kill(); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Word("ruok"); err == nil {
			t.Error("a killed server answers")
		}
	})
}

func TestServersThatSpeakTLS(t *testing.T) {
	t.Parallel()
	Both(t, func(t *testing.T, v Venue) {
		ca := realzk.NewAuthority(t)
		s := v.StandaloneTLS(t, ca, ca.Issue(t, "localhost", time.Now().Add(time.Hour)), Options{})
		plain := v.Connect(t, 10*time.Second, s.Addr())
		if _, err := plain.Create("/a", nil, 0, acl); err != nil {
			t.Fatal(err)
		}
		var dials atomic.Int32
		conn, err := wire.Connect(t.Context(), []string{s.TLSAddr}, 10*time.Second, wire.WithTLS(&tls.Config{RootCAs: ca.Pool}),
			wire.WithDialer(func(ctx context.Context, network, addr string) (net.Conn, error) {
				dials.Add(1)
				return v.Dial(ctx, network, addr)
			}))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_, _, gone, err := conn.GetW("/a")
		if err != nil || dials.Load() == 0 {
			t.Fatalf("%d dials, %v", dials.Load(), err)
		}
		if err := plain.Delete("/a", -1); err != nil {
			t.Fatal(err)
		}
		if e := <-gone; e.Type != zk.EventNodeDeleted {
			t.Errorf("event %v", e)
		}
		session := conn.SessionID()
		v.ExpireAt(t, conn, s.Addr())
		test.Eventually(t, 20*time.Second, "another session", func() bool { id := conn.SessionID(); return id != 0 && id != session })

		for name, config := range map[string]*tls.Config{"an unknown authority": {RootCAs: realzk.NewAuthority(t).Pool}, "another name": {RootCAs: ca.Pool, ServerName: "elsewhere"}} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			conn, err := wire.Connect(ctx, []string{s.TLSAddr}, 10*time.Second, append(v.Dialer(), wire.WithTLS(config))...)
			cancel()
			if err == nil {
				conn.Close()
				t.Errorf("%s: the certificate is believed", name)
			}
		}
	})
}

func TestTheSharedServer(t *testing.T) {
	t.Parallel()
	Both(t, func(t *testing.T, v Venue) {
		conn := v.Connect(t, 10*time.Second)
		answer, err := v.Shared(t).Word("cons")
		if err != nil || !strings.Contains(answer, fmt.Sprintf("sid=0x%x,", uint64(conn.SessionID()))) {
			t.Errorf("session %#x is not in %q, %v", conn.SessionID(), answer, err)
		}
	})
}

func TestMembersOfTheTestsOwn(t *testing.T) {
	t.Parallel()
	Both(t, func(t *testing.T, v Venue) {
		e := v.Cluster(t, 3, Options{Partitions: true, SyncLimit: 10 * time.Second})
		leader, err := e.Leader()
		if err != nil {
			t.Fatal(err)
		}
		followers, err := e.Followers()
		if err != nil || len(followers) != 2 || len(e.Addrs()) != 3 || len(e.Servers()) != 3 {
			t.Fatalf("%d followers of %v: %v", len(followers), e.Addrs(), err)
		}
		here, there := v.Connect(t, 20*time.Second, followers[0].Addr()), v.Connect(t, 20*time.Second, leader.Addr())
		if err := e.Isolate(followers[0]); err != nil {
			t.Fatal(err)
		}
		if _, err := there.Create("/a", nil, 0, acl); err != nil {
			t.Fatal(err)
		}
		if there, _, err := here.Exists("/a"); err == nil && there {
			t.Error("news came through a black hole")
		}
		e.Heal()
		test.Eventually(t, 30*time.Second, "the news", func() bool { there, _, err := here.Exists("/a"); return err == nil && there })

		// A leader that resumes first expires the sessions about which its followers could not
		// report. But the leader may first process a follower's report from before the pause. Then
		// the session continues, until another pause.
		used := v.ConnectForeign(t, 2*time.Second, followers[1].Addr())
		test.Eventually(t, 5*time.Second, "a node of the session", func() bool { // a busy machine may be late with its pings
			_, err := used.Create("/e", nil, zk.FlagEphemeral, acl)
			return err == nil || err == zk.ErrNodeExists
		})
		ended := func() bool { there, _, err := here.Exists("/e"); return err == nil && !there }
		for pauses := 1; ; pauses++ {
			if err := leader.Pause(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(3 * time.Second) // longer than the session lives, shorter than members wait for a leader; real: the test is about a pause
			if err := leader.Resume(); err != nil {
				t.Fatal(err)
			}
			for began := time.Now(); !ended() && time.Since(began) < 5*time.Second; {
				time.Sleep(10 * time.Millisecond) // not test.Poll, which waits for up to a minute: another pause is faster
			}
			if ended() {
				break
			}
			if v.Virtual() || pauses == 10 {
				t.Fatalf("the session lives on after %d pauses", pauses)
			}
		}
	})
}

// A program that takes the first name of a listing for the oldest node must fail at both venues.
func TestListingsHaveOneOrder(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	listings := make(map[string][][]string)
	t.Run("at", func(t *testing.T) {
		Both(t, func(t *testing.T, v Venue) {
			conn, dir := v.Connect(t, 10*time.Second), test.Path(t)
			must := func(err error) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
			}
			_, err := conn.Create(dir, nil, 0, acl)
			must(err)
			var all [][]string
			list := func() {
				names, _, err := conn.Children(dir)
				must(err)
				all = append(all, names)
			}
			var made []string
			for i := range 60 {
				name := fmt.Sprintf("%s/_c_%08x-0000-4000-8000-%012x-lock-%010d", dir, uint32(i)*2654435761, i*7919, i)
				if i%3 == 0 {
					name = fmt.Sprintf("%s/lock-%010d", dir, i)
				}
				_, err := conn.Create(name, nil, 0, acl)
				must(err)
				made = append(made, name)
				list()
			}
			// Nodes of one transaction; some share a bucket.
			var siblings []any
			for i := range 40 {
				siblings = append(siblings, &zk.CreateRequest{Path: fmt.Sprintf("%s/%d-%d", dir, i*i*7919, i), Acl: acl})
			}
			_, err = conn.Multi(siblings...)
			must(err)
			_, err = conn.Create(dir+"/замок-", nil, 0, acl)
			must(err)
			list()
			for _, name := range made[:55] {
				must(conn.Delete(name, -1))
				list()
			}
			mu.Lock()
			defer mu.Unlock()
			listings[fmt.Sprintf("in virtual time: %v", v.Virtual())] = all
		})
	})
	var first [][]string
	for where, all := range listings {
		if first == nil {
			first = all
		}
		for i, names := range all {
			if !slices.Equal(names, first[i]) {
				t.Fatalf("%s: listing %d is\n%q, elsewhere\n%q", where, i, names, first[i])
			}
		}
	}
	if last := first[59]; strings.HasSuffix(last[0], "0000000000") || slices.IsSorted(last) {
		t.Errorf("in the order of creation: %q", last)
	}
}
