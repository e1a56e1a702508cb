package semaphore

import (
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/zkclient"
)

// refuseForeign looks, before anything is made at the path, whether it is that of
// a semaphore of another library. Such a one and ours would each give all permits
// away, and kazoo would take our line for a holder.
func (c *permitCount) refuseForeign(ctx context.Context) error {
	children, _, err := c.client.Children(ctx, zkclient.AnySession, c.path)
	if err == zk.ErrNoNode {
		return nil
	}
	if err != nil {
		return needs(err, "READ on "+c.path)
	}
	name, whose := foreignSemaphore(children)
	if whose == "" && slices.Contains(children, "leases") {
		// The directory of Curator's locks is a container, and goes while nobody waits.
		switch leases, _, err := c.client.Children(ctx, zkclient.AnySession, c.path+"/leases"); err {
		case nil:
			if member, _ := foreignSemaphore(leases); strings.Contains(member, "-lease-") {
				name, whose = "leases/"+member, "a semaphore of Curator's"
			}
		case zk.ErrNoNode, zk.ErrNoAuth: // nobody holds, or nobody may know
		default:
			return err
		}
	}
	if whose == "" {
		return nil
	}
	if name != "" {
		// Only who holds or waits counts, and not a directory of that name.
		switch _, stat, err := c.client.Get(ctx, c.path+"/"+name); {
		case err == zk.ErrNoNode, err == nil && stat.EphemeralOwner == 0:
			return nil
		case err != nil:
			return needs(err, "READ on "+c.path+"/"+name)
		}
	}
	return fmt.Errorf("%w: %s is in use by %s", ErrMismatch, c.path, whose)
}

// foreignSemaphore says whose semaphore it is that has such nodes at its path, and by which
// of its members it is known, if by one.
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
