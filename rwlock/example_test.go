package rwlock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/rwlock"
	"github.com/zklocks/zklocks/zktest"
)

// nightly rewrites the index while no other process reads or writes it.
func nightly(ctx context.Context, servers []string) error {
	conn, err := zklocks.Connect(ctx, servers, 10*time.Second)
	if err != nil {
		return err
	}
	defer conn.Close()

	lock := rwlock.New(conn, "/examples/index")
	return zklocks.Do(ctx, lock.Lock, func(ctx context.Context, hold *zklocks.Hold) error {
		return rewrite(ctx, hold.Token()) // this ctx ends when the lock is lost, too
	})
}

// rewrite stops when ctx is canceled, and passes token to the store with each write.
func rewrite(ctx context.Context, token int64) error {
	for part := range 3 {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		fmt.Println("part", part, "is written, with a token:", token > 0)
	}
	return nil
}

// One process rewrites what others read. It stops if it loses the lock.
func Example() {
	t, end := zktest.ForExample()
	defer end()
	servers := zktest.NewServer(t).ListenTCP(t) // like []string{"zk1:2181", "zk2:2181", "zk3:2181"}

	if err := nightly(context.Background(), servers); err != nil {
		log.Fatal(err)
	}
	// Output:
	// part 0 is written, with a token: true
	// part 1 is written, with a token: true
	// part 2 is written, with a token: true
}

// Readers share the lock, and no writer is granted it.
func ExampleRWMutex_RLock() {
	ctx := context.Background()
	t, end := zktest.ForExample()
	defer end()
	conn := zktest.NewServer(t).Host("here").Connect(t, 10*time.Second) // zklocks.Connect in a program
	mu := rwlock.New(conn, "/examples/rlock")

	first, err := mu.RLock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	second, err := mu.RLock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("two readers:", first.Held() && second.Held())

	_, err = mu.TryLock(ctx)
	fmt.Println("a writer:", err)

	first.Release(ctx)
	second.Release(ctx)
	writer, err := mu.Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("after both are released:", writer.Held())
	writer.Release(ctx)
	// Output:
	// two readers: true
	// a writer: rwlock: try lock /examples/rlock: busy
	// after both are released: true
}

// A wait that takes too long is canceled by its context, and its node is deleted.
func ExampleRWMutex_Lock() {
	ctx := context.Background()
	t, end := zktest.ForExample()
	defer end()
	conn := zktest.NewServer(t).Host("here").Connect(t, 10*time.Second) // zklocks.Connect in a program
	mu := rwlock.New(conn, "/examples/lock")

	hold, err := mu.Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}

	short, stop := context.WithTimeout(ctx, 50*time.Millisecond)
	defer stop()
	_, err = mu.Lock(short) // the error says how many are ahead in the queue
	fmt.Println(errors.Is(err, context.DeadlineExceeded))

	if err := hold.Release(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// true
}

// The process can read what it has written: no other writer is granted the lock in between.
func ExampleRWMutex_Downgrade() {
	ctx := context.Background()
	t, end := zktest.ForExample()
	defer end()
	conn := zktest.NewServer(t).Host("here").Connect(t, 10*time.Second) // zklocks.Connect in a program
	mu := rwlock.New(conn, "/examples/downgrade")

	hold, err := mu.Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer hold.Release(ctx)
	_, err = mu.TryRLock(ctx)
	fmt.Println("another reader:", err)

	if err := mu.Downgrade(ctx, hold); err != nil {
		log.Fatal(err)
	}
	reader, err := mu.TryRLock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer reader.Release(ctx)
	fmt.Println("after the downgrade:", reader.Held() && hold.Held())
	// Output:
	// another reader: rwlock: try read lock /examples/downgrade: busy
	// after the downgrade: true
}
