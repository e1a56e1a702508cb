package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/zklocks/zklocks/internal/hold"
	"github.com/zklocks/zklocks/observe"
)

// Hold is one hold on a grant: the only hold, or one of several re-entries, readers that share the
// node, or writers that pass it on. Each is released by itself, and all end when the grant is lost.
// zklocks.Hold documents its methods.
type Hold struct {
	*Grant
	in     *Queue // the queue of its nodes; nil: it is a hold on several locks
	state  hold.Hold
	leaver Leaver
	call   Call
}

// A Leaver counts the holds on a grant, for a recipe in which a grant can have several holds.
type Leaver interface {
	// Leave is called once, when a hold has ended. It releases the nodes if no other hold needs
	// them. ctx bounds the wait for the answer.
	Leave(ctx context.Context, h *Hold) error
}

// A carrier is a Leaver whose contexts carry something.
type carrier interface {
	Context(parent context.Context, h *Hold) context.Context
}

// An Owner is the Leaver of a lock that has an owner. The lock may be granted together with others.
type Owner interface {
	Leaver
	carrier
	// End counts the end of a hold, and reports whether it was the last one.
	End() (last bool)
}

// Begin begins a hold on the nodes of g in a queue, for a call. If leaver is nil, it is the only
// hold, and its release deletes the nodes.
func (h *Hold) Begin(g *Grant, in *Queue, leaver Leaver, call Call) {
	h.Grant, h.in, h.leaver, h.call = g, in, leaver, call
	h.state.State = &g.state
	if len(call) == 0 {
		return
	}
	call.granted(h)
	// On another goroutine: the goroutine that ends the grant may hold a mutex, and must notify
	// other holders.
	h.state.OnEnd(func(end error) {
		if errors.Is(end, hold.ErrLost) {
			go call.ended(h, end)
		}
	})
}

// Release ends this hold. ctx bounds the wait, see hold.Hold.Release.
func (h *Hold) Release(ctx context.Context) error {
	ctx, stop, err := h.state.Release(ctx)
	defer stop()
	if err == hold.ErrReleased {
		return h.wrap("release", err)
	}
	var left error
	if h.leaver == nil {
		left = h.Grant.GiveUp(ctx)
	} else {
		left = h.leaver.Leave(ctx, h)
	}
	if err == nil {
		err = left
	}
	h.call.ended(h, err)
	return h.wrap("release", err)
}

// GiveBack deletes the nodes of the hold, which is the last hold on them.
func (h *Hold) GiveBack(ctx context.Context) error { return h.releaseIn(ctx, h.in) }

// Err returns nil while the hold lives, and then what ended it. It sets no watch.
func (h *Hold) Err() error { return h.state.Settle() }

// endOr returns the end of the hold, or err if it lives. The end explains other errors, because the
// context of the call may be the hold's own.
func (h *Hold) endOr(err error) error {
	if end := h.Err(); end != nil {
		return end
	}
	return err
}

// State returns the state of the hold, and calls WatchNodes.
func (h *Hold) State() *hold.Hold {
	h.WatchNodes()
	return &h.state
}

// Context returns a context that ends with parent or with this hold.
func (h *Hold) Context(parent context.Context) context.Context {
	ctx := h.State().Context(parent)
	if c, ok := h.leaver.(carrier); ok {
		ctx = c.Context(ctx, h)
	}
	return ctx
}

// Deadline returns the instant until which the session is known to live; the zero time if the hold
// has ended.
func (h *Hold) Deadline() time.Time {
	if h.Err() != nil {
		return time.Time{}
	}
	return h.lease.Deadline()
}

// Info describes the hold. A hold on several locks has the paths of all, and the kind of the first.
func (h *Hold) Info() observe.LockInfo {
	if h.in != nil {
		return h.info(h.in)
	}
	lock := h.info(h.granted.nodes[0].queue)
	lock.Path = h.paths
	return lock
}

// Leaked returns a function that the garbage collector calls when the caller has dropped the hold.
// Unless the hold has ended, the function reports this to the observers. If no observer wants the
// report, Leaked returns nil.
func (h *Hold) Leaked() func() {
	for _, c := range h.call {
		if slices.ContainsFunc(c.queue.cfg.Observers, func(o observe.Observer) bool { return o.Leaked != nil }) {
			return h.call.leaked
		}
	}
	return nil
}

// nodes returns the nodes of the hold, out of those that its grant holds.
func (h *Hold) nodes(held *heldNodes) []nodeRef {
	if h.in == nil {
		return held.nodes
	}
	nodes, _ := in(held.nodes, h.in)
	return nodes
}

// Has reports whether the hold was granted nodes in a queue.
func (h *Hold) Has(q *Queue) bool {
	return slices.ContainsFunc(h.nodes(&h.granted), func(n nodeRef) bool { return n.queue == q })
}

// wrap adds the operation, and the paths of the locks, to an error.
func (h *Hold) wrap(op string, err error) error {
	if h.in != nil {
		return h.in.Wrap(op, err)
	}
	return nameAll(op, h.paths, err)
}

// nameAll adds the paths of several locks to an error of an operation on them.
func nameAll(op, paths string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("zklocks: %s %s: %w", op, paths, err)
}

// owners are the Leaver of a hold on several locks. They have an element for each lock; nil: the
// lock has no owner.
type owners []Owner

// Leave deletes the nodes in one transaction, except the nodes of each lock whose owner has another
// hold.
func (all owners) Leave(ctx context.Context, h *Hold) error {
	var last []*Queue
	for i, n := range h.granted.first() {
		if o := all[i]; o == nil || o.End() {
			last = append(last, n.queue)
		}
	}
	return h.releaseIn(ctx, last...)
}

// Context returns a context that carries all the ownerships.
func (all owners) Context(parent context.Context, h *Hold) context.Context {
	for _, o := range all {
		if o != nil {
			parent = o.Context(parent, h)
		}
	}
	return parent
}
