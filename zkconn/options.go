package zkconn

import (
	"context"
	"crypto/tls"
	"net"

	"github.com/go-zookeeper/zk"
)

// An Option changes how Connect connects.
type Option interface{ apply(*settings) }

type option func(*settings)

func (o option) apply(s *settings) { o(s) }

type settings struct {
	logger zk.Logger
	auth   []credentials
	tls    *tls.Config
	dial   func(ctx context.Context, network, address string) (net.Conn, error)
}

type credentials struct{ user, password string }

// WithLogger sends the client's messages (lost connections, failed attempts) to l. Default: they are dropped; errors
// reach the caller in other ways. l may be called from several goroutines.
func WithLogger(l zk.Logger) Option {
	return option(func(s *settings) { s.logger = l })
}

// WithDigestAuth authenticates the connection, now and after each reconnect, by ZooKeeper's scheme "digest". Given twice,
// the connection has both identities. Default: none.
//
// A wrong password is not an error: the server takes any pair and merely counts the connection as another identity,
// whose calls then fail with zk.ErrNoAuth. Connect fails only if the server refuses the scheme itself.
// The password travels in clear text; combine with WithTLS.
func WithDigestAuth(user, password string) Option {
	return option(func(s *settings) { s.auth = append(s.auth, credentials{user, password}) })
}

// WithTLS talks TLS to the servers' secureClientPort. The certificate is checked against the host name as given to
// Connect unless config.ServerName is set; config is cloned and may be nil. Default: no TLS.
func WithTLS(config *tls.Config) Option {
	return option(func(s *settings) {
		if config == nil {
			config = &tls.Config{}
		}
		s.tls = config.Clone()
	})
}

// WithDialer opens the network connections, for a SOCKS proxy or a test. dial gets each address as given to Connect, host
// name and port, and must end when its context does. Default: look the name up, dial one of its addresses by TCP.
func WithDialer(dial func(ctx context.Context, network, address string) (net.Conn, error)) Option {
	return option(func(s *settings) { s.dial = dial })
}

// quiet is the default logger.
type quiet struct{}

func (quiet) Printf(string, ...any) {}
