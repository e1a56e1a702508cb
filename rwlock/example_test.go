package rwlock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test/realzk"
	"github.com/zklocks/zklocks/rwlock"
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

// rewrite stops when ctx ends, and passes token to the store with each write.
func rewrite(ctx context.Context, token int64) error {
	for part := range 3 {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		fmt.Println("part", part, "is written, with a token:", token > 0)
	}
	return nil
}

// One process rewrites what others read. It stops when it loses the lock.
func Example() {
	servers := realzk.ExampleServers() // like []string{"zk1:2181", "zk2:2181", "zk3:2181"}

	if err := nightly(context.Background(), servers); err != nil {
		log.Fatal(err)
	}
	// Output:
	// part 0 is written, with a token: true
	// part 1 is written, with a token: true
	// part 2 is written, with a token: true
}

// exampleConn returns the connection of the other examples.
func exampleConn(ctx context.Context) *zklocks.Conn {
	conn, err := zklocks.Connect(ctx, realzk.ExampleServers(), 10*time.Second)
	if err != nil {
		log.Fatal(err)
	}
	return conn
}

// Readers share the lock, and no writer is granted it.
func ExampleRWMutex_RLock() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn := exampleConn(ctx)
	defer conn.Close()
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

// A holder that is asked to give the lock up does so when it can.
func Example_requestRelease() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn := exampleConn(ctx)
	defer conn.Close()
	mu := rwlock.New(conn, "/examples/request")

	hold, err := mu.Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}

	// Any process can ask.
	queue, err := mu.Queue(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for _, member := range queue {
		if member.Holding {
			if err := conn.RequestRelease(ctx, member); err != nil {
				log.Fatal(err)
			}
		}
	}

	select {
	case <-hold.ReleaseRequested():
		fmt.Println("asked, and still held:", hold.Held())
	case <-hold.Lost():
		log.Fatal(hold.Err())
	}
	fmt.Println("released:", hold.Release(ctx) == nil)
	// Output:
	// asked, and still held: true
	// released: true
}

// A wait that takes too long ends with its context, and leaves nothing in the queue.
func ExampleRWMutex_Lock() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn := exampleConn(ctx)
	defer conn.Close()
	mu := rwlock.New(conn, "/examples/lock")

	hold, err := mu.Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}

	short, stop := context.WithTimeout(ctx, 50*time.Millisecond)
	defer stop()
	_, err = mu.Lock(short)
	fmt.Println(err)
	fmt.Println(errors.Is(err, context.DeadlineExceeded))

	if err := hold.Release(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// rwlock: lock /examples/lock: context deadline exceeded
	// true
}

// The holder learns that the lock is gone, here because an operator has deleted its node by hand.
func Example_context() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn := exampleConn(ctx)
	defer conn.Close()
	mu := rwlock.New(conn, "/examples/context")

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
	fmt.Println(errors.Is(hold.Err(), zklocks.ErrLost), hold.Held())
	fmt.Println(hold.Release(ctx))
	// Output:
	// before: <nil>
	// after: rwlock: hold /examples/context: lock lost: its node was deleted
	// true false
	// rwlock: release /examples/context: lock lost: its node was deleted
}

// By default every client of the servers can delete the node of a lock, and so take the lock away.
// With an access control list only the clients that it names can. What counts is the list of the
// directory; a directory that exists already keeps the list it has.
func Example_withACL() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	ann, err := zklocks.Connect(ctx, realzk.ExampleServers(), 10*time.Second, zklocks.WithDigestAuth("ann", "secret"))
	if err != nil {
		log.Fatal(err)
	}
	defer ann.Close()
	stranger := exampleConn(ctx)
	defer stranger.Close()

	for _, mu := range []*rwlock.RWMutex{
		rwlock.New(ann, "/example-open"),
		rwlock.New(ann, "/example-closed", zklocks.WithACL(zk.DigestACL(zk.PermAll, "ann", "secret"))),
	} {
		hold, err := mu.Lock(ctx)
		if err != nil {
			log.Fatal(err)
		}
		queue, err := mu.Queue(ctx)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("a stranger deletes the node:", stranger.Client().Delete(queue[0].Path, -1))
		fmt.Println("the holder asks:", hold.Verify(ctx))
		hold.Release(ctx)
	}
	// Output:
	// a stranger deletes the node: <nil>
	// the holder asks: rwlock: verify /example-open: lock lost: its node was deleted
	// a stranger deletes the node: zk: not authenticated
	// the holder asks: <nil>
}

