package queue

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/zkclient"
	"github.com/zklocks/zklocks/internal/znode"
)

// Guard returns checks that fail once one of the nodes is gone. After the end of the hold it checks
// all nodes that were granted: a hold on several locks may have released some of them.
func (h *Hold) Guard() []*zk.CheckVersionRequest {
	held := h.held.Load()
	if h.Err() != nil {
		held = &h.granted
	}
	return guards(h.nodes(held))
}

func guards(nodes []nodeRef) []*zk.CheckVersionRequest {
	checks := make([]*zk.CheckVersionRequest, len(nodes))
	for i, n := range nodes {
		checks[i] = &zk.CheckVersionRequest{Path: n.path(), Version: -1}
	}
	return checks
}

// fenced calls ask, which makes a request that checks the nodes of the hold first, and returns the
// index of the operation that the server has refused, see zkclient.Transact. If a node is missing,
// the grant is lost, unless a downgrade has replaced the node: then fenced asks again.
func (h *Hold) fenced(ctx context.Context, ask func(nodes []nodeRef) (at int, err error)) error {
	for {
		if err := h.Err(); err != nil {
			return err
		}
		held, err := h.holding(ctx)
		if err != nil {
			return h.endOr(err)
		}
		nodes := h.nodes(held)
		at, err := ask(nodes)
		if at < 0 || at >= len(nodes) || err == nil {
			return err
		}
		if err != zk.ErrNoNode {
			return h.endOr(Explain(err, "READ on "+nodes[at].path()))
		}
		if _, err := h.holding(ctx); err != nil {
			return h.endOr(err)
		}
		h.missed(nodes[at], err)
	}
}

// Verify asks the quorum whether the nodes exist.
func (h *Hold) Verify(ctx context.Context) error { return h.wrap("verify", h.verify(ctx)) }

func (h *Hold) verify(ctx context.Context) error {
	return h.fenced(ctx, func(nodes []nodeRef) (int, error) {
		at, err := h.client.Check(ctx, h.sess, guards(nodes)...)
		if errors.Is(err, zkclient.ErrOver) {
			h.Grant.state.Lose(err)
		}
		if at < 0 {
			err = h.endOr(err)
		}
		return at, err
	})
}

// Multi makes a transaction that takes place only while the hold lives and its nodes exist.
func (h *Hold) Multi(ctx context.Context, ops ...any) ([]zk.MultiResponse, error) {
	replies, err := h.multi(ctx, ops)
	return replies, h.wrap("multi", err)
}

func (h *Hold) multi(ctx context.Context, ops []any) (replies []zk.MultiResponse, err error) {
	if err := refuses(ops); err != nil {
		return nil, err
	}
	err = h.fenced(ctx, func(nodes []nodeRef) (at int, err error) {
		n := len(nodes)
		guarded := make([]any, 0, n+len(ops))
		for _, check := range guards(nodes) {
			guarded = append(guarded, check)
		}
		guarded = append(guarded, ops...)
		if size := zkclient.Size(guarded); size > zkclient.MaxRequest {
			return zkclient.NotDone, fmt.Errorf("%w: a transaction of %d bytes is larger than servers take, %d", zk.ErrShortBuffer, size, zkclient.MaxRequest)
		}
		replies, at, err = h.client.Transact(ctx, h.Err, guarded...)
		if err == nil || at >= n {
			replies = replies[n:]
		} else {
			replies = nil
		}
		switch end := h.Err(); {
		case err == nil:
		case at >= n:
			err = named(at-n, guarded[at], err)
		case at == zkclient.Unanswered:
			err = fmt.Errorf("the transaction may have taken place: %w", err)
			if end != nil { // as text: an error that matches it would say that nothing was done
				err = fmt.Errorf("%w; the hold has ended meanwhile: %v", err, end)
			}
		case at < 0:
			err = h.endOr(err)
		}
		return at, err
	})
	return replies, err
}

// named adds the operation to its error. refuses has found nothing wrong with op.
func named(i int, op any, err error) error {
	what, _ := strings.CutSuffix(strings.TrimPrefix(fmt.Sprintf("%T", op), "*zk."), "Request")
	path := reflect.ValueOf(op).Elem().FieldByName("Path").String()
	return fmt.Errorf("operation %d (%s %s): %w", i, strings.ToLower(what), znode.Shown(path), err)
}

// refuses returns what is wrong with the caller's operations: those that servers do not execute in a
// transaction, or that are none.
func refuses(ops []any) error {
	for i, op := range ops {
		if v := reflect.ValueOf(op); v.Kind() == reflect.Pointer && v.IsNil() {
			return fmt.Errorf("operation %d: a nil %T", i, op)
		}
		switch op := op.(type) {
		case *zk.CreateRequest:
			if op.Flags&^(zk.FlagEphemeral|zk.FlagSequence) != 0 {
				return fmt.Errorf("operation %d: flags %#x: containers and nodes with a time to live are made without a transaction", i, op.Flags)
			}
		case *zk.SetDataRequest, *zk.DeleteRequest, *zk.CheckVersionRequest:
		default:
			return fmt.Errorf("operation %d: %T is none: want *zk.CreateRequest, *zk.SetDataRequest, *zk.DeleteRequest or *zk.CheckVersionRequest", i, op)
		}
	}
	return nil
}
