package queue

import "github.com/zklocks/zklocks/internal/zkclient"

// The shortcuts save requests: roomInReply, noWriterCached and release markers. Without them a
// waiter lists, and holds as surely. Each ends in the same recheck as a grant by a listing.

// tokenOf returns the token that the reply to the create tells: a directory's mzxid, if the
// transaction has touched one, or the zxid in the header, on a connection where that has been seen
// to be right; 0 if it tells none.
func tokenOf(client *zkclient.Client, made []zkclient.Claimed) int64 {
	for _, m := range made {
		if m.Dir != nil {
			return m.Dir.Mzxid
		}
	}
	if client.HeaderZxidVerified() {
		return made[0].Zxid
	}
	return 0
}

// roomInReply reports whether it would be the waiter's turn even if all other children of the
// directory were ahead.
func (w *waiter) roomInReply() bool {
	dir := w.made.Dir
	if dir == nil {
		return false
	}
	if w.limit.Dir != 0 && dir.Czxid != w.limit.Dir {
		w.limit.forget() // invariant 9
		return false
	}
	return int(dir.NumChildren)-len(w.nodes) <= w.limit.AllowedAhead
}

// noWriterCached reports whether a reader knows that no writer was queued when its node was
// created.
func (w *waiter) noWriterCached() bool {
	if !w.noWriter.valid() {
		return false
	}
	w.noWriter.prove()
	w.request.Sharing.queuedAt(w.nodes[0])
	return true
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
// the grant had at most one node ahead when it listed, at most one waiter misses it, and lists
// again. Nor does a reader leave one, which the holder may have become, since other readers may
// hold beside it.
func (n nodeRef) leavesMarker() bool {
	return n.marker && modes[n.queue.cfg.Names.mode(n.node.Kind)].exclusive
}
