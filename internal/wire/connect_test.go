package wire_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/memnet"
	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/internal/test/venue"
	"github.com/zklocks/zklocks/internal/wire"
)

// The error of a bad input comes at once, on one line. It quotes no secret, and only a part of a
// long address.
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
		{"end of line", []string{"zk1\n"}, time.Second, nil},
		{"a zone with a space", []string{"[fe80::1%eth 0]:2181"}, time.Second, nil},
		{"not UTF-8", []string{"zk\xff:2181"}, time.Second, nil},
		{"overlong", []string{strings.Repeat("zk", 128) + ":2181"}, time.Second, nil},
		{"overlong, with too many colons", []string{strings.Repeat("z", 1<<20) + "::1"}, time.Second, nil},
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
			text := err.Error()
			if !strings.HasPrefix(text, "zklocks: ") || strings.Contains(text, "secret") || strings.Contains(text, "\n") ||
				len(text) > 400 || time.Since(start) > time.Second {
				t.Errorf("%.400s after %v", text, time.Since(start))
			}
		})
	}
}

// The error for an address says what to do about it: it names the function that splits a connect
// string, and the ports that there are.
func TestAnAddressThatIsWrong(t *testing.T) {
	for address, says := range map[string]string{
		"zk1:2181,zk2:2181": `address "zk1:2181,zk2:2181" is a connect string: ParseServers splits it`,
		"zk1,zk2":           "ParseServers",
		"zk1:2181/app":      "ParseServers",
		"":                  "an address is empty",
		"zk1:0":             `address "zk1:0": ports are 1 to 65535`,
		"[::2]:99999":       `address "[::2]:99999": ports are 1 to 65535`,
		"zk1:1e3":           `address "zk1:1e3": want host or host:port`,
	} {
		if _, err := wire.Addresses([]string{address}); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want %s", address, err, says)
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

// Connect sends a read to check whether the server refuses the credentials. It repeats the read if
// an overloaded server drops it. That the client may not read the root is an answer.
func TestConnectGoesOnWhenThrottled(t *testing.T) {
	t.Parallel()
	venue.InMemory(t, func(t *testing.T, v venue.Venue) {
		p := v.Proxy(t, v.Servers(t)[0])
		faults := []*proxy.Fault{p.Next(proxy.ExistsOp, proxy.Answer(-127)), p.Next(proxy.ExistsOp, proxy.Answer(-127)), p.Next(proxy.ExistsOp, proxy.Answer(-102))}
		connect(t, v, 10*time.Second, []string{p.Addr()}, wire.WithDigestAuth("ann", "secret"))
		for _, f := range faults {
			<-f.Fired()
		}
	})
}

// pauses bounds, in virtual time, what Close waits for besides the server.
const pauses = 5 * time.Millisecond

// Connect returns when ctx is canceled. Its error says in one line where Connect has tried for how
// long, and why no server grants a session.
func TestConnectGivesUp(t *testing.T) {
	nothing := func(context.Context, string, string) (net.Conn, error) { return nil, nil }
	for name, tc := range map[string]struct {
		serve func(net.Conn) // nil: nobody listens
		opts  []wire.Option
		says  string
	}{
		"refused": {says: "connect: connection refused"},
		"silent":  {serve: func(net.Conn) {}, says: "accepted the connection, but did not answer the handshake within 500ms"},
		"stops": {serve: func(c net.Conn) { _, _ = c.Write([]byte{0, 0, 0, 36, 0, 0}) }, says: "accepted the connection, " +
			"but did not answer the handshake within 500ms"},
		"closes": {serve: func(c net.Conn) { c.Close() }, says: `closed the connection during the handshake ` +
			`\(not part of a quorum\? TLS expected\? maxClientCnxns reached\? data older than the client has seen\?\)`},
		"HTTP": {serve: func(c net.Conn) {
			_, _ = c.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
		}, says: "the server speaks HTTP: this is not ZooKeeper's client port"},
		"a dialer that returns nothing": {opts: []wire.Option{wire.WithDialer(nothing)}, says: "the dialer returned no connection"},
		"the same with TLS": {
			opts: []wire.Option{wire.WithDialer(nothing), wire.WithTLS(nil)}, says: "the dialer returned no connection"},
	} {
		for _, servers := range [][]string{{"zk1:2181"}, {"zk1:2181", "zk2:2181"}} {
			t.Run(fmt.Sprintf("%s, %d", name, len(servers)), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					network := memnet.New()
					defer network.Close()
					for _, address := range servers {
						listen(t, network, address, tc.serve)
					}
					const patience = 700 * time.Millisecond
					ctx, cancel := context.WithTimeout(t.Context(), patience)
					defer cancel()
					var over atomic.Bool
					began := time.Now()
					_, err := wire.Connect(ctx, servers, 3*time.Second, append([]wire.Option{wire.WithDialer(network.Host("here").DialContext),
						wire.WithSessionEvents(func(e zk.Event) {
							if over.Load() {
								t.Errorf("%v is reported when Connect has returned", e.State)
							}
							time.Sleep(300 * time.Millisecond) // virtual
						})}, tc.opts...)...)
					over.Store(true)
					defer time.Sleep(time.Second) // virtual: until the last event is handled
					if took := time.Since(began); took > patience+pauses || !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("%v after %v", err, took)
					}
					says := tc.says
					if len(servers) > 1 {
						says = "zk[12]:2181: " + says
					}
					want := "^zklocks: connect to " + strings.Join(servers, ", ") +
						": after 70[0-9]ms: context deadline exceeded: no answer from ZooKeeper; last attempt: " + says + "$"
					if !regexp.MustCompile(want).MatchString(err.Error()) {
						t.Errorf("%v\nwant %s", err, want)
					}
				})
			})
		}
	}
}

