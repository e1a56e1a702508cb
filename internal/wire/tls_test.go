package wire_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/realzk"
	"github.com/zklocks/zklocks/internal/test/venue"
	"github.com/zklocks/zklocks/internal/wire"
)

func port(t *testing.T, address string) string {
	t.Helper()
	_, port, err := net.SplitHostPort(address)
	must(t, err)
	return port
}

// The certificate must have the name that was given to Connect, or the name in the configuration.
// The configuration is copied.
func TestTLS(t *testing.T) {
	t.Parallel()
	venue.Both(t, func(t *testing.T, v venue.Venue) {
		ca := realzk.NewAuthority(t)
		server := v.StandaloneTLS(t, ca, ca.Issue(t, "localhost", time.Now().Add(time.Hour)), venue.Options{})
		config := &tls.Config{RootCAs: ca.Pool}
		option, named := wire.WithTLS(config), wire.WithTLS(&tls.Config{RootCAs: ca.Pool, ServerName: "localhost"})
		config.RootCAs = realzk.NewAuthority(t).Pool
		elsewhere := wire.WithDialer(func(ctx context.Context, network, _ string) (net.Conn, error) {
			return v.Dial(ctx, network, server.TLSAddr)
		})
		for _, conn := range []*wire.Conn{
			connect(t, v, 4*time.Second, []string{server.TLSAddr}, option),
			connect(t, v, 4*time.Second, []string{"127.0.0.1:2181"}, named, elsewhere),
		} {
			call(t, conn, 2*time.Second)
			if !conn.Alive(conn.Session()) || config.ServerName != "" {
				t.Errorf("the session lives until %v, the name is %q", conn.Deadline(conn.Session()), config.ServerName)
			}
		}
	})
}

// A closing connection says when it is closed.
type closing struct {
	net.Conn
	closed func()
}

func (c *closing) Close() error {
	c.closed()
	return c.Conn.Close()
}

// A certificate that must not be trusted is refused, and the error says why. The logger receives
// each attempt: the test cancels Connect when it has enough of them.
func TestTLSRefused(t *testing.T) {
	t.Parallel()
	venue.InMemory(t, func(t *testing.T, v venue.Venue) {
		ca := realzk.NewAuthority(t)
		good := v.StandaloneTLS(t, ca, ca.Issue(t, "localhost", time.Now().Add(time.Hour)), venue.Options{})
		trusting := &tls.Config{RootCAs: ca.Pool}
		var left atomic.Int32 // network connections
		dial := wire.WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := v.Dial(ctx, network, strings.Replace(address, "elsewhere:2181", good.TLSAddr, 1))
			left.Add(1)
			return &closing{conn, sync.OnceFunc(func() { left.Add(-1) })}, err
		})
		for name, tc := range map[string]struct {
			server string
			opts   []wire.Option
			says   string
		}{
			"wrong name":           {"elsewhere:2181", []wire.Option{wire.WithTLS(trusting)}, "certificate"},
			"unknown authority":    {good.TLSAddr, []wire.Option{wire.WithTLS(nil)}, "unknown authority"},
			"no TLS at the server": {good.Addr(), []wire.Option{wire.WithTLS(trusting)}, "TLS"},
			"no TLS at the client": {good.TLSAddr, nil, "TLS"},
		} {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			said := &lines{wait: tc.says, found: cancel}
			conn, err := wire.Connect(ctx, []string{tc.server}, 12*time.Second, append(tc.opts, dial, wire.WithLogger(said))...)
			cancel()
			if err == nil {
				conn.Close()
				t.Fatalf("%s: connected", name)
			}
			if n := left.Load(); n != 0 {
				t.Errorf("%s: %d network connections are left", name, n)
			}
			if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("%s: error %q, want one that says %q, as the log: %q", name, err, tc.says, said.all())
			}
		}
	})
}

// A client's certificate is an identity in ZooKeeper's scheme x509.
func TestClientCertificate(t *testing.T) {
	t.Parallel()
	venue.OnReal(t, func(t *testing.T, v venue.Venue) {
		ca, later := realzk.NewAuthority(t), time.Now().Add(time.Hour)
		server := realzk.StandaloneTLS(t, ca, ca.Issue(t, "localhost", later), realzk.Options{
			Config: map[string]string{"ssl.clientAuth": "need"},
		})
		as := func(certs ...tls.Certificate) wire.Option {
			return wire.WithTLS(&tls.Config{RootCAs: ca.Pool, Certificates: certs})
		}
		ann := connect(t, v, 4*time.Second, []string{server.TLSAddr}, as(ca.Issue(t, "ann", later)))
		bob := connect(t, v, 4*time.Second, []string{server.TLSAddr}, as(ca.Issue(t, "bob", later)))
		path := test.Path(t)
		must(t, errOf(ann.Client().Create(path, nil, zk.FlagEphemeral, []zk.ACL{{Perms: zk.PermAll, Scheme: "x509", ID: "CN=ann"}})))
		if _, _, err := ann.Client().Get(path); err != nil {
			t.Errorf("ann: %v", err)
		}
		if _, _, err := bob.Client().Get(path); !errors.Is(err, zk.ErrNoAuth) {
			t.Errorf("bob: %v", err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
		defer cancel()
		conn, err := wire.Connect(ctx, []string{server.TLSAddr}, 4*time.Second, as(realzk.NewAuthority(t).Issue(t, "ann", later)))
		if err == nil {
			conn.Close()
			t.Fatal("connected with a certificate of another authority")
		}
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), port(t, server.TLSAddr)) {
			t.Error(err)
		}
	})
}
