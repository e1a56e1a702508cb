package realzk

import (
	"errors"
	"net"
	"os"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/jute"
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

func TestServerServesWhenStartReturns(t *testing.T) {
	t.Parallel()
	began := time.Now()
	s := Standalone(t, Options{})
	t.Logf("started in %v", time.Since(began))
	conn := ConnectForeign(t, 4*time.Second, s.Addr())
	_, err := conn.Create("/a", nil, 0, acl)
	must(t, err)
	mntr, err := s.Mntr()
	must(t, err)
	if mntr["zk_server_state"] != "standalone" {
		t.Errorf("state %q", mntr["zk_server_state"])
	}
}

func TestServerKeepsDataAndSessionsOverKillAndRestart(t *testing.T) {
	t.Parallel()
	s := Standalone(t, Options{})
	conn := Connect(t, 30*time.Second, s.Addr())
	session := conn.SessionID()
	_, err := conn.Create("/e", []byte("x"), zk.FlagEphemeral, acl)
	must(t, err)
	must(t, s.Kill())
	if s.Alive() {
		t.Error("alive after Kill")
	}
	if err := s.Kill(); err == nil {
		t.Error("a second Kill finds nothing to kill, and must say so")
	}
	must(t, s.Restart())
	test.Eventually(t, 60*time.Second, "the session is back", func() bool { return conn.State() == zk.StateHasSession })
	_, stat, err := conn.Get("/e")
	must(t, err)
	if stat.EphemeralOwner != session || conn.SessionID() != session {
		t.Errorf("owner %#x, session %#x, want %#x", stat.EphemeralOwner, conn.SessionID(), session)
	}
	before := s.PID()
	must(t, s.Restart()) // while the server runs
	if s.PID() == before {
		t.Error("the same process after Restart")
	}
}

func TestPausedServerIsSilentUntilResumed(t *testing.T) {
	t.Parallel()
	s := Standalone(t, Options{})
	conn := ConnectForeign(t, 30*time.Second, s.Addr())
	must(t, s.Pause())
	answered := make(chan error, 1)
	go func() {
		_, _, err := conn.Exists("/")
		answered <- err
	}()
	select {
	case err := <-answered:
		t.Fatalf("a paused server answered: %v", err)
	case <-time.After(300 * time.Millisecond): // real: no event shows that no answer comes
	}
	must(t, s.Resume())
	must(t, <-answered)
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
	conn := ConnectForeign(t, 30*time.Second, s.Addr()) // pings every 10s: none during the test
	before, err := s.Requests()
	must(t, err)
	for range 7 {
		_, _, err := conn.Exists("/")
		must(t, err)
		_, err = s.Stat()
		must(t, err)
	}
	after, err := s.Requests()
	must(t, err)
	if after-before != 7 {
		t.Errorf("%d requests, want 7", after-before)
	}
}

func TestShortAndLongSessionsAreGranted(t *testing.T) {
	t.Parallel()
	s := Standalone(t, Options{})
	for asked, want := range map[int32]int32{1: 200, 200: 200, 60_000: 60_000, 100_000: 60_000} {
		var got int32
		// On a busy machine a session of 200 ms may expire before the server answers, and then the
		// server closes the connection.
		test.Eventually(t, 20*time.Second, "an answer", func() bool {
			got = granted(t, s.Addr(), asked)
			return got != 0
		})
		if got != want {
			t.Errorf("asked for %dms, granted %dms, want %dms", asked, got, want)
		}
	}
}

// granted asks for a session and returns the granted timeout, or 0 if the server closes the
// connection.
func granted(t *testing.T, addr string, asked int32) int32 {
	c, err := net.Dial("tcp", addr)
	must(t, err)
	defer c.Close()
	must(t, c.SetDeadline(time.Now().Add(10*time.Second)))
	hello := jute.Handshake{Timeout: asked, Password: make([]byte, 16)}.Append(nil)
	must(t, jute.WriteFrame(c, jute.AppendBool(hello, false)))
	welcome, err := jute.ReadFrame(c)
	if cutOff(err) {
		return 0
	}
	must(t, err)
	d := jute.Decoder{Rest: welcome}
	return d.Welcome().Timeout
}

func TestEmptyContainersAreSwept(t *testing.T) {
	t.Parallel()
	conn := ConnectForeign(t, 10*time.Second)
	dir := test.Path(t)
	_, err := conn.CreateContainer(dir, nil, zk.FlagContainer, acl)
	must(t, err)
	_, err = conn.Create(dir+"/x", nil, 0, acl)
	must(t, err)
	must(t, conn.Delete(dir+"/x", -1))
	test.Eventually(t, 5*time.Second, "the container is swept", func() bool {
		ok, _, err := conn.Exists(dir)
		return err == nil && !ok
	})
	test.AssertEmpty(t, conn, dir)
}

// atOnce asserts that expire ends a session of 30 seconds before its timeout.
func atOnce(t *testing.T, expire func()) {
	t.Helper()
	began := time.Now()
	expire()
	if took := time.Since(began); took > 15*time.Second {
		t.Errorf("it took %v", took)
	}
}

func TestExpireEndsTheSessionAtOnce(t *testing.T) {
	t.Parallel()
	conn := ConnectForeign(t, 30*time.Second)
	other := ConnectForeign(t, 30*time.Second)
	path := test.Path(t)
	session := conn.SessionID()
	_, err := conn.Create(path, nil, zk.FlagEphemeral, acl)
	must(t, err)
	atOnce(t, func() { Expire(t, conn) })
	if ok, _, err := other.Exists(path); err != nil || ok {
		t.Errorf("exists %v, %v: the ephemeral node outlived its session", ok, err)
	}
	// 20 s: the client may have resumed the session on a connection that the server ignores, see
	// EndSession.
	test.Eventually(t, 30*time.Second, "a new session", func() bool {
		id := conn.SessionID()
		return id != 0 && id != session && conn.State() == zk.StateHasSession
	})
}

// A proxy has the session that it has forwarded last.
func TestAProxyKnowsTheSession(t *testing.T) {
	t.Parallel()
	p := proxy.For(t, Servers(t)[0])
	if id, _ := p.Session(); id != 0 {
		t.Errorf("session %#x before there was one", id)
	}
	conn := Connect(t, 30*time.Second, p.Addr())
	id, passwd := p.Session()
	if id != conn.SessionID() || id == 0 {
		t.Fatalf("session %#x, not %#x", id, conn.SessionID())
	}
	alive, err := EndSession(id, passwd, p.Target())
	must(t, err)
	if !alive {
		t.Error("the session was over before")
	}
	p.Cut() // the server may not close the connection, see EndSession
	test.Eventually(t, 10*time.Second, "the next one", func() bool {
		next, _ := p.Session()
		return next != 0 && next != id && next == conn.SessionID()
	})
	alive, err = EndSession(id, passwd, p.Target())
	must(t, err)
	if alive {
		t.Error("the session lives on")
	}
}

func TestConnectIsByWire(t *testing.T) {
	t.Parallel()
	s := Standalone(t, Options{})
	p := proxy.For(t, s.Addr())
	conn := Connect(t, 4*time.Second, p.Addr())
	session := conn.SessionID()
	p.Cut()
	test.Eventually(t, 4*time.Second, "the same session", func() bool {
		_, _, err := conn.Exists("/")
		return err == nil && conn.SessionID() == session
	})
	p.Refuse()
	Expire(t, conn)
	must(t, p.Accept())
	test.Eventually(t, 10*time.Second, "another session", func() bool {
		id := conn.SessionID()
		return id != 0 && id != session
	})
}

// All subtests use one ensemble, which must serve again after each of them.
func TestEnsemble(t *testing.T) {
	t.Parallel()
	e := Cluster(t, 3, Options{})
	t.Run("a session is expired by way of another member", func(t *testing.T) { expireByWayOfAnother(t, e) })
	t.Run("it elects another leader", func(t *testing.T) { electAnother(t, e) })
	t.Run("it comes back from a power cut", func(t *testing.T) { cutPower(t, e) })
}

func expireByWayOfAnother(t *testing.T, e *Ensemble) {
	t.Helper()
	followers, err := e.Followers()
	must(t, err)
	conn := Connect(t, 30*time.Second, followers[0].Addr())
	_, err = conn.Create("/e", nil, zk.FlagEphemeral, acl)
	must(t, err)
	must(t, followers[0].Pause())
	atOnce(t, func() { ExpireAt(t, conn, followers[1].Addr()) })
	witness := Connect(t, 10*time.Second, followers[1].Addr())
	if ok, _, err := witness.Exists("/e"); err != nil || ok {
		t.Errorf("exists %v, %v", ok, err)
	}
	must(t, followers[0].Resume())
}

func electAnother(t *testing.T, e *Ensemble) {
	t.Helper()
	leader, err := e.Leader()
	must(t, err)
	followers, err := e.Followers()
	must(t, err)
	if len(followers) != 2 {
		t.Fatalf("%d followers", len(followers))
	}
	conn := ConnectForeign(t, 10*time.Second, e.Addrs()...)
	_, err = conn.Create("/a", nil, 0, acl)
	must(t, err)
	must(t, leader.Kill())
	next, err := e.Leader()
	must(t, err)
	if next == leader {
		t.Error("the killed member still leads")
	}
	must(t, leader.Restart())
	direct := ConnectForeign(t, 10*time.Second, leader.Addr())
	_, err = direct.Sync("/a")
	must(t, err)
	if ok, _, err := direct.Exists("/a"); err != nil || !ok {
		t.Errorf("exists %v, %v", ok, err)
	}
}

func cutPower(t *testing.T, e *Ensemble) {
	t.Helper()
	conn := ConnectForeign(t, 10*time.Second, e.Addrs()...)
	_, err := conn.Create("/b", nil, 0, acl)
	must(t, err)
	must(t, e.Kill())
	must(t, e.Restart())
	again := ConnectForeign(t, 10*time.Second, e.Addrs()...)
	if ok, _, err := again.Exists("/b"); err != nil || !ok {
		t.Errorf("exists %v, %v", ok, err)
	}
}
