package wire

import (
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/liveness"
)

// SessionTimeout returns the session timeout that the server granted, the shortest if it was
// granted several times in the session, which need not be the one asked for. It is 0 for a
// connection that Connect did not make.
func SessionTimeout(conn *zk.Conn) time.Duration {
	if l := liveness.Of(conn); l != nil {
		return l.Timeout()
	}
	return 0
}
