package wire

import (
	"context"
	"crypto/tls"
	"net"
	"sync"

	"github.com/go-zookeeper/zk"
)

// An Option changes how Connect connects.
type Option func(*settings)

type settings struct {
	logger zk.Logger // nil: none
	auth   []credentials
	tls    func() (*tls.Config, error) // nil: no TLS
	dial   func(ctx context.Context, network, address string) (net.Conn, error)
	events []*notifier // called with session events
}

type credentials struct{ user, password string }

// WithLogger sends the client's messages (lost connections, failed attempts) to l. Default: they
// are dropped; errors reach the caller in other ways. l may be called from several goroutines.
func WithLogger(l zk.Logger) Option {
	return func(s *settings) {
		if l != nil {
			s.logger = l
		}
	}
}

// WithDigestAuth authenticates the connection, now and after each reconnect, by ZooKeeper's scheme
// "digest". Given twice, the connection has both identities. Default: none.
//
// A wrong password is not an error: the server takes any pair and merely counts the connection as
// another identity, whose calls then fail with zk.ErrNoAuth. Connect fails only if the server
// refuses the scheme itself. The password travels in clear text; combine with WithTLS.
func WithDigestAuth(user, password string) Option {
	return func(s *settings) { s.auth = append(s.auth, credentials{user, password}) }
}

// WithTLS talks TLS to the servers' secureClientPort. The certificate is checked against the host
// name as given to Connect unless config.ServerName is set; config is cloned and may be nil.
// Default: no TLS.
func WithTLS(config *tls.Config) Option {
	if config == nil {
		config = &tls.Config{}
	}
	config = config.Clone()
	return WithTLSFrom(func() (*tls.Config, error) { return config, nil })
}

// WithTLSFrom is WithTLS with a configuration for each network connection, which is cloned. An
// error fails the attempt to connect.
func WithTLSFrom(config func() (*tls.Config, error)) Option {
	return func(s *settings) { s.tls = config }
}

// WithDialer opens the network connections, for a SOCKS proxy or a test. dial gets each address as
// given to Connect, host name and port, and must end when its context does. Default: look the name
// up, dial one of its addresses by TCP.
func WithDialer(dial func(ctx context.Context, network, address string) (net.Conn, error)) Option {
	return func(s *settings) { s.dial = dial }
}

// WithSessionEvents calls f with all events of the session, in their order, on a goroutine of its
// own.
func WithSessionEvents(f func(zk.Event)) Option {
	return func(s *settings) {
		if f != nil {
			s.events = append(s.events, &notifier{f: f})
		}
	}
}

// A notifier calls f with one event after another, however long f takes. It has a goroutine while
// there are events.
type notifier struct {
	f func(zk.Event)

	mu      sync.Mutex
	waiting []zk.Event // the first is the one that f is called with
	stopped bool
}

func (t *notifier) notify(e zk.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waiting = append(t.waiting, e)
	if len(t.waiting) == 1 {
		t.begin()
	}
}

// begin begins to call f with the first event; caller holds mu.
func (t *notifier) begin() {
	if len(t.waiting) > 0 && !t.stopped {
		go t.call(t.waiting[0])
	}
}

// stop drops the events that f was not called with yet; a call in progress ends by itself.
func (t *notifier) stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stopped = true
}

// call calls f with an event, and begins the next call also where f ends the goroutine.
func (t *notifier) call(e zk.Event) {
	defer func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.waiting = t.waiting[1:]
		t.begin()
	}()
	t.f(e)
}
