package wire

import (
	"errors"
	"time"

	"github.com/go-zookeeper/zk"
)

// guard runs while there is no connection, and notices when the user closes the client.
//
// The client tells nobody. Unless it is connected, it does not even look itself before it has tried
// all servers, and then only when the HostProvider makes it sleep, which ours never does. But a
// request that waits in its queue fails at once when the client is closed, and while nothing takes
// it from there it cannot fail for another reason. So guard leaves a request there: a read that any
// server answers from memory, once per outage.
//
// "While nothing takes it" begins with the client's own word that it is disconnected, not when the
// wire sees an error: in between the old send loop may take the request, and fail it.
func (c *client) guard(conn *zk.Conn) {
	for suspicions := 0; ; {
		c.mu.Lock()
		turns, idle := c.turns, c.idle
		c.mu.Unlock()

		_, _, err := conn.Exists("/")
		failed := errors.Is(err, zk.ErrConnectionClosed) || errors.Is(err, zk.ErrClosing) || errors.Is(err, zk.ErrNoServer)

		c.mu.Lock()
		same, up := turns == c.turns, c.up
		if c.quit.Err() != nil || !failed && up {
			c.guarded = false
			c.mu.Unlock()
			return
		}
		c.mu.Unlock()

		switch {
		case failed && same && idle:
			c.closed()
		case failed && same && up:
			// A request failed, and still the wire is sound. Either the client is just dropping it,
			// or it was closed in the moment of a reconnect and its goodbye got lost: then it would
			// go on for ever.
			if suspicions++; suspicions > suspicious {
				c.closed()
			}
			sleep(c.quit, breath)
		case failed:
			suspicions = 0
			sleep(c.quit, time.Millisecond) // the client is about to notice, too
		}
	}
}

const (
	breath     = 10 * time.Millisecond
	suspicious = 100
)
