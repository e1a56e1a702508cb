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
//     waiter waits only for nodes with smaller numbers, so only for older transactions, in every
//     directory. In a circle of waiters each would be older than itself; and the oldest transaction
//     waits for holders alone. A downgrade keeps the number of its node.
//   - First come, first served, over all directories at once, as Calvin orders its locks (Thomson
//     et al., SIGMOD 2012).
//   - All or nothing, also when the process dies or a reply is lost: one transaction creates the
//     nodes, and the end of their session deletes them in one transaction, too.
//
// The requests are granted when it is the turn of each. A turn that has come remains: no node gets
// ahead of a node that exists. So the waiters list and watch concurrently, and then wait in one
// queue after the other. Before the last turn comes, a node may be deleted, the number of permits
// may shrink, and the connection may be replaced. So at the end step 5 is done for all waiters, and
// those that it refuses list again. If a node is gone, the others are deleted, and all are created
// again, at the tail.

// A Part is a request in its queue, alone or together with others. The fields after Request are
// used only together with others.
type Part struct {
	Queue *Queue
	Request
	// Ready returns an error if the caller cannot get the lock, before anything is created; nil:
	// every caller can.
	Ready func(ctx context.Context) error
	// Own makes the caller the owner of the nodes in the queue; nil: the lock has no owner.
	Own func(*Grant) Owner
}

// excludes reports whether one transaction for both parts would queue twice in one directory, or
// change what one of them checks.
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

// Together acquires several parts, which are granted together or not at all. op is the operation in
// errors. The results are for Hold.Begin.
func Together(ctx context.Context, parts []Part, op string, wait bool) (*Grant, Leaver, Call, error) {
	var call Call
	for _, p := range parts {
		call = append(call, p.Queue.Call(ctx, p.Request)...)
	}
	g, err := together(ctx, parts, wait)
	if err != nil {
		err = nameAll(op, pathsOf(parts), err)
		call.failed(err)
		return nil, nil, nil, err
	}
	g.paths = pathsOf(parts)
	all := make(owners, len(parts))
	for i, p := range parts {
		if p.Own != nil {
			all[i] = p.Own(g)
		}
	}
	return g, all, call, nil
}

func together(ctx context.Context, parts []Part, wait bool) (*Grant, error) {
	if err := zkclient.Ended(ctx); err != nil {
		return nil, err
	}
	for i, p := range parts {
		err := p.Queue.err
		switch {
		case err != nil:
		case !p.Queue.client.Same(parts[0].Queue.client):
			err = errors.New("its connection is not that of the first lock")
		case slices.ContainsFunc(parts[:i], p.excludes):
			err = errors.New("the lock is given twice")
		case p.Ready != nil:
			err = p.Ready(ctx)
		}
		if err != nil {
			return nil, p.Queue.named(ctx, err)
		}
	}
	if len(parts) == 1 {
		return parts[0].Queue.Join(ctx, parts[0].Request, wait)
	}
	return acquireAll(ctx, parts, wait)
}

// acquireAll is Queue.Join for several parts.
func acquireAll(ctx context.Context, parts []Part, wait bool) (*Grant, error) {
	for {
		all, at, err := enqueue(ctx, parts, wait)
		if err == nil {
			if at, err = all.waitTurns(ctx, wait); err == nil {
				return newGrant(all), nil
			}
		}
		if at != nil {
			err = at.named(ctx, err)
		}
		if all != nil {
			err = all.leave(ctx, err)
		}
		if !startsOver(err) {
			return nil, parts[0].Queue.client.ExplainSilence(ctx, err)
		}
	}
}

// waitTurns returns when it is the turn of all. It waits in one queue after the other, because no
// node gets ahead of a waiter whose turn has come. If an error concerns one of the locks, waitTurns
// also returns the queue of that lock.
func (all waiters) waitTurns(ctx context.Context, wait bool) (at *Queue, err error) {
	var behind waiters
	for _, w := range all {
		next, err := w.shortcut()
		if err != nil {
			return w.queue, err
		}
		if next != granted {
			behind = append(behind, w)
		}
	}
	for len(behind) > 0 {
		found, errs := make([]*blockers, len(behind)), make([]error, len(behind))
		var listings sync.WaitGroup
		for i := range behind {
			listings.Go(func() { found[i], errs[i] = behind[i].compare(ctx, wait) })
		}
		listings.Wait()
		for i, w := range behind {
			next, err := relist, errs[i]
			if err == nil {
				next, err = w.await(ctx, found[i])
			}
			if err == nil {
				err = w.lineUp(ctx, wait, next)
			}
			if err != nil {
				return w.queue, err
			}
		}
		if behind, at, err = all.confirm(ctx); err != nil {
			return at, err
		}
	}
	return nil, nil
}

// confirm is step 5 for several waiters (invariant 1): while one waiter waited for its turn, a node
// of another may have been deleted. It returns, as behind, the waiters that have to list again. If
// some waiters listed more than FirstRecheck ago, these list first, because the server may have
// withheld an event. For the result at see waitTurns.
func (all waiters) confirm(ctx context.Context) (behind waiters, at *Queue, err error) {
	for _, w := range all {
		if time.Since(w.listed) > FirstRecheck {
			w.limit.forget()
			behind = append(behind, w)
		}
	}
	if len(behind) > 0 {
		return behind, nil, nil
	}
	var paths []string
	for _, w := range all {
		paths = append(paths, w.queue.paths(w.nodes)...)
	}
	own, err := all[0].queue.client.WatchNodes(ctx, all[0].sess, "", paths)
	if err != nil {
		return nil, nil, Explain(err, "READ on "+paths[0])
	}
	for _, w := range all {
		next, err := relist, w.exists(ctx, own[:len(w.nodes)])
		own = own[len(w.nodes):]
		if err == nil {
			next, err = w.recheck()
		}
		if err != nil {
			return nil, w.queue, err
		}
		if next == relist {
			behind = append(behind, w)
		}
	}
	return behind, nil, nil
}
