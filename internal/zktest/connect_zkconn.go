package zktest

import (
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
)

// Connect is a connection as zklocks makes it; no servers: the shared one. It
// is closed at cleanup.
func Connect(tb testing.TB, timeout time.Duration, servers ...string) *zk.Conn {
	tb.Helper()
	return ConnectForeign(tb, timeout, servers...) // until zkconn.Connect exists
}
