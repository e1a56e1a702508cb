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
	"testing"
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
		{"server.1=zk1:2888:3888:participant;2181;2281\nserver.2=zk2:2888:3888:participant;;[::1]:2282", true, []string{"[::1]:2282", "zk1:2281"}},
		{"server.1=zk1:2888:3888:participant;;2281", false, nil},
		{names, true, nil},
		{"server.1=zk1:2888:3888;2181\nserver.2=zk2:2888:3888:participant\nversion=0", false, nil},
		{"server.1=zk1:2888:3888;port", false, nil},
		{"version=0", false, nil},
		{"", false, nil},
	} {
		got, err := parseConfig(c.text, c.secure)
		if (err != nil) != (c.want == nil) || err == nil && !slices.Equal(got, c.want) {
			t.Errorf("%q, secure %v: got %q, %v, want %q", c.text, c.secure, got, err, c.want)
		}
	}
}

// A lineLog is a logger of this package's lines, without go-zookeeper's.
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
		reply []byte // to the read, behind its zxid
		says  string
		most  int // lines in an hour
	}{
		"a standalone server": {slices.Concat(word(0), word(0), make([]byte, 68)), "it lists no servers", 1},
		"a wrong port":        {slices.Concat(word(0), word(26), []byte("server.1=zk1:2888:3888;a:b"), make([]byte, 68)), `address "a:b": want host or host:port`, 1},
		"no node":             {word(codeNoNode), zk.ErrNoNode.Error(), 20},
		"no right":            {word(-102), zk.ErrNoAuth.Error(), 20},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				f, said := newFakeServer(t), make(lineLog, 2000)
				f.answer = func(_ int64, w net.Conn, xid, op int32) bool {
					if op == opGetData {
						w.Write(frame(append(header(xid)[:12], c.reply...)))
					}
					return op == opGetData
				}
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
			if err := conn.SetServers(servers); err != nil {
				t.Error(err)
			}
			all := said.all()
			if want := "zklocks: not moved to silent:2181: context deadline exceeded: dial tcp: i/o timeout"; len(all) != len(servers) || !slices.Contains(all, want) {
				t.Errorf("%q, want %q", all, want)
			}
			time.AfterFunc(time.Millisecond, func() { conn.Close() })
			if err := conn.SetServers(servers[:1]); err != nil {
				t.Error(err)
			}
			if more := said.all(); more != nil {
				t.Errorf("Close leaves %q", more)
			}
		})
	}
}

// A connection with TLS follows the ensemble to secure ports alone.
func TestFollowWithTLS(t *testing.T) {
	const plain = "server.1=zk1:2888:3888:participant;0.0.0.0:2181"
	public, key, _ := ed25519.GenerateKey(nil)
	serial := &x509.Certificate{SerialNumber: big.NewInt(1)}
	der, err := x509.CreateCertificate(nil, serial, serial, public, key)
	if err != nil {
		t.Fatal(err)
	}
	secured := &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, InsecureSkipVerify: true}
	for config, want := range map[string]string{ // the servers afterwards
		plain:                   "first:2281",
		plain + ";0.0.0.0:2282": "zk1:2282",
	} {
		inBubble(t, func(t *testing.T) {
			f, dialed := newFakeServer(t), make(chan string, 10)
			f.listener = tls.NewListener(f.listener, secured)
			f.answer = func(_ int64, w net.Conn, xid, op int32) bool {
				if op == opGetData {
					w.Write(frame(slices.Concat(header(xid), word(int32(len(config))), []byte(config), make([]byte, 68))))
				}
				return op == opGetData
			}
			at := f.start().listener.Addr().String()
			conn, err := Connect(t.Context(), []string{"first:2281"}, 4*time.Second, WithServersFromEnsemble(), WithTLS(secured),
				WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
					dialed <- address
					return f.network.Host("here").DialContext(ctx, network, at)
				}))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			time.Sleep(time.Minute) // virtual
			if got := conn.Servers(); !slices.Equal(got, []string{want}) || conn.server() != want {
				t.Errorf("%s: at %s, servers %q, want %s", config, conn.server(), got, want)
			}
			for len(dialed) > 0 {
				if address := <-dialed; address != "first:2281" && address != want {
					t.Errorf("%s: dialed %s", config, address)
				}
			}
		})
	}
}
