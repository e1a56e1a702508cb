package hold

import "context"

// Context returns a context that ends with parent or with the hold, whichever
// is first. context.Cause tells a loss (ErrLost) from a release (ErrReleased).
func (l *Life) Context(parent context.Context) context.Context {
	_ = l.Look()
	ctx, cancel := context.WithCancelCause(parent)
	forget := l.OnEnd(func(end error) { cancel(end) })
	context.AfterFunc(ctx, forget) // a hold outlives many contexts
	return &lifeContext{Context: ctx, life: l, cancel: cancel}
}

// lifeContext looks at the hold whenever somebody asks: in a process that was
// frozen past its deadline the first look may come before any timer has run.
type lifeContext struct {
	context.Context
	life   *Life
	cancel context.CancelCauseFunc
}

func (c *lifeContext) Done() <-chan struct{} {
	c.look()
	return c.Context.Done()
}

func (c *lifeContext) Err() error {
	c.look()
	return c.Context.Err()
}

// look does not wait for the hook: whoever has ended the life may not have come
// to tell us yet.
func (c *lifeContext) look() {
	if end := c.life.Look(); end != nil {
		c.cancel(end)
	}
}
