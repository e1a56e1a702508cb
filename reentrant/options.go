package reentrant

import (
	"bytes"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/queue"
	"github.com/zklocks/zklocks/internal/znode"
	"github.com/zklocks/zklocks/observe"
)

// Option changes a default of [New].
type Option interface{ apply(*config) }

type option func(*config)

func (o option) apply(cfg *config) { o(cfg) }

type config struct {
	queue.Config
	kind znode.Kind
}

// WithACL sets the access control list of every node that the lock makes, its
// directory and that directory's parents included. The default is
// zk.WorldACL(zk.PermAll): anybody may delete your lock node.
//
// Deleting is a right on the parent: what protects the lock nodes is the list of
// the directory.
func WithACL(acl []zk.ACL) Option {
	acl = slices.Clone(acl)
	return option(func(cfg *config) { cfg.ACL = acl })
}

// WithData sets what the lock nodes contain, for whoever looks at the queue; at
// most 512 KiB. The default is a small JSON object with the host name and the
// number of the process, {"host":"db7","pid":4711}, which [Member] shows as Host
// and Pid; WithData(nil) has them contain nothing. Everybody who may read the
// node sees it.
func WithData(data []byte) Option {
	data = bytes.Clone(data)
	return option(func(cfg *config) { cfg.Data = data })
}

// WithGrace sets how long a connection that was not made by zkconn may be down
// before its holds are taken for lost. The default is 0: at once. It should not
// be more than a third of the session timeout, for the client needs up to two
// thirds to notice that a server has fallen silent. A connection made by zkconn
// knows its deadline and does not need it.
func WithGrace(grace time.Duration) Option {
	return option(func(cfg *config) { cfg.Grace = grace })
}

// WithKazooNames names the nodes as kazoo's Lock does, so that Go and Python
// processes share one lock; all who use the path must do so by these names. The
// default are those of Curator's InterProcessMutex and of zk.Lock.
//
// The directory stays when it is empty, as kazoo's do: a kazoo lock makes it once
// and fails for ever when it has gone.
func WithKazooNames() Option {
	return option(func(cfg *config) { cfg.kind = znode.KazooLock })
}

// WithObserver has o told of what happens to the lock, see package observe. Given
// several times, all of them are. The default is none.
func WithObserver(o observe.Observer) Option {
	return option(func(cfg *config) { cfg.Observers = append(cfg.Observers, o) })
}
