package queue

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/zklocks/zklocks/internal/zkclient"
	"github.com/zklocks/zklocks/internal/znode"
)

// A localNode is an exclusive node of this process, as the waiter with the next number knows it.
type localNode struct {
	node     znode.Node
	session  int64
	followed atomic.Bool // a waiter follows it, and needs no release marker

	mu     sync.Mutex
	ahead  int           // how many nodes are ahead; unknown at first
	behind *localNode    // while that is unknown: the node that it follows, which may know
	told   chan struct{} // closed when ahead or behind is set; nil if no follower waits for that
}

// How many nodes are ahead of one whose waiter has not listed, or has left before it did.
const (
	notKnown = -1 - iota
	neverKnown
)

// setAhead tells how many nodes are ahead. 0 stays true for as long as the node exists.
func (l *localNode) setAhead(n int) { l.tell(n, nil) }

// setBehind tells that the node's waiter follows another, and has not listed.
func (l *localNode) setBehind(predecessor *localNode) { l.tell(notKnown, predecessor) }

func (l *localNode) tell(n int, behind *localNode) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ahead, l.behind = n, behind
	if l.told != nil {
		close(l.told)
		l.told = nil
	}
}

// isFirst reports whether no node is ahead, or was when this one was deleted.
func (l *localNode) isFirst() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ahead == 0
}

// countAhead returns how many nodes are ahead, as soon as that is known. It never is, ok is false,
// when the waiter has left before.
func (l *localNode) countAhead(ctx context.Context) (n int, ok bool, err error) {
	for followers := 0; ; {
		l.mu.Lock()
		n, behind := l.ahead, l.behind
		if n == notKnown && behind == nil && l.told == nil {
			l.told = make(chan struct{})
		}
		told := l.told
		l.mu.Unlock()
		switch {
		case n == neverKnown:
			return 0, false, nil
		case n != notKnown:
			return n + followers, true, nil
		case behind != nil:
			l = behind
			followers++
			continue
		}
		select {
		case <-told:
		case <-ctx.Done():
			return 0, false, zkclient.Ended(ctx)
		}
	}
}

// localNodes finds them by their session and number.
type localNodes struct {
	mu sync.Mutex
	at map[localKey]*localNode
}

type localKey struct{ session, seq int64 }

// register adds the waiter's node, if it is exclusive, and returns the one with the number before;
// nil if that is not a node of this queue and session.
func (w *waiter) register() (predecessor *localNode) {
	if !modes[w.queue.cfg.Names.mode(w.request.Kind)].exclusive {
		return nil
	}
	w.local = &localNode{node: w.nodes[0], session: w.sess, ahead: notKnown}
	all := &w.queue.local
	key := localKey{w.sess, w.nodes[0].Seq}
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.at == nil {
		all.at = make(map[localKey]*localNode)
	}
	all.at[key] = w.local
	key.seq--
	return all.at[key]
}

// unregister removes a node. Its follower goes on to ask it.
func (all *localNodes) unregister(l *localNode) {
	if l == nil {
		return
	}
	if !l.isFirst() {
		l.setAhead(neverKnown)
	}
	all.mu.Lock()
	defer all.mu.Unlock()
	key := localKey{l.session, l.node.Seq}
	if all.at[key] == l { // or another has its number: the directory was deleted and made again
		delete(all.at, key)
	}
}
