package wire

import (
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"math/big"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
)

func TestParseConfig(t *testing.T) {
	const names = `server.1=zk1:2888:3888:participant;0.0.0.0:2181
server.2=zk2:2888:3888:observer;10.0.0.2:2182
server.3=[2001:db8::3]:2888:3888;2183
server.4=zk4:2888:3888|zk4b:2888:3888:participant;[::]:2184
server.5=zk5:2888:3888:participant;zk5.example.com:2185;0.0.0.0:2285
version=100000000`
	for _, c := range []struct {
		text   string
		secure bool
		want   []string // nil: an error
	}{
		{names, false, []string{"10.0.0.2:2182", "[2001:db8::3]:2183", "zk1:2181", "zk4:2184", "zk5.example.com:2185"}},
		{"server.1=zk1:2888:3888;2181\r\nserver.2=zk2:2888:3888;2181\r\n", false, []string{"zk1:2181", "zk2:2181"}},
		{"server.1=zk1:2888:3888:participant;2181;2281\nserver.2=zk2:2888:3888:participant;;[2001:db8::1]:2282", true, []string{"[2001:db8::1]:2282", "zk1:2281"}},
		{"server.1=zk1:2888:3888:participant;;2281", false, nil},
		{names, true, nil},
		{"server.1=zk1:2888:3888;2181\nserver.2=zk2:2888:3888:participant\nversion=0", false, nil},
		{"server.1=zk1:2888:3888;port", false, nil},
		{"version=0", false, nil},
		{"", false, nil},
	} {
		got, err := parseConfig(c.text, c.secure, false)
		if (err != nil) != (c.want == nil) || err == nil && !slices.Equal(got, c.want) {
			t.Errorf("%q, secure %v: got %q, %v, want %q", c.text, c.secure, got, err, c.want)
		}
	}
}

// An address that is another machine for each client is refused, with the whole configuration.
// A client that has reached a member by such an address itself takes those of the machine.
func TestAddressesOfAnotherMachine(t *testing.T) {
	const other = "\nserver.2=zk2:2888:3888;2181"
	for host, sometimes := range map[string]bool{
		"0.0.0.0": false, "[::]": false, "[::ffff:0.0.0.0]": false, "[::%eth0]": false,
		"127.0.0.1": true, "127.9.9.9": true, "[::1]": true, "[::ffff:127.0.0.1]": true, "169.254.1.1": true, "[fe80::1%eth0]": true,
		"localhost": true, "LOCALHOST.": true, "localhost.localdomain": true, "zk1.localhost": true, "ip6-loopback": true, "127.1": true, "0": true,
	} {
		for _, text := range []string{"server.1=" + host + ":2888:3888;2181", "server.1=" + host + ":2888:3888;0.0.0.0:2181", "server.1=zk1:2888:3888;" + host + ":2181"} {
			if strings.HasPrefix(text, "server.1=zk1") && !sometimes { // a wildcard stands for the quorum host
				continue
			}
			_, err := parseConfig(text+other, false, false)
			if err == nil || !strings.Contains(err.Error(), "server.1 has the address ") || !strings.Contains(err.Error(), "server.1=zk.example.com:2888:3888;2181") {
				t.Errorf("%s: %v", text, err)
			}
			if servers, err := parseConfig(text+other, false, true); (err == nil) != sometimes {
				t.Errorf("%s, on that machine: %q, %v", text, servers, err)
			}
		}
	}
	for _, host := range []string{"zk1", "localhosts", "10.0.0.1", "zk1.example.com", "[2001:db8::1]", "1.zk"} {
		if _, err := parseConfig("server.1="+host+":2888:3888;2181"+other, false, false); err != nil {
			t.Errorf("%s: %v", host, err)
		}
	}
}

// A client on the members' machine follows their addresses there, until it connects by another
// address. A connection with TLS follows the ensemble to secure ports alone.
func TestFollow(t *testing.T) {
	public, key, _ := ed25519.GenerateKey(nil)
	serial := &x509.Certificate{SerialNumber: big.NewInt(1)}
	der, err := x509.CreateCertificate(nil, serial, serial, public, key)
	must(t, err)
	secured := &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, InsecureSkipVerify: true}
	const local, plain = "server.1=localhost:2888:3888;2181", "server.1=zk1:2888:3888:participant;0.0.0.0:2181"
	for _, c := range []struct{ first, config, want string }{
		{"127.0.0.1:2181", local, "localhost:2181"},
		{"zk1:2181", local, "zk1:2181"},
		{"tls:2281", plain, "tls:2281"},
		{"tls:2281", plain + ";0.0.0.0:2282", "zk1:2282"},
	} {
		inBubble(t, func(t *testing.T) {
			f, dialed := newFakeServer(t), make(chan string, 10)
			f.answer = reads(0, c.config)
			at := f.listener.Addr().String()
			opts := []Option{WithServersFromEnsemble(), WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
				dialed <- address
				return f.network.Host("here").DialContext(ctx, network, at)
			})}
			if c.first == "tls:2281" {
				f.listener, opts = tls.NewListener(f.listener, secured), append(opts, WithTLS(secured))
			}
			f.start()
			conn, err := Connect(t.Context(), []string{c.first}, timeout, opts...)
			must(t, err)
			defer conn.Close()
			time.Sleep(time.Minute) // virtual
			if got := conn.Servers(); !slices.Equal(got, []string{c.want}) || conn.upAt() != c.want {
				t.Errorf("%+v: at %s, servers %q", c, conn.upAt(), got)
			}
			for len(dialed) > 0 {
				if address := <-dialed; address != c.first && address != c.want {
					t.Errorf("%+v: dialed %s", c, address)
				}
			}
		})
	}
}

