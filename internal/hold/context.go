package hold

import "context"

// NeedContext panics if ctx is nil, which is a mistake in the program. Each call that takes a context asks before it changes
// anything: a panic in the middle of a Release would leave the node behind, and no goroutine that could delete it.
func NeedContext(ctx context.Context) {
	if ctx == nil {
		panic("zklocks: the context is nil")
	}
}

// Context returns a context that ends with parent or with the hold, whichever
// is first. context.Cause tells a loss (ErrLost) from a release (ErrReleased).
//
// Until the hold ends it keeps what it needs to end a context. That is shared by all contexts
// whose parents end together, and freed when these end. So a hold that lasts for days may be
// asked for a context for each piece of work.
func (s *State) Context(parent context.Context) context.Context {
	NeedContext(parent)
	_ = s.Look()
	c := &stateContext{Context: parent, state: s, parent: parent}
	if cancelKey == nil {
		c.joint = s.newJoint(parent)
		c.Context = c.joint.ctx
	} else {
		c.joint = s.joint(parent)
	}
	return c
}

// stateContext has the values and the deadline of its parent. It looks at the hold whenever it is
// asked: in a process that was frozen past its deadline the first look may come before any timer
// has run.
type stateContext struct {
	context.Context // whose values it has: the parent, or the joint if that is not shared
	state           *State
	parent          context.Context
	joint           *joint
}

func (c *stateContext) Done() <-chan struct{} {
	c.look()
	return c.joint.ctx.Done()
}

func (c *stateContext) Err() error {
	c.look()
	return c.joint.ctx.Err()
}

// Value has package context find the joint, which has the cause and ends the children. All other
// values are those of the parent. Only one of the two is asked: the joint asks its parent in its
// turn, so a context below many others would ask the first one 2^n times.
func (c *stateContext) Value(key any) any {
	switch key {
	case parentKey{c.state}:
		return c.parent
	case cancelKey:
		return c.joint.ctx.Value(key)
	}
	return c.Context.Value(key)
}

// cancelKey is the key by which package context asks a context for what ends it. That is private
// to the package, so it is asked what it asks for. If that fails, with another version of the
// package, it is nil and each context has a joint of its own.
var cancelKey = func() any {
	p := &probe{Context: context.Background()}
	_ = context.Cause(p)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if p.key == nil || ctx.Value(p.key) != any(ctx) {
		return nil
	}
	return p.key
}()

// probe has ended, and remembers the last key that it was asked for.
type probe struct {
	context.Context
	key any
}

func (*probe) Err() error { return context.Canceled }

func (p *probe) Value(key any) any {
	p.key = key
	return nil
}

// look does not wait for the hook: the goroutine that ended the hold may not have called it yet.
func (c *stateContext) look() {
	if end := c.state.Look(); end != nil {
		c.joint.cancel(end)
	}
}

// parentKey finds the parent of a context of this hold.
type parentKey struct{ *State }

// Bound returns the context that bounds the wait of a call that is about to end the hold. The call ends all contexts of the
// hold, and ctx may be one of them: defer h.Release(ctx) behind ctx = h.Context(ctx) is common. Then the parent's end counts,
// and the deadline of ctx. A ctx that has ended already stays as it is. The caller calls stop when it is done.
func (s *State) Bound(ctx context.Context) (bound context.Context, stop context.CancelFunc) {
	NeedContext(ctx)
	if s.listeners.Load() == nil || ctx.Err() != nil { // there is no context of this hold, or it is too late
		return ctx, func() {}
	}
	bound = ctx
	for {
		parent, ok := bound.Value(parentKey{s}).(context.Context)
		if !ok {
			break
		}
		bound = parent
	}
	if at, ok := ctx.Deadline(); ok && bound != ctx {
		return context.WithDeadline(bound, at)
	}
	return bound, func() {}
}

// joint ends with the hold or with the parents of some contexts, which have one Done channel.
type joint struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
}

// joint returns that of parent, which lives unless parent or the hold has ended.
func (s *State) joint(parent context.Context) *joint {
	done := parent.Done() // nil, which is a key as well, if the parent never ends
	all := s.listen()
	j := all.joints[done]
	all.mu.Unlock()
	if j != nil && j.ctx.Err() == nil {
		return j // an ended one may have the channel of another parent: package context shares one among ended contexts
	}
	j = s.newJoint(parent)
	all.mu.Lock()
	if all.joints == nil {
		all.joints = make(map[<-chan struct{}]*joint)
	}
	all.joints[done] = j
	all.mu.Unlock()
	context.AfterFunc(j.ctx, func() { // at once if it has ended already
		all.mu.Lock()
		defer all.mu.Unlock()
		if all.joints[done] == j { // or two goroutines have made one each
			delete(all.joints, done)
		}
	})
	return j
}

// newJoint returns one that nothing else uses.
func (s *State) newJoint(parent context.Context) *joint {
	j := new(joint)
	j.ctx, j.cancel = context.WithCancelCause(parent)
	forget := s.OnEnd(Holders, j.cancel)
	context.AfterFunc(j.ctx, forget)
	return j
}
