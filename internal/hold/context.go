package hold

import "context"

// NeedContext panics if ctx is nil, which is a bug in the caller. Each method that takes a context
// calls it before it changes anything: a panic in the middle of a Release would leave the node
// behind, with no goroutine that deletes it.
func NeedContext(ctx context.Context) {
	if ctx == nil {
		panic("zklocks: the context is nil")
	}
}

// Context returns a context that ends when parent ends or when the hold ends. context.Cause
// distinguishes a loss (ErrLost) from a release (ErrReleased). What it needs is freed when either
// ends.
func (h *Hold) Context(parent context.Context) context.Context {
	NeedContext(parent)
	_ = h.Look()
	ctx, cancel := context.WithCancelCause(parent)
	context.AfterFunc(ctx, h.OnEnd(cancel))
	return &holdContext{ctx, h, parent, cancel}
}

// holdContext checks the hold first in each method: in a process that was frozen past its deadline
// the first call may come before any timer has fired.
type holdContext struct {
	context.Context
	hold   *Hold
	parent context.Context
	cancel context.CancelCauseFunc
}

func (c *holdContext) Done() <-chan struct{} {
	c.look()
	return c.Context.Done()
}

func (c *holdContext) Err() error {
	c.look()
	return c.Context.Err()
}

func (c *holdContext) Value(key any) any {
	if key == (parentKey{c.hold}) {
		return c.parent
	}
	return c.Context.Value(key)
}

// look does not wait for the hook: the goroutine that ended the hold may not have called it yet.
func (c *holdContext) look() {
	if end := c.hold.Look(); end != nil {
		c.cancel(end)
	}
}

// parentKey is the key of the parent of a context of this hold.
type parentKey struct{ *Hold }

// A Bound limits how long a call that ends a hold may wait. The call ends all contexts of the hold,
// and its own may be one of them: defer h.Release(ctx) after ctx = h.Context(ctx) is common.
type Bound struct {
	hold *Hold // nil: ctx is the limit, whatever the hold does
	ctx  context.Context
}

// Bound takes the context of a call that is about to end the hold. If ctx has ended already, it is
// the limit.
func (h *Hold) Bound(ctx context.Context) Bound {
	NeedContext(ctx)
	if ctx.Err() != nil || !h.listening.Load() { // ctx has ended, or no context of this hold exists
		return Bound{ctx: ctx}
	}
	return Bound{h, ctx}
}

// Context returns the context that limits the wait. The hold must have ended. A context that ended
// with it is replaced by its parent, and keeps its deadline. One that lives is not of the hold, or
// is detached from it by context.WithoutCancel: before the end of the hold this does not show. The
// caller must call stop when it is done.
func (b Bound) Context() (limit context.Context, stop context.CancelFunc) {
	limit = b.ctx
	if b.hold == nil {
		return limit, func() {}
	}
	// To compare limit with b.ctx may panic: a context may be of a type that has no equality.
	replaced := false
	for limit.Err() != nil {
		parent, ok := limit.Value(parentKey{b.hold}).(context.Context)
		if !ok {
			break
		}
		limit, replaced = parent, true
	}
	if at, ok := b.ctx.Deadline(); ok && replaced {
		return context.WithDeadline(limit, at)
	}
	return limit, func() {}
}
