package zkclient

import (
	"context"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/wire"
)

// MaxRequest is below the server's limit of 1 MiB (jute.maxbuffer). On a larger request the server
// closes the connection, which the client cannot tell from a lost connection.
const MaxRequest = 1_000_000

// Transact returns these instead of the index of the operation that failed.
const (
	NotDone    = -1 // the transaction was not done
	Unanswered = -2 // it may have been done
)

// Transact runs the caller's transaction at most once. If the server has dropped it, Transact sends
// it again. If the server may have executed it, Transact does not. Right before it sends the
// transaction, Transact calls the function may. If that returns an error, Transact returns the
// error and sends nothing. failed is the index of the operation that the server refused, and then
// the server has executed none; or it is one of the constants above.
func (c *Client) Transact(ctx context.Context, may func() error, ops ...any) (replies []zk.MultiResponse, failed int, err error) {
	request := wire.Multi(ops...)
	for a := c.attempt(ctx, AnySession, "transaction"); ; {
		if err := a.next(); err != nil {
			return nil, NotDone, err
		}
		if err := may(); err != nil {
			return nil, NotDone, err
		}
		reply, err := c.conn.Ask(ctx, AnySession, request)
		switch a.outcome(err) {
		case done:
			if n := len(reply.Results); n != len(ops) {
				return nil, Unanswered, fmt.Errorf("%d replies to %d operations", n, len(ops))
			}
			return reply.Results, NotDone, nil
		case refused:
			return reply.Results, reply.Failed, err
		case unknown:
			if ended := Ended(ctx); ended != nil {
				err = a.explain(ended)
			}
			return nil, Unanswered, err
		}
	}
}

// barrier is the cheapest request that needs the quorum: the root always exists.
var barrier = &zk.CheckVersionRequest{Path: "/", Version: -1}

// opSize is at least the size of an operation in a transaction, without its path, data and ACL.
const opSize = 32

// Size returns the approximate number of bytes of a transaction.
func Size(ops []any) (size int) {
	for _, op := range ops {
		size += opSize
		switch op := op.(type) {
		case *zk.CreateRequest:
			size += len(op.Path) + len(op.Data) + aclSize(op.Acl)
		case *zk.SetDataRequest:
			size += len(op.Path) + len(op.Data)
		case *zk.DeleteRequest:
			size += len(op.Path)
		case *zk.CheckVersionRequest:
			size += len(op.Path)
		}
	}
	return size
}

func aclSize(acl []zk.ACL) (size int) {
	for _, a := range acl {
		size += len(a.Scheme) + len(a.ID) + 12
	}
	return size
}
