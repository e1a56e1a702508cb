package queue

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/zklocks/zklocks/internal/zkclient"
	"github.com/zklocks/zklocks/internal/znode"
)

// Several requests, each in the queue of another directory, are granted together or not at all. One
// transaction creates the nodes of all of them. If the callers hold no other lock meanwhile:
//
//   - No deadlock. In every directory a node of an earlier transaction has a smaller number: the
//     server takes the numbers from a counter of the directory that grows with each create. A
//     waiter waits only for nodes with smaller numbers, so only for older transactions, in whatever
//     directory. In a circle of waiters each would be older than itself; and the oldest waits for
//     holders alone. A downgrade keeps the number of its node.
//   - First come, first served, over all directories at once, as Calvin orders its locks (Thomson
//     et al., SIGMOD 2012).
//   - All or nothing, also when the process dies or a reply is lost: one transaction creates the
//     nodes, and the end of their session deletes them in one, too.
//
// It is their turn when it is the turn of each. A turn that has come stays: no node gets ahead of a
// node that exists. So they list and watch side by side, and then wait in one queue after the
// other. Until the last turn comes a node may be deleted, the number of permits may shrink, and the
// connection may be replaced. So at the end step 5 is done for all of them, and those that it does
// not grant list again. If a node is gone, the others are deleted, and all are created again, at
// the tail.

// A Part is a request in its queue: one, or one of several that are granted together. What follows
// the Request is for several.
type Part struct {
	Queue *Queue
	Request
	// Wrong is what is wrong with the arguments of the request, or nil.
	Wrong error
	// Ready refuses a caller for whom the lock is not to be had, before anything is created; nil:
	// no caller is refused.
	Ready func(ctx context.Context, wait bool) error
	// Own makes the caller the owner of the nodes in the queue; nil: the lock has no owner.
	Own func(*Grant) Owner
}

// excludes reports whether the transaction of both would change what one of them checks, or queue
// twice in one directory.
func (p Part) excludes(q Part) bool {
	return p.Queue.dir == q.Queue.dir || p.Checked == q.Queue.dir || p.Queue.dir == q.Checked
}

func pathsOf(parts []Part) string {
	var paths []string
	for _, p := range parts {
		paths = append(paths, znode.Shown(p.Queue.cfg.Path))
	}
	return strings.Join(paths, " and ")
}

// Together begins a hold on the nodes of several parts, which are granted together, or none of them
// is. wait is false for a call that is not to wait; op is what errors call it.
func (h *Hold) Together(ctx context.Context, parts []Part, op string, wait bool) error {
	var calls *Call
	last := &calls
	for _, p := range parts {
		if c := p.Queue.Call(ctx, p.Request); c != nil {
			*last = c
			last = &c.next
		}
	}
	g, err := together(ctx, parts, wait)
	if err != nil {
		err = nameAll(op, pathsOf(parts), err)
		calls.failed(err)
		return err
	}
	g.paths = pathsOf(parts)
	all := make(owners, len(parts))
	for i, p := range parts {
		if p.Own != nil {
			all[i] = p.Own(g)
		}
	}
	h.Begin(g, nil, all, calls)
	return nil
}

func together(ctx context.Context, parts []Part, wait bool) (*Grant, error) {
	if err := zkclient.Ended(ctx); err != nil {
		return nil, err
	}
	for i, p := range parts {
		err := p.Queue.err
		switch {
		case err != nil:
		case p.Wrong != nil:
			err = p.Wrong
		case !p.Queue.client.Same(parts[0].Queue.client):
			err = errors.New("its connection is not that of the first lock")
		case slices.ContainsFunc(parts[:i], p.excludes):
			err = errors.New("the lock is given twice")
		}
		if err != nil {
			return nil, p.Queue.Named(err)
		}
	}
	for _, p := range parts {
		if p.Ready == nil {
			continue
		}
		if err := p.Ready(ctx, wait); err != nil {
			return nil, p.Queue.Named(err)
		}
	}
	return acquire(ctx, parts, wait)
}

// waiters have nodes that one transaction has created, each in another directory.
type waiters []*waiter

// waitTurn waits until the nodes of all are granted, gone, or given up: in one queue after the
// other, since a turn that has come stays.
func (all waiters) waitTurn(ctx context.Context, wait bool) (turn, error) {
	if len(all) == 1 {
		return all[0].waitTurn(ctx, wait)
	}
	var behind waiters
	var own []string
	for _, w := range all {
		if err := w.usable(); err != nil {
			return failed, w.queue.Named(err)
		}
		if w.shortcut() != granted {
			behind = append(behind, w)
		}
		own = append(own, w.queue.paths(w.nodes)...)
	}
	for len(behind) > 0 {
		looks := make([]looked, len(behind))
		var beside sync.WaitGroup
		for i, w := range behind {
			w.beside = own
			beside.Go(func() { looks[i] = w.look(ctx, wait) })
		}
		beside.Wait()
		for i, w := range behind {
			if next, err := w.await(ctx, wait, looks[i]); next != granted {
				if zkclient.Ended(ctx) == nil {
					err = w.queue.Named(err)
				}
				return next, err
			}
			w.ahead.Store(0)
		}
		if behind = all.old(); len(behind) > 0 {
			continue
		}
		var next turn
		var err error
		if behind, next, err = all.confirm(ctx); next != granted {
			return next, err
		}
	}
	return granted, nil
}

// old returns the waiters that listed long ago: the event of a change since then may have been
// withheld, see FirstRecheck.
func (all waiters) old() (old waiters) {
	for _, w := range all {
		if time.Since(w.listed) > FirstRecheck {
			w.limit.forget()
			old = append(old, w)
		}
	}
	return old
}

// confirm is step 5 for all (invariant 1). While one waited for its turn the node of another may
// have been deleted. behind are those that have to list again.
func (all waiters) confirm(ctx context.Context) (behind waiters, next turn, err error) {
	var paths []string
	for _, w := range all {
		paths = append(paths, w.queue.paths(w.nodes)...)
	}
	own, err := all[0].queue.client.WatchNodes(ctx, all[0].sess, "", paths)
	switch {
	case errors.Is(err, zkclient.ErrOver):
		return nil, requeue, err
	case err != nil:
		return nil, failed, Explain(err, "READ on "+paths[0])
	}
	for _, w := range all {
		next, err := w.exists(ctx, own[:len(w.nodes)])
		own = own[len(w.nodes):]
		if next == pending {
			next, err = w.confirm()
		}
		switch next {
		case granted:
		case relist:
			behind = append(behind, w)
		default:
			return nil, next, w.queue.Named(err)
		}
	}
	return behind, granted, nil
}
