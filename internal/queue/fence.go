package queue

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/zkclient"
	"github.com/zklocks/zklocks/internal/znode"
)

// guards are checks that fail once one of the nodes is gone.
func (g *Grant) guards(nodes []znode.Node) []*zk.CheckVersionRequest {
	checks := make([]*zk.CheckVersionRequest, len(nodes))
	for i, n := range nodes {
		checks[i] = &zk.CheckVersionRequest{Path: g.queue.path(n), Version: -1}
	}
	return checks
}

// Guard is a check that fails once the first of the nodes is gone.
func (g *Grant) Guard() *zk.CheckVersionRequest {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.guards(g.nodes[:1])[0]
}

// Verify asks the quorum whether the nodes exist.
func (g *Grant) Verify(ctx context.Context) error {
	for {
		if err := g.Err(); err != nil {
			return err
		}
		g.mu.Lock()
		checked := g.nodes
		g.mu.Unlock()
		switch err := g.queue.client.Check(ctx, g.sess, g.guards(checked)...); {
		case err == nil:
			return g.Err()
		case err == zk.ErrNoNode:
			switch replaced, err := g.lostUnlessReplaced(ctx, checked[0]); {
			case err != nil:
				return err
			case !replaced:
				return g.Err()
			}
		case errors.Is(err, zkclient.ErrOver):
			g.state.Lose(errOver)
			return g.Err()
		default:
			if end := g.Err(); end != nil {
				return end // ctx may be the hold's own
			}
			return err
		}
	}
}

// lostUnlessReplaced ends the grant if the server misses a node that is held. A downgrade may have
// replaced it meanwhile.
func (g *Grant) lostUnlessReplaced(ctx context.Context, n znode.Node) (replaced bool, err error) {
	now, err := g.holding(ctx)
	if err != nil {
		return false, err
	}
	if missing(now, []znode.Node{n}) {
		return true, nil
	}
	g.state.Lose(errDeleted)
	return false, nil
}

// Multi makes a transaction that takes place only while all the nodes exist.
func (g *Grant) Multi(ctx context.Context, ops ...any) ([]zk.MultiResponse, error) {
	return g.multi(ctx, g.Err, ops)
}

// multi does it for a hold on the grant, which alive says is not over.
func (g *Grant) multi(ctx context.Context, alive func() error, ops []any) ([]zk.MultiResponse, error) {
	if err := readable(ops); err != nil {
		return nil, err
	}
	for {
		if err := alive(); err != nil {
			return nil, err
		}
		nodes, err := g.holding(ctx)
		if err != nil {
			return nil, err
		}
		guarded := make([]any, 0, len(nodes)+len(ops))
		for _, check := range g.guards(nodes) {
			guarded = append(guarded, check)
		}
		replies, at, err := g.queue.client.Transact(ctx, alive, append(guarded, ops...)...)
		switch end := alive(); {
		case err == nil:
			return replies[len(nodes):], nil
		case at >= len(nodes):
			return replies[len(nodes):], zkclient.DescribeCode(err)
		case at == zkclient.Unanswered && end != nil:
			// It does not match what ended the hold: that says that nothing was done.
			return nil, fmt.Errorf("the transaction may have taken place: %w; the hold has ended meanwhile: %v", err, end)
		case at == zkclient.Unanswered:
			return nil, fmt.Errorf("the transaction may have taken place: %w", err)
		case end != nil:
			return nil, end // ctx may be the hold's own
		case at < 0 || err != zk.ErrNoNode:
			return nil, zkclient.DescribeCode(err)
		}
		switch replaced, err := g.lostUnlessReplaced(ctx, nodes[at]); {
		case err != nil:
			return nil, err
		case !replaced:
			return nil, alive()
		}
	}
}

// readable refuses operations whose result the client library cannot read: it would take what was
// done for refused.
func readable(ops []any) error {
	for i, op := range ops {
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
