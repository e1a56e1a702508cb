package zklocks

import (
	"log/slog"
	"time"

	"github.com/zklocks/zklocks/observe"
)

// Member is a holder or a waiter in the queue of a lock, as a Queue method lists it. The nodes of
// holders and waiters look alike: Holding is computed from the order of the nodes that the server
// returned, so a member may be Holding before its process has received the grant.
type Member struct {
	Path             string       // path of its first node on the server, chroot included
	Kind             observe.Kind // what it holds or waits for
	Permits          int          // how many permits of a semaphore it asked for; otherwise 1
	Holding          bool         // whether it is a holder; otherwise it waits
	ReleaseRequested bool         // see [Conn.RequestRelease]
	Since            time.Time    // when it queued, by the server's clock
	Session          int64        // the session that the nodes belong to
	Token            int64        // the czxid of its first node; the fencing token, unless a downgrade has replaced the node
	Data             []byte       // see WithData; empty if the request to release has replaced it
	Host             string       // the host of the process that created the node; empty if the data does not have it
	Pid              int          // the number of that process; 0 if the data does not have it
}

// LogValue returns a group for package log/slog, without the data.
func (m Member) LogValue() slog.Value {
	return slog.GroupValue(slog.String("path", m.Path), slog.String("kind", string(m.Kind)), slog.Int("permits", m.Permits),
		slog.Bool("holding", m.Holding), slog.Time("since", m.Since), slog.Int64("token", m.Token),
		slog.String("host", m.Host), slog.Int("pid", m.Pid))
}

// String returns the group of LogValue as text.
func (m Member) String() string { return m.LogValue().String() }