// A dialer ignores its ctx, and returns a connection after Connect has failed, after Close, or for a
// move while which the present connection was lost.
func TestAConnectionThatIsDialedTooLateIsClosed(t *testing.T) {
	t.Parallel()
	for name, late := range map[string]func(t *testing.T, p *proxy.Proxy, conn *wire.Conn){
		"after a failed Connect": nil,
		"after Close": func(_ *testing.T, p *proxy.Proxy, conn *wire.Conn) {
			p.Cut()
			time.Sleep(5 * time.Second) // virtual: it dials
			_ = conn.Close()
		},
		"for a move": func(t *testing.T, p *proxy.Proxy, conn *wire.Conn) {
			time.AfterFunc(30*time.Second, p.Cut)
			must(t, conn.SetServers([]string{"elsewhere:2181"}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			venue.InMemory(t, func(t *testing.T, v venue.Venue) {
				p := v.Proxy(t, v.Servers(t)[0])
				near, far := net.Pipe()
				var dials atomic.Int32
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				conn, err := wire.Connect(ctx, []string{p.Addr()}, 10*time.Second, wire.WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
					switch n := dials.Add(1); {
					case n == 1 && late != nil:
						return v.Dial(ctx, network, address)
					case n > 2:
						return nil, errors.New("refused")
					}
					time.Sleep(time.Minute) // virtual
					return near, nil
				}))
				if (err == nil) != (late != nil) {
					t.Fatal(err)
				}
				if late != nil {
					late(t, p, conn)
					defer conn.Close()
				}
				_ = far.SetDeadline(time.Now().Add(2 * time.Minute)) // fails if the connection is closed already
				if _, err := far.Read(make([]byte, 1)); err != io.EOF {
					t.Errorf("a read at the other end: %v, want %v", err, io.EOF)
				}
			})
		})
	}
}

// listen makes the network know an address, where serve gets each connection.
func listen(t *testing.T, network *memnet.Network, address string, serve func(net.Conn)) {
	t.Helper()
	l, err := network.Listen(address)
	must(t, err)
	if serve == nil {
		must(t, l.Close())
		return
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serve(c)
		}
	}()
}

// The system's network, and its resolver.
func TestConnectGivesUpInRealTime(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	must(t, l.Close())
	for address, says := range map[string]string{l.Addr().String(): "refused", "no-such-host.invalid:2181": "no-such-host.invalid"} {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		_, err := wire.Connect(ctx, []string{address}, 3*time.Second)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", address, err)
		}
	}
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
			if got := conn.Timeout(); got != want {
				t.Errorf("asked %v: granted %v, want %v", asked, got, want)
			}
			if left := time.Until(conn.Deadline(conn.Session())); left != want {
				t.Errorf("asked %v: %v left, granted %v", asked, left, want)
			}
		}
	})
}

// If the servers refuse the credentials, Connect fails soon. One refusal proves nothing. The error
// names the user, and not the password.
func TestRefusedCredentials(t *testing.T) {
	t.Parallel()
	venue.InMemory(t, func(t *testing.T, v venue.Venue) {
		p, said := v.Proxy(t, v.Servers(t)[0]), new(lines)
		try := func(refusals int) error {
			for range refusals {
				p.Next(proxy.AuthOp, proxy.Answer(-115))
			}
			began := time.Now()
			conn, err := wire.Connect(t.Context(), []string{p.Addr()}, 10*time.Second,
				append(v.Dialer(), wire.WithDigestAuth("ann", "secret"), wire.WithLogger(said))...)
			if took := time.Since(began); took > time.Second {
				t.Errorf("Connect took %v", took)
			}
			if err == nil {
				err = conn.Close()
			}
			return err
		}
		must(t, try(1))
		err := try(2)
		if log := strings.Join(said.all(), "\n"); strings.Contains(log, "closed network connection") || strings.Contains(log, "lost") {
			t.Errorf("the log of a Close and of a final refusal:\n%s", log)
		}
		if !errors.Is(err, zk.ErrAuthFailed) || !strings.Contains(err.Error(), `"ann"`) || strings.Contains(err.Error(), "secret") {
			t.Error(err)
		}
		p.Next(proxy.ExistsOp, proxy.CutBefore) // Connect's own read
		p.Nth(proxy.AuthOp, 2, proxy.Answer(-115))
		p.Nth(proxy.AuthOp, 3, proxy.Answer(-115))
		if err := try(0); !errors.Is(err, zk.ErrAuthFailed) {
			t.Errorf("refused while Connect reads: %v", err)
		}
	})
}

// Servers that have accepted the credentials refuse them after a reconnect. run tries
// again, about once a second, and sends no other request before a server accepts them.
func TestCredentialsThatAreRefusedLater(t *testing.T) {
	behind(t, func(t *testing.T, v venue.Venue, p *proxy.Proxy, conn, _ *wire.Conn) {
		if _, _, _, err := conn.Client().GetW("/"); err != nil { // the watch is set again on each connection
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
		go func() { _, _, err := conn.Client().Get("/"); answered <- err }()
		attempts(time.Minute)
		if n := p.Seen(proxy.ReadOp); n != reads {
			t.Error("a read is sent without the credentials")
		}
		for _, f := range refused {
			f.Cancel()
		}
		call(t, conn, 20*time.Second)
		<-answered
	}, wire.WithDigestAuth("ann", "secret"), wire.WithDigestAuth("bob", "secret"))
}
