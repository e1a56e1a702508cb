package zklocks

import (
	"bytes"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/queue"
	"github.com/zklocks/zklocks/internal/slot"
	"github.com/zklocks/zklocks/observe"
)

// An Option changes a default of every lock: given to the New of a recipe, of that lock; given to
// [Connect], of all locks on the connection.
type Option interface{ lockOption }

type lockOption = slot.LockOption

// WithACL sets the access control list of every node that a lock makes, its directory and that
// directory's parents included. The default is zk.WorldACL(zk.PermAll): every client may delete the
// lock's nodes.
//
// Deleting is a right on the parent: what protects the nodes of a lock is the list of the directory
// that they are in.
func WithACL(acl []zk.ACL) Option {
	acl = slices.Clone(acl)
	return slot.Common(func(cfg *queue.Config) { cfg.ACL = acl })
}

// WithData sets what the nodes of a lock contain, for programs that look at its queue; at most 512
// KiB. The default is a small JSON object with the host name and the number of the process,
// {"host":"db7","pid":4711}, which [Member] shows as Host and Pid; WithData(nil) has them contain
// nothing. Every client that may read the node sees it. A request to release may replace it, see
// [Conn.RequestRelease]. Data that are such a request (__REVOKE__, alone or as the first line) are
// refused here.
func WithData(data []byte) Option {
	data = bytes.Clone(data)
	return slot.Common(func(cfg *queue.Config) { cfg.Data = data })
}

// WithObserver reports the events of a lock to o, see package observe. Given several times, each
// observer gets all events. The default is none.
func WithObserver(o observe.Observer) Option {
	return slot.Common(func(cfg *queue.Config) { cfg.Observers = append(slices.Clip(cfg.Observers), o) })
}
