package contract

import (
	"encoding/binary"
	"net"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/zktest"
)

// foreign connects with zk.Connect, as a program that does not know zkconn.
func (s *scene) foreign() *client {
	s.Helper()
	return s.with(zktest.ConnectForeign(s, session, s.Server), nil, Settings{})
}

// foreignBehind does it through a proxy, to be cut off.
func (s *scene) foreignBehind(timeout, grace time.Duration) *client {
	s.Helper()
	p := zktest.ProxyFor(s, s.Server)
	conn, events, err := zk.Connect([]string{p.Addr()}, timeout,
		zk.WithDialer(dialOrdered), zk.WithLogger(quiet{}), zk.WithLogInfo(false))
	s.Must(err)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for range events {
		}
	}()
	s.Cleanup(func() {
		conn.Close()
		zktest.Within(s, soon, "the connection ends", func() { <-ended })
	})
	zktest.Eventually(s, soon, "a session", func() bool { return conn.State() == zk.StateHasSession })
	return s.with(conn, p, Settings{Grace: grace})
}

type quiet struct{}

func (quiet) Printf(string, ...any) {}

// dialOrdered is the client's own dialer, but for a data race inside the client
// that the race detector would find whenever it connects again: lastZxid, read
// when it sends its watches again, written when the first reply comes. Here the
// first reply waits for the watches, for a while.
func dialOrdered(network, address string, timeout time.Duration) (net.Conn, error) {
	conn, err := net.DialTimeout(network, address, timeout)
	if err != nil {
		return nil, err
	}
	return &ordered{Conn: conn, watches: make(chan struct{})}, nil
}

type ordered struct {
	net.Conn
	reads   int
	once    sync.Once
	watches chan struct{} // closed when they have been sent
}

func (c *ordered) Write(p []byte) (int, error) {
	const setWatches = 101
	if len(p) >= 12 && binary.BigEndian.Uint32(p[8:]) == setWatches {
		defer c.once.Do(func() { close(c.watches) })
	}
	return c.Conn.Write(p)
}

func (c *ordered) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.reads++; c.reads == 3 { // the handshake's length, the handshake, the first reply
		late := time.NewTimer(20 * time.Millisecond)
		defer late.Stop()
		select {
		case <-c.watches:
		case <-late.C:
		}
	}
	return n, err
}
