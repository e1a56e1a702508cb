package queue

import (
	"context"

	"github.com/go-zookeeper/zk"
)

// Stay has the directory made as a plain node, not as a container that goes when
// it is empty: for other clients in the line that make it once and never again.
func (l *Line) Stay() {
	l.make = func(ctx context.Context) error {
		err := l.client.MakeNode(ctx, l.dir, nil, l.cfg.ACL)
		if err == zk.ErrNodeExists {
			return nil // somebody else was first
		}
		return explain(err, "CREATE on the parents of "+l.dir)
	}
}
