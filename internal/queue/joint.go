package queue

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/hold"
	"github.com/zklocks/zklocks/observe"
)

// A Joint is a hold on several grants that were made together. Each grant notifies the observers of
// its own lock; only the observers of the first lock get the events of the create and the delete,
// which all share. The loss of one grant is the loss of the hold: its holders are notified, then
// the nodes of the others are deleted.
type Joint struct {
	parts  []Part
	grants grants
	owners []Owner // nil for a lock that has none
	calls  []*Call
	state  hold.State
	listen func() <-chan struct{} // of ReleaseRequested, made once
}

// An Owner is what a lock that counts holds knows of a grant that belongs to a Joint.
type Owner interface {
	// Context returns a context that carries the ownership.
	Context(parent context.Context) context.Context
	// End ends the hold, and reports whether it was the last one on the grant, which is to be
	// released then.
	End() (last bool)
}

func newJoint(parts []Part, made grants, calls []*Call) *Joint {
	j := &Joint{parts: parts, grants: made, owners: make([]Owner, len(parts)), calls: calls}
	j.state.Begin(j.look, nil)
	j.listen = sync.OnceValue(j.requests)
	j.state.OnEnd(hold.CleanUp, j.cleanUp)
	for i, g := range made {
		if own := parts[i].Own; own != nil {
			j.owners[i] = own(g)
		}
		j.state.Tie(&g.state)
		calls[i].Granted(g)
	}
	return j
}

// look returns why one of the grants has ended, or nil.
func (j *Joint) look() error {
	for _, g := range j.grants {
		if err := g.Err(); err != nil {
			return err
		}
	}
	return nil
}

// cleanUp is the phase hold.CleanUp: the loss of the hold is the loss of all its grants, which
// delete their nodes (invariant 4).
func (j *Joint) cleanUp(end error) {
	if errors.Is(end, hold.ErrLost) {
		for _, g := range j.grants {
			g.state.Lose(end)
		}
	}
}

// Release gives the grants back, in one transaction, but for one on which an Owner has another
// hold.
func (j *Joint) Release(ctx context.Context) error {
	bound := j.state.Bound(ctx)
	err := j.state.Release()
	if err == hold.ErrReleased {
		return nameAll("release", j.parts, err)
	}
	ctx, stop := bound.Context()
	defer stop()
	var last grants
	for i, g := range j.grants {
		if o := j.owners[i]; o == nil || o.End() {
			last = append(last, g)
		}
	}
	if left := last.release(ctx); err == nil {
		err = left
	}
	for _, c := range j.calls {
		c.Released(err)
	}
	return nameAll("release", j.parts, err)
}

// Err returns nil while all are held, and then what has ended the hold.
func (j *Joint) Err() error { return j.state.Look() }

// State returns the state of the hold, and has the nodes watched from now on.
func (j *Joint) State() *hold.State {
	for _, g := range j.grants {
		g.State()
	}
	return &j.state
}

// Context returns a context that ends with parent or with the hold. It carries the ownerships.
func (j *Joint) Context(parent context.Context) context.Context {
	ctx := j.State().Context(parent)
	for _, o := range j.owners {
		if o != nil {
			ctx = o.Context(ctx)
		}
	}
	return ctx
}

// Deadline is that of the grants, which have one session; the zero time if the hold has ended.
func (j *Joint) Deadline() time.Time {
	if j.Err() != nil {
		return time.Time{}
	}
	return j.grants[0].Deadline()
}

// Timeout returns the session timeout.
func (j *Joint) Timeout() time.Duration { return j.grants[0].Timeout() }

// Token is the czxid of all the nodes.
func (j *Joint) Token() int64 { return j.grants[0].token }

// Guard has checks that fail once one of the nodes is gone.
func (j *Joint) Guard() []*zk.CheckVersionRequest { return j.grants.guards() }

// Multi makes a transaction that takes place only while all the nodes exist.
func (j *Joint) Multi(ctx context.Context, ops ...any) ([]zk.MultiResponse, error) {
	replies, err := j.grants.multi(ctx, j.Err, ops)
	return replies, nameAll("multi", j.parts, err)
}

// Verify asks the quorum whether the nodes exist.
func (j *Joint) Verify(ctx context.Context) error {
	return nameAll("verify", j.parts, j.grants.verify(ctx, j.Err))
}

// Info has the paths of all the locks, and the kind of the first.
func (j *Joint) Info() observe.LockInfo {
	lock := j.grants[0].Info()
	lock.Path = pathsOf(j.parts)
	return lock
}

// Calls returns the calls of the locks, for their observers.
func (j *Joint) Calls() []*Call { return j.calls }

// In returns the grant in a queue; nil if the hold has none there.
func (j *Joint) In(q *Queue) *Grant {
	for i, p := range j.parts {
		if p.Queue == q {
			return j.grants[i]
		}
	}
	return nil
}
