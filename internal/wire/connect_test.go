package wire_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"go.uber.org/goleak"

	"github.com/zklocks/zklocks/internal/memnet"
	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/internal/test/realzk"
	"github.com/zklocks/zklocks/internal/test/venue"
	"github.com/zklocks/zklocks/internal/wire"
)

func TestBadInput(t *testing.T) {
	ok := []string{"127.0.0.1:2181"}
	for _, tc := range []struct {
		name    string
		servers []string
		timeout time.Duration
		opts    []wire.Option
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
		{"two in one address", []string{"zk1,zk2"}, time.Second, nil},
		{"two in one address with a port", []string{"zk1,zk2:2181"}, time.Second, nil},
		{"two with another comma", []string{"zk1;zk2"}, time.Second, nil},
		{"two with a space", []string{"zk1 zk2"}, time.Second, nil},
		{"chroot without a port", []string{"zk1/app"}, time.Second, nil},
		{"a space alone", []string{" "}, time.Second, nil},
		{"a space behind", []string{"zk1 :2181"}, time.Second, nil},
		{"end of line", []string{"zk1\n"}, time.Second, nil},
		{"a character that no name has", []string{"zk1\x00:2181"}, time.Second, nil},
		{"a zone with a space", []string{"[fe80::1%eth 0]:2181"}, time.Second, nil},
		{"not UTF-8", []string{"zk\xff:2181"}, time.Second, nil},
		{"overlong", []string{strings.Repeat("zk", 128) + ":2181"}, time.Second, nil},
		{"no timeout", ok, 0, nil},
		{"negative timeout", ok, -time.Second, nil},
		{"timeout rounds to 0 ms", ok, time.Microsecond, nil},
		{"timeout overflows", ok, 1000 * time.Hour, nil},
		{"empty user", ok, time.Second, []wire.Option{wire.WithDigestAuth("", "secret")}},
		{"colon in user", ok, time.Second, []wire.Option{wire.WithDigestAuth("ann:secret", "x")}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			start := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			conn, err := wire.Connect(ctx, tc.servers, tc.timeout, tc.opts...)
			if err == nil {
				conn.Close()
				t.Fatal("no error")
			}
			if !strings.HasPrefix(err.Error(), "zklocks: ") || strings.Contains(err.Error(), "secret") || len(err.Error()) > 400 || time.Since(start) > time.Second {
				t.Errorf("%.400v after %v", err, time.Since(start))
			}
		})
	}
}

// The error quotes an invalid address on one line. It quotes only a part of a long address.
func TestAnAddressInAnError(t *testing.T) {
	for _, s := range []string{"zk1\nzk2", strings.Repeat("z", 1<<20), strings.Repeat("z", 1<<20) + "::1"} {
		_, err := wire.Addresses([]string{s})
		if text := fmt.Sprint(err); strings.Contains(text, "\n") || len(text) > 400 {
			t.Errorf("%.500s", text)
		}
	}
}

// A server that is given twice is tried as often as the other servers.
func TestAServerThatIsGivenTwice(t *testing.T) {
	got, err := wire.Addresses([]string{"zk1", "zk2:2181", "zk1:2181", "zk1:2182", "zk2"})
	if want := []string{"zk1:2181", "zk2:2181", "zk1:2182"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v", got, err)
	}
}

func TestContextDoneBefore(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := wire.Connect(ctx, []string{"127.0.0.1:1"}, time.Second); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// pauses bounds, in virtual time, the pauses of Conn.event while the client ends.
const pauses = 5 * time.Millisecond

// givesUp connects to an address that grants no session, and checks the error. It returns how long
// Connect took.
func givesUp(t *testing.T, patience time.Duration, says string, address string, opts ...wire.Option) time.Duration {
	t.Helper()
	leak := goleak.IgnoreCurrent()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	start := time.Now()
	_, err := wire.Connect(ctx, []string{address}, 3*time.Second, opts...)
	took := time.Since(start)
	t.Logf("%v: %v", took, err)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("does not wrap the context's error: %v", err)
	}
	for _, want := range []string{address, says, "after"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in: %v", want, err)
		}
	}
	if err := goleak.Find(leak); err != nil {
		t.Error(err)
	}
	return took
}

