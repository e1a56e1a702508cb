package zklocks

import (
	"log/slog"
	"time"

	"github.com/zklocks/zklocks/observe"
)

// Member is a holder or a waiter in the queue of a lock, as a Queue method lists it. The nodes of
// holders and waiters look alike: Holding is computed from the order of the nodes that the server
// returned, so a member may be Holding before its process knows.
type Member struct {
	Path             string       // of its first node, on the server: WithChroot's path included
	Kind             observe.Kind // what it holds or waits for
	Permits          int          // of a semaphore: how many it asked for; else 1
	Holding          bool         // and not waiting
	ReleaseRequested bool         // see [Conn.RequestRelease]
	Since            time.Time    // when it queued, by the server's clock
	Session          int64        // that the nodes belong to
	Token            int64        // the czxid of its first node: the fencing token, unless a downgrade has replaced the node
	Data             []byte       // see WithData; empty if the request to release has replaced it
	Host             string       // of the process that created the node, if the data has it; else empty
	Pid              int          // and its number; else 0
}

// LogValue has package log/slog log the member as a group, without its data.
func (m Member) LogValue() slog.Value {
	return slog.GroupValue(slog.String("path", m.Path), slog.String("kind", string(m.Kind)), slog.Int("permits", m.Permits),
		slog.Bool("holding", m.Holding), slog.Time("since", m.Since), slog.Int64("token", m.Token),
		slog.String("host", m.Host), slog.Int("pid", m.Pid))
}

// String has what LogValue has, for people.
func (m Member) String() string { return m.LogValue().String() }
