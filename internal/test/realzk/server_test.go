package realzk

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/proxy"
)

var acl = zk.WorldACL(zk.PermAll)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestServerKeepsDataAndSessionsOverKillAndRestart(t *testing.T) {
	t.Parallel()
	s := Standalone(t, Options{})
	conn := Connect(t, 30*time.Second, s.Addr())
	session := conn.Session()
	_, err := conn.Client().Create("/e", []byte("x"), zk.FlagEphemeral, acl)
	must(t, err)
	must(t, s.Kill())
	if err := s.Kill(); err == nil || s.PID() != 0 {
		t.Errorf("process %d after Kill; a second Kill returns %v", s.PID(), err)
	}
	must(t, s.Restart())
	test.Eventually(t, 60*time.Second, "the session is back", func() bool { return conn.State() == zk.StateHasSession })
	_, stat, err := conn.Client().Get("/e")
	must(t, err)
	if stat.EphemeralOwner != session || conn.Session() != session {
		t.Errorf("owner %#x, session %#x, want %#x", stat.EphemeralOwner, conn.Session(), session)
	}
	before := s.PID()
	must(t, s.Restart()) // while the server runs
	if s.PID() == before {
		t.Error("the same process after Restart")
	}
}

func TestPausedServerCanBeStopped(t *testing.T) {
	t.Parallel()
	s := Standalone(t, Options{})
	must(t, s.Pause())
	must(t, s.Stop())
	must(t, s.Stop())
	if _, err := os.Stat(s.Dir()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("data left behind: %v", err)
	}
}

func TestRequestsCountsClientsAndNotItsOwnQuestions(t *testing.T) {
	t.Parallel()
	s := Standalone(t, Options{})
	conn := Connect(t, 30*time.Second, s.Addr()) // pings every 10s: none during the test
	before, err := s.Requests()
	must(t, err)
	for range 7 {
		_, _, err := conn.Client().Exists("/")
		must(t, err)
		_, err = s.Word("srvr")
		must(t, err)
	}
	after, err := s.Requests()
	must(t, err)
	if after-before != 7 {
		t.Errorf("%d requests, want 7", after-before)
	}
}

// A proxy returns the session whose handshake it has forwarded last.
func TestAProxyKnowsTheSession(t *testing.T) {
	t.Parallel()
	p := proxy.For(t, Servers(t)[0])
	if id, _ := p.Session(); id != 0 {
		t.Errorf("session %#x before there was one", id)
	}
	conn := Connect(t, 30*time.Second, p.Addr())
	id, passwd := p.Session()
	if id != conn.Session() || id == 0 {
		t.Fatalf("session %#x, not %#x", id, conn.Session())
	}
	alive, err := EndSession(id, passwd, p.Target())
	must(t, err)
	if !alive {
		t.Error("the session was over before")
	}
	p.Cut() // the server may not close the connection, see EndSession
	test.Eventually(t, 10*time.Second, "the next one", func() bool {
		next, _ := p.Session()
		return next != 0 && next != id && next == conn.Session()
	})
	alive, err = EndSession(id, passwd, p.Target())
	must(t, err)
	if alive {
		t.Error("the session lives on")
	}
}

func TestASessionIsExpiredByWayOfAnotherMember(t *testing.T) {
	t.Parallel()
	e := Cluster(t, 3, Options{})
	followers, err := e.Followers()
	must(t, err)
	conn := Connect(t, 30*time.Second, followers[0].Addr())
	_, err = conn.Client().Create("/e", nil, zk.FlagEphemeral, acl)
	must(t, err)
	must(t, followers[0].Pause())
	began := time.Now()
	ExpireAt(t, conn, followers[1].Addr())
	if took := time.Since(began); took > 15*time.Second {
		t.Errorf("it took %v, and the session has 30 s", took)
	}
	witness := Connect(t, 10*time.Second, followers[1].Addr())
	if ok, _, err := witness.Client().Exists("/e"); err != nil || ok {
		t.Errorf("exists %v, %v", ok, err)
	}
	must(t, followers[0].Resume())
}
