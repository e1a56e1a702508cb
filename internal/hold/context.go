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
// distinguishes a loss (ErrLost) from a release (ErrReleased).
//
// All contexts whose parents have the same Done channel share one joint, which the State keeps
// until those parents end. So a long hold may create a context for each piece of work.
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

// stateContext has the values and the deadline of its parent. Each method checks the hold first: in
// a process that was frozen past its deadline the first call may come before any timer has fired.
type stateContext struct {
	context.Context // source of the values: the parent, or the joint if that is not shared
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

// Value lets package context find the joint, which has the cause and ends the children. All other
// values are those of the parent. Only one of the two is asked: the joint asks its own parent, so
// in a chain of n contexts the root would be asked 2^n times.
func (c *stateContext) Value(key any) any {
	switch key {
	case parentKey{c.state}:
		return c.parent
	case cancelKey:
		return c.joint.ctx.Value(key)
	}
	return c.Context.Value(key)
}

// cancelKey is the key with which package context asks a context for its cancelCtx. The key is
// private to that package, so a probe records it. If that fails, with another version of the
// package, cancelKey is nil and each context has its own joint.
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

// probe is an ended context that records the last key that Value was called with.
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

// parentKey is the key of the parent of a context of this hold.
type parentKey struct{ *State }

// A Bound limits how long a call that ends a hold may wait. The call ends all contexts of the hold,
// and its own may be one of them: defer h.Release(ctx) after ctx = h.Context(ctx) is common.
type Bound struct {
	state *State // nil: ctx is the limit, whatever the hold does
	ctx   context.Context
}

// Bound takes the context of a call that is about to end the hold. If ctx has ended already, it is
// the limit.
func (s *State) Bound(ctx context.Context) Bound {
	NeedContext(ctx)
	if ctx.Err() != nil || s.listeners.Load() == nil { // ctx has ended, or no context of this hold exists
		return Bound{ctx: ctx}
	}
	return Bound{s, ctx}
}

// Context returns the context that limits the wait. The hold must have ended. A context that ended
// with it is replaced by its parent, and keeps its deadline. One that lives is not of the hold, or
// is detached from it by context.WithoutCancel: before the end of the hold this does not show. The
// caller must call stop when it is done.
func (b Bound) Context() (limit context.Context, stop context.CancelFunc) {
	limit = b.ctx
	if b.state == nil {
		return limit, func() {}
	}
	b.state.Tell() // the goroutine that has ended the hold may not have ended its contexts yet
	// To compare limit with b.ctx may panic: a context may be of a type that has no equality.
	replaced := false
	for limit.Err() != nil || belowEnded(limit) {
		parent, ok := limit.Value(parentKey{b.state}).(context.Context)
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

// belowEnded reports whether the nearest context of package context below ctx has ended, from which
// ctx is not detached. A context of another type, which merges two say, may end a moment later; one
// that never ends is detached by that type.
func belowEnded(ctx context.Context) bool {
	if cancelKey == nil || ctx.Done() == nil {
		return false
	}
	below, ok := ctx.Value(cancelKey).(context.Context)
	return ok && below.Err() != nil
}

// joint ends with the hold, or with the parents of the contexts that share it and its Done channel.
type joint struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
}

// joint returns the joint of parent, which has not ended unless parent or the hold has.
func (s *State) joint(parent context.Context) *joint {
	done := parent.Done() // nil, which is a valid key, if the parent never ends
	all := s.listen()
	j := all.joints[done]
	all.mu.Unlock()
	if j != nil && j.ctx.Err() == nil {
		return j // an ended joint may have been made for another parent: package context shares one Done channel among ended contexts
	}
	j = s.newJoint(parent)
	all.mu.Lock()
	if all.joints == nil {
		all.joints = make(map[<-chan struct{}]*joint)
	}
	all.joints[done] = j
	all.mu.Unlock()
	context.AfterFunc(j.ctx, func() { // called at once if it has ended already
		all.mu.Lock()
		defer all.mu.Unlock()
		if all.joints[done] == j { // it differs if two goroutines have made one each
			delete(all.joints, done)
		}
	})
	return j
}

// newJoint returns a joint that is not shared.
func (s *State) newJoint(parent context.Context) *joint {
	j := new(joint)
	j.ctx, j.cancel = context.WithCancelCause(parent)
	forget := s.OnEnd(Holders, j.cancel)
	context.AfterFunc(j.ctx, forget)
	return j
}