// No program listens, or a program accepts and sends nothing, or it closes the connection. Not
// parallel: the test counts goroutines.
func TestConnectGivesUp(t *testing.T) {
	for name, tc := range map[string]struct {
		serve func(net.Conn)
		says  string
	}{
		"refused": {nil, "refused"},
		"silent":  {func(net.Conn) {}, "did not answer the handshake"},
		"closes":  {func(c net.Conn) { c.Close() }, "quorum"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const address, patience = "zk1:2181", 700 * time.Millisecond
				network := memnet.New()
				l, err := network.Listen(address)
				must(t, err)
				if tc.serve == nil {
					must(t, l.Close())
				}
				go func() {
					for {
						c, err := l.Accept()
						if err != nil {
							return
						}
						tc.serve(c)
					}
				}()
				took := givesUp(t, patience, tc.says, address, wire.WithDialer(network.Host("here").DialContext))
				network.Close()
				if took < patience || took > patience+pauses {
					t.Errorf("took %v", took)
				}
			})
		})
	}
}

// A dialer that returns neither a connection nor an error fails the attempt. It does not make the
// client panic.
func TestADialerThatReturnsNothing(t *testing.T) {
	for name, opts := range map[string][]wire.Option{"plain": nil, "TLS": {wire.WithTLS(nil)}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				nothing := wire.WithDialer(func(context.Context, string, string) (net.Conn, error) { return nil, nil })
				givesUp(t, 700*time.Millisecond, "the dialer returned no connection", "zk1:2181", append(opts, nothing)...)
			})
		})
	}
}

// The system's network, and its resolver.
func TestConnectGivesUpInRealTime(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	must(t, l.Close())
	const patience = 300 * time.Millisecond
	givesUp(t, patience, "refused", l.Addr().String())
	givesUp(t, patience, "no-such-host.invalid", "no-such-host.invalid:2181")
}

func TestConnectSaysWhereItHasTriedAndForHowLong(t *testing.T) {
	t.Parallel()
	venue.InMemory(t, func(t *testing.T, v venue.Venue) {
		var down []string
		for range 2 {
			s := v.Standalone(t, venue.Options{})
			must(t, s.Kill())
			down = append(down, s.Addr())
		}
		const patience = 300 * time.Millisecond
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_, err := wire.Connect(ctx, down, 3*time.Second, v.Dialer()...)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		text, ok := strings.CutPrefix(err.Error(), "zklocks: connect to "+strings.Join(down, ", ")+": after ")
		text, why, _ := strings.Cut(text, ": ")
		if took, _ := time.ParseDuration(text); !ok || took < patience || took > patience+pauses || !strings.Contains(why, "connection refused") {
			t.Error(err)
		}
	})
}

// Not parallel: the test counts goroutines.
func TestConnectAndClose(t *testing.T) {
	venue.InMemory(t, func(t *testing.T, v venue.Venue) {
		servers := v.Servers(t)
		leak := goleak.IgnoreCurrent()
		ctx := context.Background()
		start := time.Now()
		conn, err := wire.Connect(ctx, servers, 4*time.Second, v.Dialer()...)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("connected in %v", time.Since(start))
		l := conn
		if l == nil || l.Session() != conn.SessionID() || l.Epoch() != 1 || !l.Alive(conn.SessionID()) {
			t.Errorf("link %+v", l)
		}
		if _, _, err := conn.Get("/"); err != nil {
			t.Error(err)
		}
		session := conn.SessionID()
		start = time.Now()
		conn.Close()
		if took := time.Since(start); took != 0 {
			t.Errorf("Close took %v", took)
		}
		if !l.IsClosed() || l.Alive(session) {
			t.Error("the link does not know that it is closed")
		}
		if err := goleak.Find(leak); err != nil {
			t.Error(err)
		}
	})
}

