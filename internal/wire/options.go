package wire

import (
	"context"
	"crypto/tls"
	"net"
	"sync"

	"github.com/go-zookeeper/zk"
)

// An Option changes how Connect connects. The options of package zklocks are these, and say there
// what they do.
type Option func(*settings)

type settings struct {
	logger zk.Logger // nil: none
	auth   []credentials
	tls    func() (*tls.Config, error) // nil: no TLS
	dial   func(ctx context.Context, network, address string) (net.Conn, error)
	events []*notifier // called with session events
}

type credentials struct{ user, password string }

// WithLogger is zklocks.WithLogger.
func WithLogger(l zk.Logger) Option {
	return func(s *settings) {
		if l != nil {
			s.logger = l
		}
	}
}

// WithDigestAuth is zklocks.WithDigestAuth.
func WithDigestAuth(user, password string) Option {
	return func(s *settings) { s.auth = append(s.auth, credentials{user, password}) }
}

// WithTLS is zklocks.WithTLS.
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

// WithDialer is zklocks.WithDialer.
func WithDialer(dial func(ctx context.Context, network, address string) (net.Conn, error)) Option {
	return func(s *settings) { s.dial = dial }
}

// WithSessionEvents is zklocks.WithSessionEvents.
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
