package zklocks

import (
	"bytes"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/queue"
	"github.com/zklocks/zklocks/internal/slot"
	"github.com/zklocks/zklocks/observe"
)

// An Option changes a default of locks. Given to New of a package, it applies to that lock. Given
// to [Connect], it applies to all locks on the connection.
type Option interface{ lockOption }

type lockOption = slot.LockOption

// WithACL sets the access control list of every node that a lock creates: its nodes, its directory
// and the directory's parents. The default is zk.WorldACL(zk.PermAll): every client may delete the
// lock's nodes. zk.AuthACL(zk.PermAll) opens them to the identities of the connection alone, see
// [WithDigestAuth] and [WithSASL].
//
// In ZooKeeper the right to delete a node belongs to its parent: the list of the directory protects
// the nodes of a lock.
func WithACL(acl []zk.ACL) Option {
	acl = slices.Clone(acl)
	return slot.Common(func(cfg *queue.Config) { cfg.ACL = acl })
}

// WithData sets the data of a lock's nodes, for programs that read its queue; at most 512 KiB. The
// default is a small JSON object with the host name and the process number,
// {"host":"db7","pid":4711}, which [Member] shows as Host and Pid. With WithData(nil) the nodes are
// empty. Every client that may read a node can read its data. A request to release may replace the
// data, see [Conn.RequestRelease]. Data that mean such a request (__REVOKE__, alone or as the first
// line) are an error.
func WithData(data []byte) Option {
	data = bytes.Clone(data)
	return slot.Common(func(cfg *queue.Config) { cfg.Data = data })
}

// WithObserver reports the events of a lock to o, see package observe. If it is given several
// times, each observer receives all events. The default is none.
func WithObserver(o observe.Observer) Option { return observed(o) }

func observed(o observe.Observer) slot.Common {
	return func(cfg *queue.Config) { cfg.Observers = append(slices.Clip(cfg.Observers), o) }
}
