package queue

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/hold"
	"github.com/zklocks/zklocks/internal/zkclient"
	"github.com/zklocks/zklocks/internal/znode"
)

// guardLocked watches the nodes that are held now; the caller holds mu.
func (p *Place) guardLocked() {
	ctx, cancel := context.WithCancel(context.Background())
	p.life.OnEnd(hold.CleanUp, func(error) { cancel() })
	for _, n := range p.nodes {
		go p.guard(ctx, n)
	}
}

// guard ends the hold when its node is deleted, by whomever, or its session or
// connection ends. All of these reach a watch on the node itself, on any
// connection.
func (p *Place) guard(ctx context.Context, n znode.Node) {
	for {
		w, err := p.line.client.WatchAnyhow(ctx, p.sess, p.line.path(n))
		var event zk.Event
		if err == nil {
			select {
			case e, first := <-w.C():
				event = w.Event(e, first)
			case <-ctx.Done():
				return
			}
		}
		switch {
		case err == zk.ErrNoNode, err == nil && zkclient.Gone(event):
			// Unlock and Downgrade delete the node themselves. Both have
			// said so before they sent the delete.
			if p.holds(n) {
				p.life.Lose(errDeleted)
			}
			return
		case errors.Is(err, zkclient.ErrOver):
			p.life.Lose(errOver)
			return
		case errors.Is(err, zkclient.ErrClosed):
			p.life.Lose(err)
			return
		case err != nil:
			return // ctx has ended, or we may not read our own node: then the monitor has to do
		case event.Type != zk.EventNotWatching:
			// Somebody wrote into our node. That is no loss.
		case !p.line.client.In(p.sess) || errors.Is(event.Err, zk.ErrSessionExpired):
			p.life.Lose(errOver)
			return
		case !errors.Is(event.Err, zk.ErrConnectionClosed):
			p.life.Lose(zkclient.ErrClosed)
			return
		}
		// Nor is it one that a watch which was set without a look at the node has ended
		// with the network connection.
	}
}
