package semaphore_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/semaphore"
	"github.com/zklocks/zklocks/zktest"
)

// convert runs one job; at most four jobs run at once, over all machines.
func convert(ctx context.Context, servers []string) error {
	conn, err := zklocks.Connect(ctx, servers, 10*time.Second)
	if err != nil {
		return err
	}
	defer conn.Close()

	sem := semaphore.New(conn, "/examples/convert", 4)
	one := sem.Locker(1)
	return zklocks.Do(ctx, one.Lock, func(ctx context.Context, hold *zklocks.Hold) error {
		return job(ctx) // this ctx ends when the permit is lost, too
	})
}

// job stops when ctx is canceled.
func job(ctx context.Context) error {
	for step := range 2 {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		fmt.Println("step", step)
	}
	return nil
}

// A job that runs only while it has a permit.
func Example() {
	t, end := zktest.ForExample()
	defer end()
	servers := zktest.NewServer(t).ListenTCP(t) // like []string{"zk1:2181", "zk2:2181", "zk3:2181"}

	if err := convert(context.Background(), servers); err != nil {
		log.Fatal(err)
	}
	// Output:
	// step 0
	// step 1
}

// Acquire waits until as many permits are free, and takes them together.
func ExampleSemaphore_Acquire() {
	ctx := context.Background()
	t, end := zktest.ForExample()
	defer end()
	conn := zktest.NewServer(t).Host("here").Connect(t, 10*time.Second) // zklocks.Connect in a program
	sem := semaphore.New(conn, "/examples/memory", 16)                  // gigabytes, over all machines

	hold, err := sem.Acquire(ctx, 6)
	if err != nil {
		log.Fatal(err)
	}
	defer hold.Release(ctx)
	used := 0
	members, err := sem.Queue(ctx)
	for _, m := range members {
		used += m.Permits
	}
	fmt.Println(used, err)
	// Output:
	// 6 <nil>
}

// Several permits are granted together or not at all.
func ExampleSemaphore_TryAcquire() {
	ctx := context.Background()
	t, end := zktest.ForExample()
	defer end()
	conn := zktest.NewServer(t).Host("here").Connect(t, 10*time.Second) // zklocks.Connect in a program
	sem := semaphore.New(conn, "/examples/try-acquire", 4)

	three, err := sem.TryAcquire(ctx, 3)
	if err != nil {
		log.Fatal(err)
	}
	_, err = sem.TryAcquire(ctx, 2)
	fmt.Println("two more:", err)

	one, err := sem.TryAcquire(ctx, 1)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("one more:", one.Held())

	one.Release(ctx)
	three.Release(ctx)
	// Output:
	// two more: semaphore: try acquire /examples/try-acquire: busy
	// one more: true
}

// All processes must agree on the number of permits. With 0 any stored number is used.
func ExampleNew() {
	ctx := context.Background()
	t, end := zktest.ForExample()
	defer end()
	conn := zktest.NewServer(t).Host("here").Connect(t, 10*time.Second) // zklocks.Connect in a program

	hold, err := semaphore.New(conn, "/examples/number", 4).Acquire(ctx, 1)
	if err != nil {
		log.Fatal(err)
	}
	defer hold.Release(ctx)

	_, err = semaphore.New(conn, "/examples/number", 5).Acquire(ctx, 1)
	fmt.Println(errors.Is(err, semaphore.ErrMismatch))

	stored, err := semaphore.New(conn, "/examples/number", 0).Acquire(ctx, 3)
	if err != nil {
		log.Fatal(err)
	}
	defer stored.Release(ctx)
	fmt.Println(stored.Held())
	// Output:
	// true
	// true
}

// With WithStoredPermits a program that starts after a Resize uses the new number.
func ExampleWithStoredPermits() {
	ctx := context.Background()
	t, end := zktest.ForExample()
	defer end()
	conn := zktest.NewServer(t).Host("here").Connect(t, 10*time.Second) // zklocks.Connect in a program
	if err := semaphore.New(conn, "/examples/stored", 4).Resize(ctx, 2); err != nil {
		log.Fatal(err)
	}

	sem := semaphore.New(conn, "/examples/stored", 4, semaphore.WithStoredPermits())
	both, err := sem.TryAcquire(ctx, 2)
	if err != nil {
		log.Fatal(err)
	}
	defer both.Release(ctx)
	_, err = sem.TryAcquire(ctx, 3)
	fmt.Println(errors.Is(err, semaphore.ErrTooMany))
	// Output: true
}

// Waiters are granted new permits at once.
func ExampleSemaphore_Resize() {
	ctx := context.Background()
	t, end := zktest.ForExample()
	defer end()
	conn := zktest.NewServer(t).Host("here").Connect(t, 10*time.Second) // zklocks.Connect in a program
	sem := semaphore.New(conn, "/examples/resize", 0)
	if err := sem.Resize(ctx, 1); err != nil {
		log.Fatal(err)
	}
	first, err := sem.Acquire(ctx, 1)
	if err != nil {
		log.Fatal(err)
	}
	defer first.Release(ctx)

	second := make(chan *zklocks.Hold, 1)
	go func() {
		hold, err := sem.Acquire(ctx, 1)
		if err != nil {
			log.Fatal(err)
		}
		second <- hold
	}()
	if err := sem.Resize(ctx, 2); err != nil {
		log.Fatal(err)
	}
	hold := <-second
	defer hold.Release(ctx)
	fmt.Println(first.Held(), hold.Held())
	// Output: true true
}
