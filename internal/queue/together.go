package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

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
// It is their turn when it is the turn of each. A turn that has come stays: no node gets ahead of
// one that exists. What can change until the last turn comes is that a node is deleted, that the
// number of permits shrinks, and that the connection is replaced. So each waits by itself, goes on
// to listen to the watches that it has when its turn has come (turnEnds), and at the end step 5 is
// done for all of them. A deletion that no watch reports is found there; the nodes that are left
// are deleted then, and all are created again, at the tail.

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
	// Own makes the caller the owner of the grant; nil: the lock has no owner.
	Own func(*Grant) Owner
}

// excludes reports whether the transaction of both would change what one of them checks, or queue
// twice in one directory.
func (p Part) excludes(q Part) bool {
	return p.Queue.dir == q.Queue.dir || p.Checked == q.Queue.dir || p.Queue.dir == q.Checked
}

// nameAll adds the paths of all locks to an error of an operation on them.
func nameAll(op string, parts []Part, err error) error {
	if err == nil {
		return nil
	}
	var paths []string
	for _, p := range parts {
		paths = append(paths, znode.Shown(p.Queue.cfg.Path))
	}
	return fmt.Errorf("zklocks: %s %s: %w", op, strings.Join(paths, " and "), err)
}

// Together grants the requests of several parts together, or none of them. wait is false for a call
// that is not to wait; op is what errors call it.
func Together(ctx context.Context, parts []Part, op string, wait bool) (*Joint, error) {
	j, err := together(ctx, parts, wait)
	if err != nil {
		return nil, nameAll(op, parts, err)
	}
	return j, nil
}

func together(ctx context.Context, parts []Part, wait bool) (*Joint, error) {
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
	events := make([]*HoldEvents, len(parts))
	for i, p := range parts {
		events[i] = p.Queue.NewEvents()
	}
	made, err := acquire(ctx, parts, wait)
	if err != nil {
		return nil, err
	}
	return newJoint(parts, made, events), nil
}

// waiters have nodes that one transaction has created, each in another directory.
type waiters []*waiter

// waitTurn waits until the nodes of all are granted, gone, or given up.
func (all waiters) waitTurn(ctx context.Context, wait bool) (turn, error) {
	if len(all) == 1 {
		return all[0].waitTurn(ctx, wait)
	}
	var behind waiters
	for _, w := range all {
		if err := w.usable(); err != nil {
			return failed, w.queue.Named(err)
		}
		if w.shortcut() != granted {
			behind = append(behind, w)
		}
	}
	var beside []string
	for _, w := range all {
		beside = append(beside, w.queue.paths(w.nodes)...)
	}
	for _, w := range behind {
		w.beside = beside
	}
	for len(behind) > 0 {
		next, err := all.waitEach(ctx, behind, wait)
		if next == granted {
			behind, next, err = all.confirm(ctx)
		}
		if next != granted {
			return next, err
		}
	}
	return granted, nil
}

// waitEach has each of the waiters that are behind list and wait, beside each other, until the turn
// of all has come. The first one that fails ends the waits of the others; so does one whose turn
// had come, if it finds later that it must not wait any longer.
func (all waiters) waitEach(ctx context.Context, behind waiters, wait bool) (next turn, err error) {
	type news struct {
		of   *waiter
		next turn
		err  error
	}
	heard := make(chan news)
	each, cancel := context.WithCancel(ctx)
	defer cancel()
	var running sync.WaitGroup
	for _, w := range all {
		came := !slices.Contains(behind, w)
		running.Go(func() {
			for !came || w.turnEnds(each) {
				if came {
					heard <- news{w, relist, nil}
				}
				next, err := w.waitListed(each, wait)
				heard <- news{w, next, err}
				if next != granted {
					return
				}
				came = true
			}
		})
	}
	go func() {
		running.Wait()
		close(heard)
	}()
	next = granted
	left := len(behind)
	for n := range heard {
		switch {
		case left == 0, next != granted: // what comes after the outcome changes nothing
		case n.next == granted:
			left--
		case n.next == relist:
			left++
		default:
			next, err = n.next, n.of.queue.Named(n.err)
		}
		if left == 0 || next != granted {
			cancel()
		}
	}
	if ended := zkclient.Ended(ctx); ended != nil && next == failed {
		return failed, ended // of no part
	}
	return next, err
}

// turnEnds waits until something happens after which the waiter must list, although its turn had
// come: the number of permits has changed, or a node of its own whose watch is set. It returns
// false when ctx ends.
func (w *waiter) turnEnds(ctx context.Context) bool {
	limit := w.limit.Changed
	look := lookOut(ctx, func(ctx context.Context) (turn, error) { return w.queue.sameLimit(ctx, limit), nil })
	defer look.stop()
	_, _, err := w.first(ctx, nil, look.found)
	return err == nil
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

// grants makes the waiters holders.
func (all waiters) grants() grants {
	made := make(grants, len(all))
	for i, w := range all {
		made[i] = newGrant(w)
	}
	return made
}