// Of the connections at a server that remains, half move to one new server.
func TestTheShareThatMovesToNewServers(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFakeServer(t).start()
		conn := f.connect(WithDialer(f.dialAny))
		moved := 0
		for range 30 {
			at, next := conn.upAt(), "zk2:2181"
			if at == next {
				next = "zk1:2181"
			}
			must(t, conn.SetServers([]string{at}))
			must(t, conn.SetServers([]string{at, next}))
			if conn.upAt() != at {
				moved++
			}
		}
		if moved < 2 || moved > 28 {
			t.Errorf("%d of 30 moved", moved)
		}
	})
}

// A move costs no call, neither of the locks nor of the program, also if each answer takes T/5, and
// no hold if it takes T/16. go-zookeeper sends the program's next requests on the next pipe.
func TestAMoveCostsNoCall(t *testing.T) {
	for _, late := range []time.Duration{timeout / 5, timeout / 16} {
		t.Run(late.String(), func(t *testing.T) { movesAt(t, late) })
	}
}

func movesAt(t *testing.T, late time.Duration) {
	inBubble(t, func(t *testing.T) {
		f := newFakeServer(t).start()
		f.late = func(int32) time.Duration { return late }
		conn := f.connect(WithDialer(f.dialAny))
		conn.KeepAlive(true)
		time.Sleep(2 * timeout) // virtual
		done := make(chan struct{})
		var calls sync.WaitGroup
		client := conn.Client()
		var answered atomic.Int64
		for i := range 60 { // more than the queue of go-zookeeper has room for
			calls.Go(func() {
				time.Sleep(time.Duration(i) * timeout / 97) // virtual
				for {
					select {
					case <-done:
						return
					default:
					}
					var err error
					if i%3 == 0 {
						_, err = conn.Ask(t.Context(), AnySession, Multi())
					} else if _, _, err = client.Get("/"); err == ErrUnsent {
						t.Error(err)
					}
					switch err {
					case nil:
						answered.Add(1)
					case ErrUnsent:
						time.Sleep(10 * time.Millisecond) // virtual
					default:
						t.Error(err)
						return
					}
				}
			})
		}
		for i := range 100 {
			server, began := fmt.Sprintf("zk%d:2181", 1+i%2), time.Now()
			if err := conn.SetServers([]string{server}); err != nil || conn.upAt() != server {
				t.Fatalf("move %d: at %s: %v", i, conn.upAt(), err)
			}
			if took := time.Since(began); late < timeout/12 && took > timeout/4 {
				t.Errorf("move %d took %v, with answers after %v", i, took, late)
			}
			for range 50 {
				time.Sleep(timeout / 97) // virtual
				if late < timeout/12 && !conn.Alive(fakeSession) {
					t.Fatalf("move %d: the session may be over", i)
				}
			}
		}
		close(done)
		calls.Wait()
		if f.handshakes.Load() < 100 || answered.Load() < 1000 {
			t.Errorf("%d handshakes, %d answers", f.handshakes.Load(), answered.Load())
		}
	})
}

// Servers that are set while the connection is down replace the server of an attempt under way.
func TestServersThatAreSetDuringAnAttempt(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFakeServer(t).start()
		conn := f.connect(WithDialer(f.dialAny))
		f.away.Store(true)
		conn.hangUp()
		time.Sleep(50 * time.Millisecond) // virtual: until it pauses before an attempt
		ok(t, conn.SetServers([]string{"zk2:2181"}))
		f.away.Store(false)
		time.Sleep(time.Second) // virtual
		if at := conn.upAt(); at != "zk2:2181" {
			t.Errorf("it is at %q", at)
		}
		if conn.Rebalance(); conn.Epoch() != 2 {
			t.Error("it has moved to the server where it is")
		}
	})
}

