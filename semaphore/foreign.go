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
		if slices.Contains(children, "leases") && slices.Contains(children, "locks") {
			return c.inUseBy("a semaphore of Curator's")
		}
		if again, err = c.refuseUsed(ctx, children, owner); err != nil {
			return err
		}
	}
	return nil
}

// refuseUsed returns an error if another library's semaphore has a holder or a waiter among the
// children of the path, or among the leases below one of them.
func (c *permitCount) refuseUsed(ctx context.Context, children []string, owner func(name string) string) (gone bool, err error) {
	gone, err = c.refuseMembers(ctx, c.path, children, owner)
	if err != nil || !slices.Contains(children, "leases") {
		return gone, err
	}
	// The directory of Curator's locks is a container, which the server deletes when no client
	// waits.
	switch children, _, err := c.client.Children(ctx, zkclient.AnySession, c.path+"/leases"); err {
	case nil:
		more, err := c.refuseMembers(ctx, c.path+"/leases", children, curators)
		return gone || more, err
	case zk.ErrNoNode, zk.ErrNoAuth: // no client holds a lease, or this client may not read
		return gone, nil
	default:
		return gone, err
	}
}

// refuseUnlisted is for Queue: it returns an error if another library's semaphore has a holder or a
// waiter. What only looks like one does not count: directories that no client uses, and names like
// kazoo's where no number is stored, which kazoo does.
func (c *permitCount) refuseUnlisted(ctx context.Context) error {
	data, _, err := c.client.Get(ctx, c.path)
	var children []string
	if err == nil {
		children, _, err = c.client.Children(ctx, zkclient.AnySession, c.path)
	}
	switch {
	case err == zk.ErrNoNode:
		return nil
	case err != nil:
		return queue.Explain(err, "READ on "+c.path)
	}
	whose := owner
	if len(data) == 0 {
		whose = curators
	}
	_, err = c.refuseUsed(ctx, children, whose)
	return err
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
