package wire

import (
	"errors"
	"time"

	"github.com/go-zookeeper/zk"
)

// detectClose runs while there is no connection, and notices when the user closes the client.
//
// The client has no signal for that. Unless it is connected it does not even look itself before it
// has tried all servers, and then only when the HostProvider makes it sleep, which hosts never
// does. But a request that waits in the client's queue fails at once when the client is closed, and
// while no send loop takes requests from the queue it cannot fail for another reason. So
// detectClose keeps a request there: a read that any server answers from memory, once per outage.
//
// The queue is unread from the client's own event that it is disconnected, not from the error that
// the packetConn sees: in between the old send loop may take the request, and fail it.
func (c *client) detectClose(conn *zk.Conn) {
	for suspected := 0; ; {
		c.mu.Lock()
		epoch, idle := c.link.Epoch(), c.idle
		c.mu.Unlock()

		_, _, err := conn.Exists("/")
		failed := errors.Is(err, zk.ErrConnectionClosed) || errors.Is(err, zk.ErrClosing) || errors.Is(err, zk.ErrNoServer)

		c.mu.Lock()
		same, up := epoch == c.link.Epoch() && idle == c.idle, c.link.Down().IsZero()
		if c.quit.Err() != nil || !failed && up {
			c.detecting = false
			c.mu.Unlock()
			return
		}
		c.mu.Unlock()

		switch {
		case failed && same && idle:
			c.closed()
		case failed && same && up:
			// A request failed although the packetConn works. Either the client is about to drop
			// the connection, or it was closed in the moment of a reconnect and its request to end
			// the session was lost: then it would go on forever.
			if suspected++; suspected > closeSuspected {
				c.closed()
			}
			sleep(c.quit, probeInterval)
		case failed:
			suspected = 0
			sleep(c.quit, time.Millisecond) // the client is about to notice, too
		}
	}
}

const (
	probeInterval  = 10 * time.Millisecond
	closeSuspected = 100
)
