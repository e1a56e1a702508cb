package wire_test

import (
	"context"
	"net"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zklocks/zklocks/internal/memnet"
	"github.com/zklocks/zklocks/internal/test/venue"
	"github.com/zklocks/zklocks/internal/wire"
)

const closedText = `closed the connection during the handshake ` +
	`\(not part of a quorum\? TLS expected\? maxClientCnxns reached\? data older than the client has seen\?\)`

// The error of Connect says in one line why a server grants no session.
func TestConnectSaysWhyInOneLine(t *testing.T) {
	for name, tc := range map[string]struct {
		serve func(net.Conn)
		says  string
	}{
		"refused": {nil, "connect: connection refused"},
		"silent":  {func(net.Conn) {}, "accepted the connection, but did not answer the handshake within 500ms"},
		"closes":  {func(c net.Conn) { c.Close() }, closedText},
		"HTTP": {func(c net.Conn) {
			_, _ = c.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
		}, "the server speaks HTTP: this is not ZooKeeper's client port"},
	} {
		for _, servers := range [][]string{{"zk1:2181"}, {"zk1:2181", "zk2:2181"}} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					network := memnet.New()
					defer network.Close()
					for _, address := range servers {
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
					}
					ctx, cancel := context.WithTimeout(t.Context(), 700*time.Millisecond)
					defer cancel()
					_, err := wire.Connect(ctx, servers, 3*time.Second, wire.WithDialer(network.Host("here").DialContext))
					text := err.Error()
					t.Log(text)
					says := tc.says
					if len(servers) > 1 {
						says = "zk[12]:2181: " + says
					}
					want := "^zklocks: connect to " + strings.Join(servers, ", ") +
						": after 70[0-9]ms: context deadline exceeded: no answer from ZooKeeper; last attempt: " + says + "$"
					if !regexp.MustCompile(want).MatchString(text) {
						t.Errorf("want %s", want)
					}
				})
			})
		}
	}
}

// During an outage the client repeats a few messages. The program's logger receives each of them
// once in five seconds.
func TestAnOutageFillsNoLog(t *testing.T) {
	t.Parallel()
	venue.InMemory(t, func(t *testing.T, v venue.Venue) {
		said := new(lines)
		p, q := v.Proxy(t, v.Servers(t)[0]), v.Proxy(t, v.Servers(t)[0])
		conn := connect(t, v, 30*time.Second, []string{p.Addr(), q.Addr()}, wire.WithLogger(said))
		p.Refuse()
		q.Refuse()
		time.Sleep(21 * time.Second) // virtual
		failures := 0
		for _, line := range said.all() {
			t.Log(line)
			if strings.HasPrefix(line, "failed to connect to ") {
				failures++
			}
		}
		if failures != 2*5 {
			t.Errorf("%d failures logged, want 10", failures)
		}
		must(t, p.Accept())
		call(t, conn, 20*time.Second)
	})
}
