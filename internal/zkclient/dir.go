package zkclient

import (
	"context"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/znode"
)

// MakeDir makes a directory and the parents it lacks. They are containers where
// the server knows them (3.5.1 and newer), so that they go when they are empty
// and nobody has used them for a while. A directory that exists is no error.
func (c *Client) MakeDir(ctx context.Context, dir string, acl []zk.ACL) error {
	return c.make(ctx, dir, acl, c.createContainer)
}

// MakeLeaf makes a directory whose parent must exist: it returns zk.ErrNoNode if
// that does not.
func (c *Client) MakeLeaf(ctx context.Context, dir string, acl []zk.ACL) error {
	_, err := await(ctx, c, "create", func() (string, error) { return c.createContainer(dir, acl) })
	return err
}

// MakeNode makes a persistent node with data, and the parents it lacks. It
// returns zk.ErrNodeExists if there is one.
func (c *Client) MakeNode(ctx context.Context, path string, data []byte, acl []zk.ACL) error {
	return c.make(ctx, path, acl, func(path string, acl []zk.ACL) (string, error) {
		return c.conn.Create(path, data, zk.FlagPersistent, acl)
	})
}

// make starts at the bottom: it needs no rights on parents that exist. A parent
// may be reaped between the two creates, so it asks again.
func (c *Client) make(ctx context.Context, path string, acl []zk.ACL, create func(string, []zk.ACL) (string, error)) error {
	for {
		_, err := await(ctx, c, "create", func() (string, error) { return create(path, acl) })
		if err != zk.ErrNoNode {
			return err
		}
		if err := c.MakeDir(ctx, znode.Parent(path), acl); err != nil {
			return err
		}
	}
}

// createContainer makes a container by a Multi. The client's CreateContainer reads the path of the
// reply when the connection is closed meanwhile, and does not wait for the goroutine that decodes
// that reply: a data race, which fails the tests of programs that run under the race detector.
// (Create would make a plain node, which stays.)
func (c *Client) createContainer(dir string, acl []zk.ACL) (string, error) {
	if !c.plainOnly.Load() {
		_, err := c.multi(&zk.CreateRequest{Path: dir, Acl: acl, Flags: zk.FlagContainer})
		switch err {
		case zk.ErrAPIError:
			// The result of a container in a Multi has a type that the client does not know. It
			// says so by this error, which no server sends. A refusal has a type that it knows.
			return dir, nil
		case zk.ErrNodeExists:
			return dir, nil
		case zk.ErrBadArguments: // the server does not know containers, or does not like the path
		default:
			return dir, err
		}
	}
	_, err := c.conn.Create(dir, nil, zk.FlagPersistent, acl)
	if err == zk.ErrNodeExists {
		err = nil
	}
	if err == nil {
		c.plainOnly.Store(true)
	}
	return dir, err
}
