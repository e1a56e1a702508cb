package hold

import "context"

// Context returns a context that ends with parent or with the hold, whichever
// is first. context.Cause tells a loss (ErrLost) from a release (ErrReleased).
func (l *Life) Context(parent context.Context) context.Context {
	_ = l.Look()
	ctx, cancel := context.WithCancelCause(parent)
	forget := l.OnEnd(func(end error) { cancel(end) })
	context.AfterFunc(ctx, forget) // a hold outlives many contexts
	return &lifeContext{Context: ctx, life: l}
}

// lifeContext looks at the hold whenever somebody asks: in a process that was
// frozen past its deadline the first look may come before any timer has run.
type lifeContext struct {
	context.Context
	life *Life
}

func (c *lifeContext) Done() <-chan struct{} {
	_ = c.life.Look()
	return c.Context.Done()
}

func (c *lifeContext) Err() error {
	_ = c.life.Look()
	return c.Context.Err()
}