func TestGrantedTimeout(t *testing.T) {
	t.Parallel()
	venue.InMemory(t, func(t *testing.T, v venue.Venue) {
		s := v.Standalone(t, venue.Options{Tick: 500 * time.Millisecond, MaxSession: 8 * time.Second})
		for asked, want := range map[time.Duration]time.Duration{
			100 * time.Millisecond: time.Second,
			3 * time.Second:        3 * time.Second,
			time.Hour:              8 * time.Second,
		} {
			conn := connect(t, v, asked, []string{s.Addr()})
			l := conn
			if got := l.Timeout(); got != want {
				t.Errorf("asked %v: granted %v, want %v", asked, got, want)
			}
			if left := time.Until(l.Deadline(conn.SessionID())); left != want {
				t.Errorf("asked %v: %v left, granted %v", asked, left, want)
			}
		}
	})
}

func TestDigestAuth(t *testing.T) {
	t.Parallel()
	venue.InMemory(t, func(t *testing.T, v venue.Venue) {
		p := v.Proxy(t, v.Servers(t)[0])
		conn := connect(t, v, 4*time.Second, []string{p.Addr()}, wire.WithDigestAuth("ann", "secret"))
		path := test.Path(t) + "-auth"
		if _, err := conn.Create(path, []byte("x"), 0, zk.AuthACL(zk.PermAll)); err != nil {
			t.Fatal(err)
		}
		defer conn.Delete(path, -1)
		stranger := connect(t, v, 4*time.Second, []string{p.Addr()}, wire.WithDigestAuth("ann", "wrong"))
		if _, _, err := stranger.Get(path); !errors.Is(err, zk.ErrNoAuth) {
			t.Errorf("stranger: %v", err)
		}
		for range 5 {
			p.Cut()
			test.Eventually(t, 5*time.Second, "an answer after the cut", func() bool {
				_, _, err := conn.Get(path)
				if errors.Is(err, zk.ErrNoAuth) {
					t.Fatal("credentials are lost after a reconnect")
				}
				return err == nil
			})
		}
	})
}

// From 3.8.4 on, servers refuse exists to a client without READ on the node. For Connect and
// WatchNodes that refusal is an answer.
func TestARootThatMayNotBeRead(t *testing.T) {
	t.Parallel()
	venue.InMemory(t, func(t *testing.T, v venue.Venue) {
		s := v.Standalone(t, venue.Options{})
		witness := connect(t, v, 20*time.Second, []string{s.Addr()}, wire.WithDigestAuth("root", "secret"))
		must(t, errOf(witness.Create("/ann", nil, 0, zk.WorldACL(zk.PermAll))))
		_, err := witness.SetACL("/", append(zk.DigestACL(zk.PermAll, "root", "secret"), zk.WorldACL(zk.PermCreate)...), -1)
		must(t, err)
		p := v.Proxy(t, s.Addr())
		conn := connect(t, v, 20*time.Second, []string{p.Addr()}, wire.WithDigestAuth("ann", "secret"))
		must(t, errOf(conn.Create("/ann/a", nil, 0, zk.AuthACL(zk.PermAll))))
		l := conn
		for range 20 {
			epoch, changed := l.Epoch(), l.Changed()
			p.Cut()
			for l.Epoch() == epoch {
				<-changed
				changed = l.Changed()
			}
			_, err = l.WatchNodes([]string{"/ann/a"}, "") // may be the first request on this connection
			must(t, err)
		}
	})
}

