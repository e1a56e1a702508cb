// Package loopback serves an in-memory ZooKeeper on a port of the loopback interface, for tests
// whose clients are other processes or dial themselves. A test whose clients accept a dialer uses
// an in-memory network instead, and virtual time.
package loopback

import (
	"crypto/tls"
	"net"
	"testing"
	"time"

	"github.com/zklocks/zklocks/internal/memzk"
)

// Server is a standalone in-memory server.
type Server struct {
	ensemble *memzk.Ensemble
	addr     string
	served   chan error
}

// Start starts a server on a free port, with the same ticks and session timeouts as the real
// servers of package realzk.
func Start() (*Server, error) { return start(nil) }

// start starts a server, with TLS if config is not nil.
func start(config *tls.Config) (*Server, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	addr := l.Addr().String()
	if config != nil {
		l = tls.NewListener(l, config)
	}
	s := &Server{
		ensemble: memzk.Start(memzk.Config{
			Tick: 100 * time.Millisecond, MaxSession: time.Minute, ContainerCheck: 500 * time.Millisecond,
		}),
		addr:   addr,
		served: make(chan error, 1),
	}
	go func() { s.served <- s.ensemble.Members()[0].Serve(l) }()
	return s, nil
}

// Addr returns the host:port to which clients connect.
func (s *Server) Addr() string { return s.addr }

// Stop ends the server and all connections, and waits for its goroutines.
func (s *Server) Stop() error {
	s.ensemble.Stop()
	return <-s.served // nil, if it has accepted until its end
}

// For returns a server for this test alone.
func For(tb testing.TB) *Server { tb.Helper(); return ForTLS(tb, nil) }

// ForTLS returns a server for this test alone that accepts only TLS.
func ForTLS(tb testing.TB, config *tls.Config) *Server {
	tb.Helper()
	s, err := start(config)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Stop(); err != nil {
			tb.Error(err)
		}
	})
	return s
}
