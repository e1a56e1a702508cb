package semaphore

import (
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/queue"
	"github.com/zklocks/zklocks/internal/zkclient"
)

// refuseForeign returns an error if the path belongs to a semaphore of another library. It is
// called before anything is created or stored at the path. The two semaphores would each grant all
// permits, and kazoo would take our queue directory for a holder, and our number for its own.
func (c *permitCount) refuseForeign(ctx context.Context) error {
	children, _, err := c.client.Children(ctx, zkclient.AnySession, c.path)
	if err == zk.ErrNoNode {
		return nil
	}
	if err != nil {
		return queue.Explain(err, "READ on "+c.path)
	}
	name, whose := foreignSemaphore(children)
	if whose == "" && slices.Contains(children, "leases") {
		// The directory of Curator's locks is a container, which the server deletes when no client
		// waits.
		switch leases, _, err := c.client.Children(ctx, zkclient.AnySession, c.path+"/leases"); err {
		case nil:
			if member, _ := foreignSemaphore(leases); strings.Contains(member, "-lease-") {
				name, whose = "leases/"+member, "a semaphore of Curator's"
			}
		case zk.ErrNoNode, zk.ErrNoAuth: // no client holds a lease, or this client may not read
		default:
			return err
		}
	}
	if whose == "" {
		return nil
	}
	if name != "" {
		// Only ephemeral nodes, of holders and waiters, count; a directory of that name does not.
		switch _, stat, err := c.client.Get(ctx, c.path+"/"+name); {
		case err == zk.ErrNoNode, err == nil && stat.EphemeralOwner == 0:
			return nil
		case err != nil:
			return queue.Explain(err, "READ on "+c.path+"/"+name)
		}
	}
	return fmt.Errorf("%w: %s is in use by %s", ErrMismatch, c.path, whose)
}

// foreignSemaphore returns the library whose semaphore has these nodes at its path, and the name of
// a node that shows it, if a single one does.
func foreignSemaphore(children []string) (member, whose string) {
	if slices.Contains(children, "leases") && slices.Contains(children, "locks") {
		return "", "a semaphore of Curator's"
	}
	for _, name := range children {
		if strings.HasPrefix(name, "_c_") && strings.Contains(name, "-lease-") {
			return name, "a semaphore of Curator's, for its leases"
		}
		if _, err := hex.DecodeString(name); err == nil && len(name) == 32 {
			return name, "a semaphore of kazoo's"
		}
	}
	return "", ""
}
