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
	for again := true; again; {
		children, _, err := c.client.Children(ctx, zkclient.AnySession, c.path)
		if err == zk.ErrNoNode {
			return nil
		}
		if err != nil {
			return queue.Explain(err, "READ on "+c.path)
		}
		leases := slices.Contains(children, "leases")
		if leases && slices.Contains(children, "locks") {
			return c.inUseBy("a semaphore of Curator's")
		}
		if again, err = c.refuseMembers(ctx, c.path, children, owner); err != nil {
			return err
		}
		if !leases {
			continue
		}
		// The directory of Curator's locks is a container, which the server deletes when no client
		// waits.
		switch children, _, err := c.client.Children(ctx, zkclient.AnySession, c.path+"/leases"); err {
		case nil:
			gone, err := c.refuseMembers(ctx, c.path+"/leases", children, curators)
			if err != nil {
				return err
			}
			again = again || gone
		case zk.ErrNoNode, zk.ErrNoAuth: // no client holds a lease, or this client may not read
		default:
			return err
		}
	}
	return nil
}

// refuseMembers returns an error if one of the children is a holder or a waiter of another
// library's semaphore. gone is whether one that may have been has gone: others may have come.
func (c *permitCount) refuseMembers(ctx context.Context, dir string, children []string, owner func(name string) string) (gone bool, err error) {
	for _, name := range children {
		whose := owner(name)
		if whose == "" {
			continue
		}
		// Only ephemeral nodes, of holders and waiters, count; a directory of that name does not.
		switch _, stat, err := c.client.Get(ctx, dir+"/"+name); {
		case err == zk.ErrNoNode:
			gone = true
		case err != nil:
			return false, queue.Explain(err, "READ on "+dir+"/"+name)
		case stat.EphemeralOwner != 0:
			return false, c.inUseBy(whose)
		}
	}
	return gone, nil
}

func (c *permitCount) inUseBy(whose string) error {
	return fmt.Errorf("%w: %s is in use by %s", ErrMismatch, c.path, whose)
}

// owner returns what has nodes of that name in its directory, "" if it is no semaphore.
func owner(name string) string {
	if curators(name) != "" {
		return "a semaphore of Curator's, for its leases"
	}
	if _, err := hex.DecodeString(name); err == nil && len(name) == 32 {
		return "a semaphore of kazoo's"
	}
	return ""
}

// curators returns what has nodes of that name in its directory of leases.
func curators(name string) string {
	if strings.HasPrefix(name, "_c_") && strings.Contains(name, "-lease-") {
		return "a semaphore of Curator's"
	}
	return ""
}