// fencedStore refuses a write with a smaller token than it has seen.
type fencedStore struct {
	newest int64
	text   string
}

func (s *fencedStore) write(token int64, text string) error {
	if token < s.newest {
		return errors.New("refused: the lock has a newer holder")
	}
	s.newest, s.text = token, text
	return nil
}

// A store that compares tokens is safe from a holder that has lost the lock and does not know it
// yet.
func Example_token() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn := exampleConn(ctx)
	defer conn.Close()
	mu := rwlock.New(conn, "/examples/token")
	var store fencedStore

	late, err := mu.Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	// The holder is not running, and an operator deletes its node.
	queue, err := mu.Queue(ctx)
	if err != nil {
		log.Fatal(err)
	}
	if err := conn.Client().Delete(queue[0].Path, -1); err != nil {
		log.Fatal(err)
	}

	next, err := mu.Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer next.Release(ctx)
	fmt.Println(store.write(next.Token(), "new"))
	fmt.Println(store.write(late.Token(), "old"))
	fmt.Println(store.text)
	// Output:
	// <nil>
	// refused: the lock has a newer holder
	// new
}

// A write to ZooKeeper itself needs no token: a transaction of the hold fails once the lock is
// gone.
func Example_multi() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn := exampleConn(ctx)
	defer conn.Close()

	hold, err := rwlock.New(conn, "/examples/multi").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	note := &zk.CreateRequest{Path: "/examples/multi-note", Acl: zk.WorldACL(zk.PermAll), Flags: zk.FlagEphemeral}
	made, err := hold.Multi(ctx, note)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("while held:", made[0].String)

	_, err = hold.Multi(ctx, &zk.DeleteRequest{Path: "/examples/no-such-note", Version: -1})
	fmt.Println("a node that is missing:", err)

	if err := hold.Release(ctx); err != nil {
		log.Fatal(err)
	}
	_, err = hold.Multi(ctx, &zk.SetDataRequest{Path: note.Path, Data: []byte("late"), Version: -1})
	fmt.Println("afterwards:", err)
	// Output:
	// while held: /examples/multi-note
	// a node that is missing: rwlock: multi /examples/multi: zk: node does not exist
	// afterwards: rwlock: multi /examples/multi: lock already released
}

// A transaction that takes two locks at once has the guards of both. All callers must lock the two
// in one order; where the order may differ, lock them by zklocks.All, whose hold checks both.
func Example_guard() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn := exampleConn(ctx)
	defer conn.Close()

	from, err := rwlock.New(conn, "/examples/from").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer from.Release(ctx)
	to, err := rwlock.New(conn, "/examples/to").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}

	note := &zk.CreateRequest{Path: "/examples/guard-note", Acl: zk.WorldACL(zk.PermAll), Flags: zk.FlagEphemeral}
	_, err = conn.Client().Multi(from.Guard(to.Guard(note)...)...)
	fmt.Println("while both are held:", err)

	if err := to.Release(ctx); err != nil {
		log.Fatal(err)
	}
	late := &zk.SetDataRequest{Path: note.Path, Data: []byte("late"), Version: -1}
	_, err = conn.Client().Multi(from.Guard(to.Guard(late)...)...)
	fmt.Println("when one is released:", err)
	// Output:
	// while both are held: <nil>
	// when one is released: zk: node does not exist
}

// The process can read what it has written: no other writer is granted the lock in between.
func ExampleRWMutex_Downgrade() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn := exampleConn(ctx)
	defer conn.Close()
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
