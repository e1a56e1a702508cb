package queue

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/zkclient"
	"github.com/zklocks/zklocks/internal/znode"
)

// A heldNode is one of a grant.
type heldNode struct {
	grant *Grant
	node  znode.Node
}

type heldNodes []heldNode

// holding returns the nodes that are held, when no downgrade is under way.
func (all grants) holding(ctx context.Context) (held heldNodes, err error) {
	for _, g := range all {
		nodes, err := g.holding(ctx)
		if err != nil {
			return nil, err
		}
		for _, n := range nodes {
			held = append(held, heldNode{g, n})
		}
	}
	return held, nil
}

// guards are checks that fail once one of the nodes is gone.
func (all heldNodes) guards() []*zk.CheckVersionRequest {
	checks := make([]*zk.CheckVersionRequest, len(all))
	for i, n := range all {
		checks[i] = &zk.CheckVersionRequest{Path: n.path(), Version: -1}
	}
	return checks
}

func (n heldNode) path() string { return n.grant.queue.path(n.node) }

// explain says which right it takes, if the server has refused to look at the node with this index.
func (all heldNodes) explain(at int, err error) error {
	if at < 0 {
		return zkclient.DescribeCode(err)
	}
	return Explain(err, "READ on "+all[at].path())
}

// lostUnlessReplaced ends the grant because the server misses the node. A downgrade may have
// replaced it meanwhile; a grant that has been given back does not end again.
func (n heldNode) lostUnlessReplaced(ctx context.Context) (replaced bool, err error) {
	now, err := n.grant.holding(ctx)
	if err != nil {
		return false, err
	}
	if missing(now, []znode.Node{n.node}) {
		return true, nil
	}
	n.grant.state.Lose(errDeleted)
	return false, nil
}

// Guard has checks that fail once one of the nodes is gone.
func (g *Grant) Guard() []*zk.CheckVersionRequest { return grants{g}.guards() }

func (all grants) guards() []*zk.CheckVersionRequest {
	var now heldNodes
	for _, g := range all {
		for _, n := range g.current() {
			now = append(now, heldNode{g, n})
		}
	}
	return now.guards()
}

// Verify asks the quorum whether the nodes exist.
func (g *Grant) Verify(ctx context.Context) error {
	return g.Wrap("verify", grants{g}.verify(ctx, g.Err))
}

// verify does it for a hold on the grants, which alive says is not over. The grants may be another
// hold's by now.
func (all grants) verify(ctx context.Context, alive func() error) error {
	for {
		if err := alive(); err != nil {
			return err
		}
		nodes, err := all.holding(ctx)
		at := zkclient.NotDone
		if err == nil {
			at, err = all[0].queue.client.Check(ctx, all[0].sess, nodes.guards()...)
		}
		if err == zk.ErrNoNode && at >= 0 {
			var replaced bool
			if replaced, err = nodes[at].lostUnlessReplaced(ctx); replaced {
				continue
			}
		}
		if errors.Is(err, zkclient.ErrOver) {
			for _, g := range all {
				g.state.Lose(errOver)
			}
		}
		return endOr(alive, nodes.explain(at, err))
	}
}

// endOr returns the end of a hold, if it has ended: that comes before any other error, because the
// context of the call may be the hold's own.
func endOr(alive func() error, err error) error {
	if end := alive(); end != nil {
		return end
	}
	return err
}

// Multi makes a transaction that takes place only while all the nodes exist.
func (g *Grant) Multi(ctx context.Context, ops ...any) ([]zk.MultiResponse, error) {
	replies, err := grants{g}.multi(ctx, g.Err, ops)
	return replies, g.Wrap("multi", err)
}

// multi does it for a hold on the grants, which alive says is not over.
func (all grants) multi(ctx context.Context, alive func() error, ops []any) ([]zk.MultiResponse, error) {
	ops, err := owned(ops)
	if err != nil {
		return nil, err
	}
	for {
		if err := alive(); err != nil {
			return nil, err
		}
		nodes, err := all.holding(ctx)
		if err != nil {
			return nil, endOr(alive, err)
		}
		guarded := make([]any, 0, len(nodes)+len(ops))
		for _, check := range nodes.guards() {
			guarded = append(guarded, check)
		}
		guarded = append(guarded, ops...)
		if size := zkclient.Size(guarded); size > zkclient.MaxRequest {
			return nil, fmt.Errorf("%w: a transaction of %d bytes is larger than servers take, %d", zk.ErrShortBuffer, size, zkclient.MaxRequest)
		}
		replies, at, err := all[0].queue.client.Transact(ctx, alive, guarded...)
		switch end := alive(); {
		case err == nil:
			return replies[len(nodes):], nil
		case at >= len(nodes):
			return replies[len(nodes):], named(at-len(nodes), guarded[at], zkclient.DescribeCode(err))
		case at == zkclient.Unanswered && end != nil:
			// It does not match what ended the hold: that says that nothing was done.
			return nil, fmt.Errorf("the transaction may have taken place: %w; the hold has ended meanwhile: %v", err, end)
		case at == zkclient.Unanswered:
			return nil, fmt.Errorf("the transaction may have taken place: %w", err)
		case end != nil:
			return nil, end
		case at < 0 || err != zk.ErrNoNode:
			return nil, nodes.explain(at, err)
		}
		switch replaced, err := nodes[at].lostUnlessReplaced(ctx); {
		case err != nil:
			return nil, endOr(alive, err)
		case !replaced:
			return nil, alive()
		}
	}
}

// named adds to the error of an operation, as owned returns it, which operation it is.
func named(i int, op any, err error) error {
	what, _ := strings.CutSuffix(strings.TrimPrefix(fmt.Sprintf("%T", op), "*zk."), "Request")
	path := reflect.ValueOf(op).Elem().FieldByName("Path").String()
	return fmt.Errorf("operation %d (%s %s): %w", i, strings.ToLower(what), znode.Shown(path), err)
}

// owned returns copies of the caller's operations: if ctx ends, the client may send them after the
// call has returned. It refuses those whose result the client library cannot read: it would take
// what was done for refused.
func owned(ops []any) ([]any, error) {
	own := make([]any, len(ops))
	for i, op := range ops {
		if v := reflect.ValueOf(op); v.Kind() == reflect.Pointer && v.IsNil() {
			return nil, fmt.Errorf("operation %d: a nil %T", i, op)
		}
		switch op := op.(type) {
		case *zk.CreateRequest:
			if op.Flags&^(zk.FlagEphemeral|zk.FlagSequence) != 0 {
				return nil, fmt.Errorf("operation %d: flags %#x: containers and nodes with a time to live are made without a transaction", i, op.Flags)
			}
			made := *op
			made.Data, made.Acl = bytes.Clone(op.Data), slices.Clone(op.Acl)
			own[i] = &made
		case *zk.SetDataRequest:
			set := *op
			set.Data = bytes.Clone(op.Data)
			own[i] = &set
		case *zk.DeleteRequest:
			deletes := *op
			own[i] = &deletes
		case *zk.CheckVersionRequest:
			check := *op
			own[i] = &check
		default:
			return nil, fmt.Errorf("operation %d: %T is none: want *zk.CreateRequest, *zk.SetDataRequest, *zk.DeleteRequest or *zk.CheckVersionRequest", i, op)
		}
	}
	return own, nil
}
