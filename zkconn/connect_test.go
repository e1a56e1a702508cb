package zkconn_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"go.uber.org/goleak"

	"github.com/zklocks/zklocks/internal/link"
	"github.com/zklocks/zklocks/internal/zktest"
	"github.com/zklocks/zklocks/zkconn"
)

func TestBadInput(t *testing.T) {
	ok := []string{"127.0.0.1:2181"}
	for _, tc := range []struct {
		name    string
		servers []string
		timeout time.Duration
		opts    []zkconn.Option
	}{
		{"no servers", nil, time.Second, nil},
		{"empty address", []string{"zk1:2181", ""}, time.Second, nil},
		{"no host", []string{":2181"}, time.Second, nil},
		{"no port", []string{"zk1:"}, time.Second, nil},
		{"port 0", []string{"zk1:0"}, time.Second, nil},
		{"port too large", []string{"zk1:65536"}, time.Second, nil},
		{"chroot", []string{"zk1:2181/app"}, time.Second, nil},
		{"credentials in the address", []string{"ann:secret@zk1:2181"}, time.Second, nil},
		{"a password for all", []string{"secret@zk1"}, time.Second, nil},
		{"no timeout", ok, 0, nil},
		{"negative timeout", ok, -time.Second, nil},
		{"timeout rounds to 0 ms", ok, time.Microsecond, nil},
		{"timeout overflows", ok, 1000 * time.Hour, nil},
		{"empty user", ok, time.Second, []zkconn.Option{zkconn.WithDigestAuth("", "secret")}},
		{"colon in user", ok, time.Second, []zkconn.Option{zkconn.WithDigestAuth("ann:secret", "x")}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			start := time.Now()
			conn, err := zkconn.Connect(context.Background(), tc.servers, tc.timeout, tc.opts...)
			if err == nil {
				conn.Close()
				t.Fatal("no error")
			}
			if !strings.HasPrefix(err.Error(), "zkconn: ") || strings.Contains(err.Error(), "secret") || time.Since(start) > time.Second {
				t.Errorf("%v after %v", err, time.Since(start))
			}
		})
	}
}

func TestContextDoneBefore(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := zkconn.Connect(ctx, []string{"127.0.0.1:1"}, time.Second); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// An address where nobody listens, one that accepts and says nothing, one that closes, one without a name.
func TestConnectGivesUp(t *testing.T) {
	listen := func(serve func(net.Conn)) string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				serve(c)
			}
		}()
		return l.Addr().String()
	}
	dead := listen(func(net.Conn) {})
	unused, _ := net.Listen("tcp", "127.0.0.1:0")
	unused.Close()
	for _, tc := range []struct {
		name, address, says string
	}{
		{"refused", unused.Addr().String(), "refused"},
		{"silent", dead, "did not answer the handshake"},
		{"closes", listen(func(c net.Conn) { c.Close() }), "quorum"},
		{"no such name", "no-such-host.invalid:2181", "no-such-host.invalid"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			leak := goleak.IgnoreCurrent()
			ctx, cancel := context.WithTimeout(context.Background(), 700*time.Millisecond)
			defer cancel()
			start := time.Now()
			_, err := zkconn.Connect(ctx, []string{tc.address}, 3*time.Second)
			took := time.Since(start)
			t.Logf("%v: %v", took, err)
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("does not wrap the context's error: %v", err)
			}
			for _, want := range []string{tc.address, tc.says, "after"} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q is not in: %v", want, err)
				}
			}
			if took > 1200*time.Millisecond {
				t.Errorf("took %v", took)
			}
			if err := goleak.Find(leak); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestConnectSaysWhereItHasTriedAndForHowLong(t *testing.T) {
	var nobody []string
	for range 2 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
		nobody = append(nobody, l.Addr().String())
	}
	const patience = 300 * time.Millisecond
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_, err := zkconn.Connect(ctx, nobody, 3*time.Second)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	text, ok := strings.CutPrefix(err.Error(), "zkconn: connect to "+strings.Join(nobody, ", ")+": after ")
	text, why, _ := strings.Cut(text, ": ")
	took, _ := time.ParseDuration(text)
	if !ok || took < patience || !strings.Contains(why, "connection refused") {
		t.Error(err)
	}
}

func TestConnectAndClose(t *testing.T) {
	servers := zktest.Servers(t)
	leak := goleak.IgnoreCurrent()
	ctx := context.Background()
	start := time.Now()
	conn, err := zkconn.Connect(ctx, servers, 4*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("connected in %v", time.Since(start))
	l := link.Of(conn)
	if l == nil || l.Session() != conn.SessionID() || l.Epoch() != 1 || !l.Alive(conn.SessionID()) {
		t.Errorf("link %+v", l)
	}
	if _, _, err := conn.Get("/"); err != nil {
		t.Error(err)
	}
	session := conn.SessionID()
	start = time.Now()
	conn.Close()
	if took := time.Since(start); took > 500*time.Millisecond {
		t.Errorf("Close took %v", took)
	}
	if !l.IsClosed() || l.Alive(session) {
		t.Error("the link does not know that it is closed")
	}
	if err := goleak.Find(leak); err != nil {
		t.Error(err)
	}
}

func TestGrantedTimeout(t *testing.T) {
	s := zktest.Standalone(t, zktest.Options{Tick: 500 * time.Millisecond, Config: map[string]string{"maxSessionTimeout": "8000"}})
	for asked, want := range map[time.Duration]time.Duration{
		100 * time.Millisecond: time.Second,
		3 * time.Second:        3 * time.Second,
		time.Hour:              8 * time.Second,
	} {
		conn := connect(t, asked, []string{s.Addr()})
		l := link.Of(conn)
		if got := l.Timeout(); got != want {
			t.Errorf("asked %v: granted %v, want %v", asked, got, want)
		}
		if left := time.Until(l.Deadline(conn.SessionID())); left > want || left < want/2 {
			t.Errorf("asked %v: %v left, granted %v", asked, left, want)
		}
	}
}

func TestForeignConnectionHasNoLink(t *testing.T) {
	if link.Of(zktest.ConnectForeign(t, 4*time.Second)) != nil {
		t.Error("it has")
	}
}

func TestDigestAuth(t *testing.T) {
	p := zktest.ProxyFor(t, zktest.Servers(t)[0])
	conn := connect(t, 4*time.Second, []string{p.Addr()}, zkconn.WithDigestAuth("ann", "secret"))
	path := zktest.Path(t) + "-auth"
	if _, err := conn.Create(path, []byte("x"), 0, zk.AuthACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
	defer conn.Delete(path, -1)
	stranger := connect(t, 4*time.Second, []string{p.Addr()}, zkconn.WithDigestAuth("ann", "wrong"))
	if _, _, err := stranger.Get(path); !errors.Is(err, zk.ErrNoAuth) {
		t.Errorf("stranger: %v", err)
	}
	for range 5 {
		p.Cut()
		zktest.Eventually(t, 5*time.Second, "an answer after the cut", func() bool {
			_, _, err := conn.Get(path)
			if errors.Is(err, zk.ErrNoAuth) {
				t.Fatal("credentials are lost after a reconnect")
			}
			return err == nil
		})
	}
}
