package reentrant_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/reentrant"
	"github.com/zklocks/zklocks/zktest"
)

// clean removes a tree, and calls itself for its branches.
func clean(ctx context.Context, mu *reentrant.Mutex, depth int) error {
	return zklocks.Do(ctx, mu.Lock, func(ctx context.Context, hold *zklocks.Hold) error {
		if depth == 0 {
			return leaf(ctx, hold.Token()) // this ctx ends when the lock is lost, too
		}
		return clean(ctx, mu, depth-1)
	})
}

// leaf stops when ctx is canceled, and passes token to the store with each write.
func leaf(ctx context.Context, token int64) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	fmt.Println("a leaf is removed, with a token:", token > 0)
	return nil
}

// A function takes the lock and calls itself. Only the first call sends requests.
func Example() {
	ctx := context.Background()
	t, end := zktest.ForExample()
	defer end()
	servers := zktest.NewServer(t).ListenTCP(t) // like []string{"zk1:2181", "zk2:2181", "zk3:2181"}
	conn, err := zklocks.Connect(ctx, servers, 10*time.Second)
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()

	mu := reentrant.New(conn, "/examples/tree")
	if err := clean(ctx, mu, 3); err != nil {
		log.Fatal(err)
	}
	fmt.Println("holds left:", mu.HoldCount())
	// Output:
	// a leaf is removed, with a token: true
	// holds left: 0
}

// Each Lock returns its own hold. The lock is free when the last is released.
func ExampleMutex_HoldCount() {
	ctx := context.Background()
	t, end := zktest.ForExample()
	defer end()
	conn := zktest.NewServer(t).Host("here").Connect(t, 10*time.Second) // zklocks.Connect in a program
	mu := reentrant.New(conn, "/examples/holds")

	outer, err := mu.Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	inner, err := mu.Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(mu.HoldCount())

	inner.Release(ctx)
	fmt.Println(mu.HoldCount(), inner.Held(), outer.Held())

	outer.Release(ctx)
	fmt.Println(mu.HoldCount(), outer.Held())
	// Output:
	// 2
	// 1 false true
	// 0 false
}

// Another goroutine is another owner, unless it has the hold's context.
func ExampleMutex_TryLock() {
	ctx := context.Background()
	t, end := zktest.ForExample()
	defer end()
	conn := zktest.NewServer(t).Host("here").Connect(t, 10*time.Second) // zklocks.Connect in a program
	mu := reentrant.New(conn, "/examples/owner")

	hold, err := mu.Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer hold.Release(ctx)

	done := make(chan bool)
	go func() {
		defer close(done)
		_, err := mu.TryLock(ctx)
		fmt.Println("a stranger:", err)

		helper, err := mu.TryLock(hold.Context(ctx))
		if err != nil {
			log.Fatal(err)
		}
		defer helper.Release(ctx)
		fmt.Println("a helper:", helper.Held())
	}()
	<-done
	// Output:
	// a stranger: reentrant: try lock /examples/owner: busy
	// a helper: true
}

// An operator deletes the holder's node by hand: the hold is lost. Its owner cannot enter again
// before it has released its holds.
func Example_context() {
	ctx := context.Background()
	t, end := zktest.ForExample()
	defer end()
	conn := zktest.NewServer(t).Host("here").Connect(t, 10*time.Second) // zklocks.Connect in a program
	mu := reentrant.New(conn, "/examples/context")

	hold, err := mu.Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	work := hold.Context(ctx)
	fmt.Println("before:", work.Err())

	queue, err := mu.Queue(ctx)
	if err != nil {
		log.Fatal(err)
	}
	if err := conn.Client().Delete(queue[0].Path, -1); err != nil {
		log.Fatal(err)
	}

	<-work.Done()
	fmt.Println("after:", context.Cause(work))
	_, err = mu.Lock(ctx)
	fmt.Println(err)
	fmt.Println(errors.Is(hold.Release(ctx), zklocks.ErrLost))

	hold, err = mu.Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("again:", hold.Held())
	hold.Release(ctx)
	// Output:
	// before: <nil>
	// after: reentrant: hold /examples/context: lock lost: its node was deleted
	// reentrant: lock /examples/context: lock lost: its node was deleted
	// true
	// again: true
}
