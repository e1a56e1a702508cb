package wire

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"regexp"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
)

// An Option changes how Connect connects. Package zklocks documents the options.
type Option func(*settings)

type settings struct {
	invalid   error                       // what is wrong with an option; nil: nothing
	logger    zk.Logger                   // nil: none
	digests   [][]byte                    // the bodies of the requests for WithDigestAuth
	tls       func() (*tls.Config, error) // nil: no TLS
	sasl      SASLMechanism               // nil: none
	dial      func(ctx context.Context, network, address string) (net.Conn, error)
	listeners []*listener
	follow    bool // see WithServersFromEnsemble

	sessionFile *string  // path; nil: none
	resume      *Session // resumed instead of a new session, see End; nil: none
}

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
	return func(s *settings) {
		if user == "" || strings.Contains(user, ":") { // the error does not quote what may be "user:password"
			s.invalid = errors.New("zklocks: WithDigestAuth: the user name must be neither empty nor contain a colon")
		}
		s.digests = append(s.digests, encode(nil, int32(0), "digest", user+":"+password))
	}
}

// WithSASL is zklocks.WithSASL.
func WithSASL(m SASLMechanism) Option {
	return func(s *settings) {
		if s.sasl = m; m == nil {
			s.invalid = errors.New("zklocks: WithSASL: the mechanism is nil")
		}
	}
}

// WithTLS is zklocks.WithTLS.
func WithTLS(config *tls.Config) Option {
	if config == nil {
		config = &tls.Config{}
	}
	config = config.Clone()
	return WithTLSFrom(func() (*tls.Config, error) { return config, nil })
}

// WithTLSFrom is WithTLS with a function that returns the configuration for each network
// connection. If it fails, the attempt to connect fails.
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
			s.listeners = append(s.listeners, &listener{f: f})
		}
	}
}

// WithSessionFile is zklocks.WithSessionFile.
func WithSessionFile(path string) Option { return func(s *settings) { s.sessionFile = &path } }

// A listener is a function that is called with session events.
type listener struct {
	f    func(zk.Event)
	last chan struct{} // closed when f has returned for the last event; nil: there was none
}

// notify calls f on a new goroutine, after f has returned for the previous event, unless ctx is
// canceled first. Only Conn.run calls notify.
func (l *listener) notify(ctx context.Context, e zk.Event) {
	before, ended := l.last, make(chan struct{})
	l.last = ended
	go func() {
		defer close(ended) // also if f ends the goroutine
		if before != nil {
			select {
			case <-before:
			case <-ctx.Done():
			}
		}
		if ctx.Err() == nil {
			l.f(e)
		}
	}()
}

// quietFor is how long a message is not logged again. While no server can be reached, run repeats a
// few messages several times a second.
const quietFor = 5 * time.Second

// Logs reports whether anyone reads what Printf logs.
func (c *Conn) Logs() bool { return c.logger != nil }

// varies matches what differs when a message repeats: the local port of a connection, a duration.
var varies = regexp.MustCompile(`:\d+->|\b([\d.]+(h|m|s|ms|µs|ns))+\b`)

// Printf logs a message, unless it was logged within quietFor, perhaps with another duration.
// Nothing is logged behind Close.
func (c *Conn) Printf(format string, args ...any) {
	if c.logger == nil || c.IsClosed() {
		return
	}
	text := fmt.Sprintf(format, args...)
	same := varies.ReplaceAllString(text, "")
	if _, repeated := c.logged.LoadOrStore(same, true); repeated {
		return
	}
	time.AfterFunc(quietFor, func() { c.logged.Delete(same) })
	c.logger.Printf("%s", text)
}
