package queue

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/hold"
	"github.com/zklocks/zklocks/internal/zkclient"
	"github.com/zklocks/zklocks/internal/znode"
)

// errNotWrite means that there is nothing to downgrade.
var errNotWrite = errors.New("not held for writing")

// Downgrade puts a node of another kind, with the same sequence number, in the
// place of the one that is held, in one transaction: nobody slips in between,
// and nobody who waits behind is overtaken. It runs to its end whatever ctx
// says; ctx bounds the wait for the answer.
func (p *Place) Downgrade(ctx context.Context, from, to znode.Kind) error {
	if err := zkclient.Ended(ctx); err != nil {
		return err
	}
	if err := p.life.Look(); err != nil {
		return err
	}
	p.mu.Lock()
	if p.replaced != nil || len(p.nodes) != 1 || p.nodes[0].Kind != from {
		p.mu.Unlock()
		return errNotWrite
	}
	// Before the request is sent: it deletes the node, which is no loss.
	replaced := make(chan struct{})
	p.replaced = replaced
	old := p.nodes[0]
	p.mu.Unlock()
	// Whoever ends the hold from now on waits until it is settled which node to
	// delete. Whoever ended it before has begun to delete the old one, and would
	// never hear of the new one.
	if err := p.life.Look(); err != nil {
		p.mu.Lock()
		p.replaced = nil
		p.mu.Unlock()
		close(replaced)
		return err
	}

	result := make(chan error, 1)
	go func() {
		err := p.line.client.Replace(p.sess, p.line.dir, old, old.As(to), p.line.cfg.Data, p.line.cfg.ACL)
		if err == nil {
			p.call.Load().downgraded(old.As(to)) // while an Unlock still waits
		}
		p.mu.Lock()
		if err == nil {
			p.nodes = []znode.Node{old.As(to)}
			if p.guarded {
				p.guardLocked()
			}
		}
		p.replaced = nil
		p.mu.Unlock()
		close(replaced)
		gone := false
		switch {
		case err == zk.ErrNoNode:
			gone = true
			p.life.Lose(errDeleted)
		case errors.Is(err, zkclient.ErrOver):
			gone = true
			p.life.Lose(errOver)
		}
		// An Unlock that came meanwhile has ended the hold: then the end of the node is no loss, and
		// what the server says of it is not the answer.
		if ended := p.life.Look(); gone || errors.Is(ended, hold.ErrLost) {
			err = ended
		}
		result <- err
	}()
	select {
	case err := <-result:
		return explain(err, "WRITE on "+p.line.path(old)+", CREATE and DELETE on "+p.line.dir)
	case <-ctx.Done():
		return fmt.Errorf("%w (the downgrade goes on in the background)", zkclient.Ended(ctx))
	}
}