// Close during a move waits neither for a mechanism of SASL, nor for an answer on the present
// connection, nor for a server that does not answer the handshake. Without Close the move returns.
func TestAMoveThatHangs(t *testing.T) {
	for name, c := range map[string]struct {
		silent, deaf bool // the present server, the next one
		closes       bool
		within       time.Duration
	}{
		"a request":              {silent: true, within: timeout / 4},
		"a request, and Close":   {silent: true, closes: true},
		"a handshake":            {deaf: true, within: longestTry},
		"a handshake, and Close": {deaf: true, closes: true, within: closeLimit / 2},
		"a mechanism, and Close": {closes: true},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				f := newFakeServer(t)
				f.welcome = func(n int64, _ net.Conn) bool { return c.deaf && n > 1 }
				f.examiner(nil)
				conn := f.start().connect(WithDialer(f.dialAny), WithSASL(func(ctx context.Context, host string) (SASLExchange, error) {
					if host == "zk2" && !c.silent && !c.deaf {
						<-ctx.Done()
					}
					return pass(ctx, host)
				}))
				f.silent.Store(c.silent)
				conn.Send(AnySession, GetData("/"))
				time.Sleep(time.Millisecond) // virtual
				began, moved := time.Now(), make(chan error)
				go func() { moved <- conn.SetServers([]string{"zk2:2181"}) }()
				synctest.Wait()
				if c.closes {
					if err := conn.Close(); (err != nil) != c.deaf || time.Since(began) > c.within {
						t.Errorf("Close: %v after %v", err, time.Since(began))
					}
				}
				if err := <-moved; err != nil || time.Since(began) > c.within {
					t.Errorf("%v after %v", err, time.Since(began))
				}
			})
		})
	}
}

// A lineLog is a logger of the lines that begin with zklocks, without those about the connection.
type lineLog chan string

func (l lineLog) Printf(format string, args ...any) {
	if line := fmt.Sprintf(format, args...); strings.HasPrefix(line, "zklocks:") {
		l <- line
	}
}

// all returns the lines since the last call.
func (l lineLog) all() (lines []string) {
	for len(l) > 0 {
		lines = append(lines, <-l)
	}
	return lines
}

// The log says why the servers remain: once, or for a node that cannot be read, at growing
// intervals. Close leaves no line, whatever is under way.
func TestWhyTheServersRemain(t *testing.T) {
	for name, c := range map[string]struct {
		code int32 // of the answer to the read
		data string
		says string
		most int // lines in an hour
	}{
		"a standalone server": {0, "", "it lists no servers", 1},
		"a wrong port":        {0, "server.1=zk1:2888:3888;a:b", `address "a:b": want host or host:port`, 1},
		"a wildcard": {0, "server.1=0.0.0.0:2888:3888;2181",
			`server.1 has the address "0.0.0.0", which is another machine for each client: write a name or an address that all clients can use, ` +
				`as in server.1=zk.example.com:2888:3888;2181`, 1},
		"no node":  {codeNoNode, "", zk.ErrNoNode.Error(), 20},
		"no right": {-102, "", zk.ErrNoAuth.Error(), 20},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				f, said := newFakeServer(t), make(lineLog, 2000)
				f.answer = reads(c.code, c.data)
				at := f.start().listener.Addr().String()
				conn := f.connect(WithServersFromEnsemble(), WithLogger(said))
				time.Sleep(time.Hour) // virtual
				conn.Close()
				want := "zklocks: /zookeeper/config: " + c.says + "; the servers remain " + at
				if all := said.all(); len(all) == 0 || len(all) > c.most || slices.ContainsFunc(all, func(line string) bool { return line != want }) {
					t.Errorf("%d lines, want at most %d lines %q: %q", len(all), c.most, want, all[:min(3, len(all))])
				}
			})
		})
	}
}

// A move that fails is logged, with the server once. A move that Close ends is not logged.
func TestAMoveThatFails(t *testing.T) {
	for _, servers := range [][]string{{"silent:2181"}, {"silent:2181", "mute:2181"}} {
		inBubble(t, func(t *testing.T) {
			f, said := newFakeServer(t).start(), make(lineLog, 10)
			conn := f.connect(WithLogger(said), WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
				if address == servers[0] || address == "mute:2181" {
					<-ctx.Done()
					return nil, &net.OpError{Op: "dial", Net: network, Err: os.ErrDeadlineExceeded}
				}
				return f.dial(ctx, network, address)
			}))
			ok(t, conn.SetServers(servers))
			all := said.all()
			if want := "zklocks: not moved to silent:2181: context deadline exceeded: dial tcp: i/o timeout"; len(all) != len(servers) || !slices.Contains(all, want) {
				t.Errorf("%q, want %q", all, want)
			}
			time.AfterFunc(time.Millisecond, func() { conn.Close() })
			ok(t, conn.SetServers(servers[:1]))
			if more := said.all(); more != nil {
				t.Errorf("Close leaves %q", more)
			}
		})
	}
}
