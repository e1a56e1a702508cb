package realzk

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/wire"
)

// connectTimeout is how long connecting and closing may take; no test measures that. An attempt to
// connect has two thirds of the session timeout. With an attempt of one second, all attempts within
// 15 seconds have failed on a machine with 25 busy processes.
const connectTimeout = time.Minute

// Connect returns a connection made by wire.Connect, as zklocks does; without servers, to the
// shared server. It is closed at cleanup.
func Connect(tb testing.TB, timeout time.Duration, servers ...string) *wire.Conn {
	tb.Helper()
	if len(servers) == 0 {
		servers = Servers(tb)
	}
	ctx, cancel := context.WithTimeout(context.Background(), connectTimeout)
	defer cancel()
	conn, err := wire.Connect(ctx, servers, timeout)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		_ = conn.Close()
		if !test.Poll(connectTimeout, func() bool { return conn.State() == zk.StateDisconnected }) {
			tb.Errorf("connection to %v is %v after Close", servers, conn.State())
		}
	})
	return conn
}

// ConnectForeign returns a connection made by zk.Connect; without servers, to the shared server. It
// is closed at cleanup, which waits until its goroutines have ended.
func ConnectForeign(tb testing.TB, timeout time.Duration, servers ...string) *zk.Conn {
	tb.Helper()
	if len(servers) == 0 {
		servers = Servers(tb)
	}
	conn, events, err := zk.Connect(servers, timeout,
		zk.WithDialer(test.Ordered(net.DialTimeout)), zk.WithLogger(quiet{}), zk.WithLogInfo(false))
	if err != nil {
		tb.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for range events { // closed when the client's loop ends
		}
	}()
	tb.Cleanup(func() {
		conn.Close()
		select {
		case <-ended:
		case <-time.After(connectTimeout):
			tb.Errorf("connection to %v does not end after Close", servers)
		}
	})
	if !test.Poll(connectTimeout, func() bool { return conn.State() == zk.StateHasSession }) {
		tb.Fatalf("no session with %v after %v: %v", servers, connectTimeout, conn.State())
	}
	return conn
}

type quiet struct{}

func (quiet) Printf(string, ...any) {}
