package hold

import "context"

// Context returns a context that ends with parent or with the hold. context.Cause distinguishes a
// loss (ErrLost) from a release (ErrReleased). The memory of the context is freed when the context
// ends.
func (h *Hold) Context(parent context.Context) context.Context {
	NeedContext(parent)
	ctx, cancel := context.WithCancelCause(parent)
	context.AfterFunc(ctx, h.OnEnd(cancel))
	return &holdContext{ctx, h, parent, cancel}
}

// holdContext checks the hold in each method: in a process that was paused past the deadline the
// first call may come before any timer has fired.
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

// look does not wait for the hook that OnEnd has registered: the goroutine that ended the hold may
// not have called it yet.
func (c *holdContext) look() {
	if end := c.hold.Settle(); end != nil {
		c.cancel(end)
	}
}

// parentKey is the key under which a context of the hold has its parent.
type parentKey struct{ *Hold }
