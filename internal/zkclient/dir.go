package zkclient

import (
	"context"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/znode"
)

// MakeDir creates a directory and its missing parents. They are containers, which the server
// deletes after they have been empty for a while. If the directory exists, MakeDir returns nil.
func (c *Client) MakeDir(ctx context.Context, dir string, acl []zk.ACL) error {
	return exists(c.MakeContainer(ctx, dir, nil, acl))
}

// exists removes the error which says that a node exists.
func exists(err error) error {
	if err == zk.ErrNodeExists {
		return nil
	}
	return err
}

// MakeContainer is MakeDir with data. If the directory exists, it returns zk.ErrNodeExists.
func (c *Client) MakeContainer(ctx context.Context, dir string, data []byte, acl []zk.ACL) error {
	return c.make(ctx, dir, acl, func(dir string, acl []zk.ACL) (string, error) { return c.createContainer(dir, data, acl) })
}

// MakeLeaf creates a directory. If its parent does not exist, MakeLeaf returns zk.ErrNoNode.
func (c *Client) MakeLeaf(ctx context.Context, dir string, acl []zk.ACL) error {
	_, err := await(ctx, c, "create", func() (string, error) { return c.createContainer(dir, nil, acl) })
	return exists(err)
}

// SetWith writes a node's data and creates a plain directory below the node, in one transaction. If
// the server refuses the directory, because it exists or this client may not create it, SetWith
// calls Set.
func (c *Client) SetWith(ctx context.Context, path string, data []byte, version int32, dir string, acl []zk.ACL) error {
	r, err := await(ctx, c, "write", func() (results, error) {
		return c.multi(&zk.SetDataRequest{Path: path, Data: data, Version: version}, &zk.CreateRequest{Path: dir, Acl: acl})
	})
	if err != nil && r.failed == 1 {
		return c.Set(ctx, path, data, version)
	}
	return err
}

// MakeNode creates a persistent node with data, and its missing parents. It returns
// zk.ErrNodeExists if the node exists.
func (c *Client) MakeNode(ctx context.Context, path string, data []byte, acl []zk.ACL) error {
	return c.make(ctx, path, acl, func(path string, acl []zk.ACL) (string, error) {
		return c.conn.Create(path, data, zk.FlagPersistent, acl)
	})
}

// make creates the node first, and its parents if that fails: so it needs no rights on parents that
// exist. It retries, because the server may delete a parent between the two creates.
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

// createContainer creates a container with a Multi. The zk client's CreateContainer has a data
// race: if the connection is closed meanwhile, it reads the path of the reply without waiting for
// the goroutine that decodes the reply. Under the race detector, users' tests would fail. (Create
// would create a plain node, which the server does not delete.)
func (c *Client) createContainer(dir string, data []byte, acl []zk.ACL) (string, error) {
	_, err := c.multi(&zk.CreateRequest{Path: dir, Data: data, Acl: acl, Flags: zk.FlagContainer})
	switch err {
	case zk.ErrAPIError:
		// The zk client does not know the type of the result of a container in a Multi, and returns
		// ErrAPIError, which no server sends. It knows the type of a refusal.
		return dir, nil
	case zk.ErrBadArguments:
		err = fmt.Errorf("the server refuses to create a container, as before ZooKeeper 3.5.1: %w", err)
	}
	return dir, err
}