// If a server refuses the credentials, Connect fails at once.
func TestRefusedCredentials(t *testing.T) {
	t.Parallel()
	refused := func(t *testing.T, server string, opts ...wire.Option) {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		conn, err := wire.Connect(ctx, []string{server}, 10*time.Second, append(opts, wire.WithDigestAuth("ann", "secret"))...)
		if err == nil {
			conn.Close()
		}
		if !errors.Is(err, zk.ErrAuthFailed) || ctx.Err() != nil {
			t.Errorf("got %v, want zk.ErrAuthFailed at once", err)
		}
		if err != nil && (!strings.Contains(err.Error(), `"ann"`) || strings.Contains(err.Error(), "secret")) {
			t.Errorf("the error must name the user, and not the password: %v", err)
		}
	}
	t.Run("in memory", func(t *testing.T) {
		t.Parallel()
		venue.InMemory(t, func(t *testing.T, v venue.Venue) {
			p := v.Proxy(t, v.Servers(t)[0])
			f := p.Next(proxy.AuthOp, proxy.Answer(-115))
			refused(t, p.Addr(), v.Dialer()...)
			<-f.Fired()
		})
	})
	t.Run("real", func(t *testing.T) {
		t.Parallel()
		refused(t, realzk.Standalone(t, realzk.Options{Config: map[string]string{"DigestAuthenticationProvider.enabled": "false"}}).Addr())
	})
}

// Servers that have accepted the credentials refuse them after a reconnect. The client tries again,
// about once a second, and sends no other request before a server accepts them.
func TestCredentialsThatAreRefusedLater(t *testing.T) {
	ann, bob := wire.WithDigestAuth("ann", "secret"), wire.WithDigestAuth("bob", "secret")
	for name, identities := range map[string][]wire.Option{"one": {ann}, "two": {ann, bob}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			venue.InMemory(t, func(t *testing.T, v venue.Venue) {
				p := v.Proxy(t, v.Servers(t)[0])
				conn := connect(t, v, 10*time.Second, []string{p.Addr()}, identities...)
				if _, _, _, err := conn.GetW("/"); err != nil { // the client sets the watch again on each connection
					t.Fatal(err)
				}
				var refused []*proxy.Fault
				for range 1000 {
					refused = append(refused, p.Next(proxy.AuthOp, proxy.Answer(-115)))
				}
				attempts := func(d time.Duration) int64 {
					before := p.Seen(proxy.ConnectOp)
					time.Sleep(d) // virtual
					return p.Seen(proxy.ConnectOp) - before
				}
				p.Cut()
				attempts(time.Minute)
				if n := attempts(time.Minute); n < 20 || n > 120 {
					t.Errorf("%d attempts in a minute", n)
				}
				reads, answered := p.Seen(proxy.ReadOp), make(chan error, 1)
				go func() { _, _, err := conn.Get("/"); answered <- err }()
				attempts(time.Minute)
				if n := p.Seen(proxy.ReadOp); n != reads {
					t.Error("a read is sent without the credentials")
				}
				for _, f := range refused {
					f.Cancel()
				}
				call(t, conn, 20*time.Second)
				<-answered
			})
		})
	}
}

// If a server refuses credentials that the program adds, AddAuth fails, and the client does not
// send them after a reconnect.
func TestOtherCredentialsAreRefused(t *testing.T) {
	t.Parallel()
	venue.InMemory(t, func(t *testing.T, v venue.Venue) {
		p := v.Proxy(t, v.Servers(t)[0])
		conn := connect(t, v, 10*time.Second, []string{p.Addr()})
		if err := conn.AddAuth("digest", []byte("ann:secret")); err != nil {
			t.Error(err)
		}
		f := p.Next(proxy.AuthOp, proxy.Answer(-115))
		if err := conn.AddAuth("digest", []byte("bob:secret")); !errors.Is(err, zk.ErrAuthFailed) {
			t.Errorf("error %v, want zk.ErrAuthFailed", err)
		}
		<-f.Fired()
		before := p.Seen(proxy.AuthOp)
		p.Cut()
		call(t, conn, 20*time.Second)
		if n := p.Seen(proxy.AuthOp) - before; n != 1 {
			t.Errorf("%d credentials were sent again, want those that were accepted", n)
		}
	})
}
