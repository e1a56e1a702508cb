package queue

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/zklocks/zklocks/internal/zkclient"
	"github.com/zklocks/zklocks/internal/znode"
)

// The shortcuts save requests. Without them a waiter lists, and holds as surely.
//
//   - roomInReply: the reply to the create tells how many children the directory has, and all of
//     them may be ahead.
//   - noWriterCached: a reader knows that no writer is queued (dirView).
//   - follow: the predecessor is a node of this process, which knows that it held.
//   - release marker: the nearest blocker is deleted together with a marker, which says that none
//     was ahead of its holder.
//
// Each ends in the same recheck as a grant by a listing.

// shortcut tries the grants that need no listing; relist says that it takes one.
func (w *waiter) shortcut(ctx context.Context, wait bool) (turn, error) {
	predecessor := w.register()
	if w.roomInReply() || w.noWriterCached() {
		if w.recheck(w.limit, w.epoch) == granted {
			return granted, nil
		}
	}
	if wait && predecessor != nil {
		return w.follow(ctx, predecessor)
	}
	return relist, nil
}

// roomInReply reports whether it would be the waiter's turn even if all other children of the
// directory were ahead.
func (w *waiter) roomInReply() bool {
	dir := w.made.Dir
	if dir == nil {
		return false
	}
	w.token = dir.Mzxid
	if w.limit.Dir != 0 && dir.Czxid != w.limit.Dir {
		w.limit.forget() // invariant 9
		return false
	}
	return int(dir.NumChildren)-len(w.nodes) <= w.limit.AllowedAhead
}

// noWriterCached reports whether a reader knows that no writer was queued when its node was
// created. The header of that reply tells the token, on a connection where that has been seen to be
// right.
func (w *waiter) noWriterCached() bool {
	if w.made.Dir != nil || w.made.Zxid == 0 || !w.queue.client.HeaderZxidVerified() {
		return false
	}
	w.token = w.made.Zxid
	sharing := w.request.Sharing
	if sharing == nil || !w.queue.view.noWriter(w.sess, w.epoch) {
		return false
	}
	sharing.queuedAt(w.nodes[0])
	return true
}

// touches reports whether the transaction that creates the nodes writes the directory's data. Where
// that is optional it is left out when the reply would tell nothing: the queue is long, and the
// header of the reply tells the token.
func (q *Queue) touches(r Request) bool {
	switch modes[q.mode(r)].touch {
	case touchRequired:
		return true
	case touchOptional:
		return !q.untouchable.Load() && (!q.crowded.Load() || !q.client.HeaderZxidVerified())
	}
	return false
}

// follow waits behind a node of this process that has the number before. Between the two no other
// node can stand. If the predecessor was the first of all, and its watch reports its deletion,
// there is none ahead.
//
// It takes a watch on the own node, which is the one that the next waiter needs, so no waiter needs
// another. Observers are told what the predecessor knows of the nodes ahead of it.
func (w *waiter) follow(ctx context.Context, predecessor *localNode) (turn, error) {
	predecessor.followed.Store(true)
	defer predecessor.followed.Store(false)
	w.local.setBehind(predecessor)
	if len(w.queue.cfg.Observers) > 0 {
		n, ok, err := predecessor.countAhead(ctx)
		if err != nil {
			return failed, err
		}
		if !ok {
			return relist, nil
		}
		w.tellAhead(n + 1)
	}
	s := &survey{limit: w.limit, epoch: w.epoch, blockers: w.queue.rule(w.request, w.limit).behind(predecessor.node)}
	defer s.watches.close()
	if next, err := w.waitEvent(ctx, s); next != pending {
		return next, err
	}
	if !s.blockers.clear() || !predecessor.isFirst() {
		return relist, nil
	}
	return w.confirm(s), nil
}

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
	if !modes[w.queue.mode(w.request)].exclusive {
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

// A release marker tells the waiter behind that the deleted node held, so that none was ahead of
// it:
//
//	Multi[ Create(node+marker), Delete(node+marker), Delete(node) ]
//
// The marker exists within the transaction only, so no listing shows it, but a watch for its
// creation fires. No other signal is delivered atomically with the deletion, is sent by the node's
// owner alone, and cannot be sent by accident. A node that is deleted without its marker may never
// have held, and its waiter lists. The marker's name ends with the kinds of nodes that the holder
// has looked for, so recipes that see other kinds in one directory wait for other markers.

// leavesMarker reports whether a grant's nodes are deleted together with a release marker. Where
// the grant had at most one node ahead when it listed, no waiter needs it; nor a follower; nor does
// a reader leave one, which the holder may have become, since other readers may hold beside it.
func (g *Grant) leavesMarker(nodes []znode.Node) bool {
	return g.marker && g.local != nil && nodes[0] == g.local.node && !g.local.followed.Load()
}
