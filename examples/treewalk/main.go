// Treewalk: a function takes a lock and calls itself for each child of a node, which takes the lock
// again, level by level. A goroutine of its own walks each branch of the root. It re-enters the
// lock with the context that Do passes to its function.
//
//	go run ./examples/treewalk -servers host:2181
//
// It fails (exit status 1) if another caller gets the lock during the walk, over another connection
// or on a goroutine without the context; if holds are miscounted; or if the lock's node is deleted
// before the last Release, or remains after it.
package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/examples/internal/crew"
	"github.com/zklocks/zklocks/reentrant"
)

func main() { crew.Main(lead, nil) }

// tree has the nodes below each node.
var tree = map[string][]string{"warehouse": {"fruit", "bread", "tea"}, "fruit": {"apples", "citrus"}, "citrus": {"lemons", "limes"}}

// walk visits a node and the nodes below it. Its hold must be hold number of goroutine by.
func walk(ctx context.Context, c *crew.Crew, mu *reentrant.Mutex, node, by string, number int) error {
	// The caller owns the lock already: this adds a hold, without a request.
	return zklocks.Do(ctx, mu.Lock, func(ctx context.Context, _ *zklocks.Hold) (err error) {
		if holds := mu.HoldCount(); holds != number {
			return fmt.Errorf("%s: %d holds, not %d", node, holds, number)
		}
		c.Note("%-10s goroutine %-6s hold %d", node, by, number)
		time.Sleep(100 * time.Millisecond) // the work
		errs := make(chan error, len(tree[node]))
		for _, below := range tree[node] {
			if by == "main" {
				go func() { errs <- walk(ctx, c, mu, below, below, 1) }()
			} else {
				errs <- walk(ctx, c, mu, below, by, number+1)
			}
		}
		for range tree[node] {
			err = errors.Join(err, <-errs)
		}
		return err
	})
}

// intrude tries to get the lock until ctx is canceled.
func intrude(ctx context.Context, c *crew.Crew, who string, mu *reentrant.Mutex) (refused int) {
	for ; ctx.Err() == nil; time.Sleep(5 * time.Millisecond) {
		if _, err := mu.TryLock(ctx); err == nil {
			c.Fail("%s got the lock during the walk", who)
		} else if errors.Is(err, zklocks.ErrBusy) {
			refused++
		}
	}
	return refused
}

func lead(ctx context.Context, c *crew.Crew) error {
	var locks [2]*reentrant.Mutex // two values for one path, each on its own connection
	for i := range locks {
		conn, err := zklocks.Connect(ctx, c.Servers, 5*time.Second)
		if err != nil {
			return err
		}
		defer conn.Close()
		locks[i] = reentrant.New(conn, c.Path)
	}
	mu, theirs := locks[0], locks[1]
	hold, err := mu.Lock(ctx)
	if err != nil {
		return err
	}
	during, cancel := context.WithCancel(ctx)
	refused := make(chan int)
	go func() { refused <- intrude(during, c, "a goroutine without the context", mu) }()
	go func() { refused <- intrude(during, c, "another connection", theirs) }()
	next := make(chan error, 1) // waits in the queue behind our node
	go func() { _, err := theirs.Lock(ctx); next <- err }()
	err = walk(ctx, c, mu, "warehouse", "main", 2)
	cancel()
	attempts := <-refused + <-refused
	if err != nil {
		return err
	}
	if queue, err := theirs.Queue(ctx); len(queue) < 2 || queue[0].Token != hold.Token() || len(next) > 0 {
		return fmt.Errorf("before the last Release our node is not the first of %d in the queue (%v)", len(queue), err)
	}
	released := time.Now()
	if err := errors.Join(hold.Release(ctx), <-next); err != nil {
		return fmt.Errorf("the last Release did not let the next one in: %w", err)
	}
	return c.Proved("a tree walked under one lock node; %d outsiders refused; the next waiter granted %v after the end",
		attempts, time.Since(released).Round(100*time.Microsecond))
}
