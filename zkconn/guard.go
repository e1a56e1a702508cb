package zkconn

import (
	"errors"
	"time"

	"github.com/go-zookeeper/zk"
)

// guard runs while there is no connection, and notices when the user closes the client.
//
// The client tells nobody. Unless it is connected, it does not even look itself before it has tried all servers, and then
// only when the HostProvider makes it sleep, which ours never does. But a request that waits in its queue fails at once
// when the client is closed, and while nothing is sent it cannot fail for another reason. So guard leaves a request
// there: a read that any server answers from memory, once per outage.
func (c *client) guard(conn *zk.Conn) {
	suspicions := 0
	for {
		c.mu.Lock()
		turns, up := c.turns, c.up
		c.mu.Unlock()

		_, _, err := conn.Exists("/")
		failed := errors.Is(err, zk.ErrConnectionClosed) || errors.Is(err, zk.ErrClosing) || errors.Is(err, zk.ErrNoServer)

		c.mu.Lock()
		same := turns == c.turns
		if !failed && c.up || c.quit.Err() != nil {
			c.guarded = false
			c.mu.Unlock()
			return
		}
		c.mu.Unlock()

		switch {
		case !failed || !same:
			suspicions = 0
			continue // connected and lost again meanwhile
		case up:
			// It was sent, so a lost connection may be the reason, if the client knows of it before the wire does. That
			// would be known in a moment. If not, the client was closed, and failed to tell the server.
			if suspicions++; suspicions < 10 {
				if sleep(c.quit, 5*time.Millisecond) == nil {
					continue
				}
			}
		}
		c.closed()
	}
}
