package queue

import "github.com/zklocks/zklocks/internal/zkclient"

// The shortcuts save requests: roomInReply, noWriterCached and release markers. Without them a
// waiter lists, and the grant is as safe. Each ends in the same recheck as a grant by a listing.

// tokenOf returns the token: the zxid of the transaction, from the reply to the create. With all
// known servers it is the czxid of the nodes (zkclient TestTheHeaderOfAReplyHasTheZxid). tokenOf
// returns 0 if the reply was lost.
func tokenOf(made []zkclient.Claimed) int64 { return made[0].Zxid }

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

// noWriterCached reports whether no writer was queued when the reader's node was created, according
// to the view that the create has checked.
func (w *waiter) noWriterCached() bool {
	if !w.noWriter.valid() || !w.noWriter.sameDir(w.token) {
		return false
	}
	w.request.shared.listed(w.nodes[0], w.noWriter.mzxid)
	return true
}

// A release marker tells the waiter behind that the deleted node held, so that no node was ahead of
// it:
//
//	Multi[ Create(node+marker), Delete(node+marker), Delete(node) ]
//
// The marker exists within the transaction only, so no listing shows it, but a watch for its
// creation fires. No other signal arrives atomically with the deletion, is sent by the node's owner
// alone, and cannot be sent by accident. A node that is deleted without its marker may never have
// held, so the waiter behind it lists. The marker's name ends with the kinds of nodes that the
// holder has waited for, so recipes for other kinds in the same directory watch other markers.

// leavesMarker reports whether a grant's nodes are deleted together with a release marker. A grant
// that had at most one node ahead when it listed leaves no marker, because then at most one waiter
// has to list again. A holder that was downgraded leaves no marker, because other readers may hold
// with it.
func (n nodeRef) leavesMarker() bool {
	return n.marker && modes[n.queue.cfg.Names.mode(n.node.Kind)].exclusive
}
