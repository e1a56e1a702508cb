package zkclient

import (
	"context"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/wire"
	"github.com/zklocks/zklocks/internal/znode"
)

// MakeDir creates a directory and its missing parents. They are containers, which the server
// deletes after they have been empty for a while. If the directory exists, MakeDir returns nil.
func (c *Client) MakeDir(ctx context.Context, dir string, acl []zk.ACL) error {
	err := c.MakeContainer(ctx, dir, nil, acl)
	if err == zk.ErrNodeExists {
		return nil
	}
	return err
}

// MakeContainer is MakeDir with data. If the directory exists, it returns zk.ErrNodeExists.
func (c *Client) MakeContainer(ctx context.Context, dir string, data []byte, acl []zk.ACL) error {
	create := wire.Multi(&zk.CreateRequest{Path: dir, Data: data, Acl: acl, Flags: zk.FlagContainer})
	return asContainer(c.make(ctx, dir, acl, create))
}

// SetWith writes a node's data and creates a plain directory below the node, in one transaction. If
// the server refuses the directory, because it exists or this client may not create it, SetWith
// calls Set.
func (c *Client) SetWith(ctx context.Context, path string, data []byte, version int32, dir string, acl []zk.ACL) error {
	r, err := c.ask(ctx, AnySession, "write", wire.Multi(
		&zk.SetDataRequest{Path: path, Data: data, Version: version}, &zk.CreateRequest{Path: dir, Acl: acl}))
	if err != nil && r.Failed == 1 {
		return c.Set(ctx, path, data, version)
	}
	return err
}

// MakeNode creates a persistent node with data, and its missing parents. It returns
// zk.ErrNodeExists if the node exists.
func (c *Client) MakeNode(ctx context.Context, path string, data []byte, acl []zk.ACL) error {
	return c.make(ctx, path, acl, wire.Create(path, data, zk.FlagPersistent, acl))
}

// make creates the node first, and its parents if that fails: so it needs no rights on parents that
// exist. It retries, because the server may delete a parent between the two creates.
func (c *Client) make(ctx context.Context, path string, acl []zk.ACL, create wire.Request) error {
	for {
		_, err := c.ask(ctx, AnySession, "create", create)
		if err != zk.ErrNoNode {
			return err
		}
		if err := c.MakeDir(ctx, znode.Parent(path), acl); err != nil {
			return err
		}
	}
}

// asContainer explains the refusal of a request to create a container.
func asContainer(err error) error {
	if err == zk.ErrBadArguments {
		return fmt.Errorf("the server refuses to create a container, as before ZooKeeper 3.5.1: %w", err)
	}
	return err
}
