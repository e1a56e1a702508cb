package queue

import (
	"context"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/hold"
)

// Hold is one of several holds on one grant: the re-entries of an owner, the readers that share a
// node, the writers that hand it on. Each ends by itself, and all end when the grant is lost. The
// recipe releases the grant with the last of them. What Hold does not define itself, such as Token
// and Guard, is that of the grant.
type Hold struct {
	*Grant
	state hold.State
	call  *Call
}

// Begin begins a hold on a grant.
func (h *Hold) Begin(g *Grant) {
	h.Grant = g
	h.state.Begin(g.alive, nil)
}

// Granted tells observers of this hold, which a call has led to.
func (h *Hold) Granted(call *Call) {
	h.call = call
	call.Granted(h.Grant)
}

// Release ends this hold, and then calls leave, which gives the grant back if this was the last
// hold on it. ctx bounds the wait, see hold.State.Bound. Only the first call calls leave; the error
// of End comes before that of leave.
func (h *Hold) Release(ctx context.Context, leave func(context.Context) error) error {
	bound := h.state.Bound(ctx)
	err := h.End()
	if err != hold.ErrReleased {
		ctx, stop := bound.Context()
		defer stop()
		if left := leave(ctx); err == nil {
			err = left
		}
		h.call.Released(err)
	}
	return h.Wrap("release", err)
}

// End ends this hold. The error matches hold.ErrLost if the grant had been lost first, and is
// hold.ErrReleased from the second call on.
func (h *Hold) End() error { return h.state.Release() }

// Err returns nil while the hold lives, and then what ended it.
func (h *Hold) Err() error { return h.state.Look() }

// State returns the state of this hold, which the loss of the grant ends from now on. A hold whose
// state is not asked for costs no watch and no goroutine.
func (h *Hold) State() *hold.State {
	h.state.EndWith(h.Grant.State)
	return &h.state
}

// Deadline is that of the grant; the zero time if this hold has ended.
func (h *Hold) Deadline() time.Time {
	if h.Err() != nil {
		return time.Time{}
	}
	return h.Grant.Deadline()
}

// Context returns a context that ends with parent or with this hold.
func (h *Hold) Context(parent context.Context) context.Context { return h.State().Context(parent) }

// Multi makes a transaction that takes place only while the grant lives. The end of this hold comes
// before any other error, as in Verify.
func (h *Hold) Multi(ctx context.Context, ops ...any) ([]zk.MultiResponse, error) {
	replies, err := grants{h.Grant}.multi(ctx, h.Err, ops)
	return replies, h.Wrap("multi", err)
}

// Verify asks the quorum whether the grant lives.
func (h *Hold) Verify(ctx context.Context) error {
	return h.Wrap("verify", grants{h.Grant}.verify(ctx, h.Err))
}
