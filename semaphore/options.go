package semaphore

import (
	"bytes"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/queue"
	"github.com/zklocks/zklocks/observe"
)

// Option changes a default of [New].
type Option interface{ apply(*queue.Config) }

type option func(*queue.Config)

func (o option) apply(cfg *queue.Config) { o(cfg) }

// WithACL sets the access control list of every node that the semaphore makes:
// the permits, their queue, the node with the number of permits, and its parents.
// The default is zk.WorldACL(zk.PermAll): anybody may delete your permits.
//
// Deleting is a right on the parent: what protects the permits is the list of
// their queue.
func WithACL(acl []zk.ACL) Option {
	acl = slices.Clone(acl)
	return option(func(cfg *queue.Config) { cfg.ACL = acl })
}

// WithData sets what the nodes of the permits contain, for whoever looks at the queue; at
// most 512 KiB. The default is a small JSON object with the host name and the
// number of the process, {"host":"db7","pid":4711}, which [Member] shows as Host
// and Pid; WithData(nil) has them contain nothing. Everybody who may read the
// node sees it.
func WithData(data []byte) Option {
	data = bytes.Clone(data)
	return option(func(cfg *queue.Config) { cfg.Data = data })
}

// WithGrace sets how long a connection that was not made by zkconn may be down
// before its holds are taken for lost. The default is 0: at once. It should not
// be more than a third of the session timeout, for the client needs up to two
// thirds to notice that a server has fallen silent. A connection made by zkconn
// knows its deadline and does not need it.
func WithGrace(grace time.Duration) Option {
	return option(func(cfg *queue.Config) { cfg.Grace = grace })
}

// WithObserver has o told of what happens to the semaphore, see package observe. Given
// several times, all of them are. The default is none.
func WithObserver(o observe.Observer) Option {
	return option(func(cfg *queue.Config) { cfg.Observers = append(cfg.Observers, o) })
}
