package realzk

import (
	"context"
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
