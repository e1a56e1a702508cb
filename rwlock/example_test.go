package rwlock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/test/realzk"
	"github.com/zklocks/zklocks/rwlock"
	"github.com/zklocks/zklocks/zkconn"
)

// nightly rewrites the index while nobody reads it.
func nightly(ctx context.Context, servers []string) error {
	conn, err := zkconn.Connect(ctx, servers, 10*time.Second)
	if err != nil {
		return err
	}
	defer conn.Close()

	hold, err := rwlock.New(conn, "/examples/index").Lock(ctx) // ctx bounds the wait, not the hold
	if err != nil {
		return err
	}
	defer hold.Unlock(ctx) // gives it back, also when ctx has ended

	return rewrite(hold.Context(ctx), hold.Token()) // this context ends when the lock is lost
}

// rewrite stops when ctx ends, and hands token to the store with each write.
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

// exampleConn is what the other examples begin with.
func exampleConn(ctx context.Context) *zk.Conn {
	conn, err := zkconn.Connect(ctx, realzk.ExampleServers(), 10*time.Second)
	if err != nil {
		log.Fatal(err)
	}
	return conn
}

// Readers share the lock, and keep the writer out.
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

	first.Unlock(ctx)
	second.Unlock(ctx)
	writer, err := mu.Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("when they have gone:", writer.Held())
	writer.Unlock(ctx)
	// Output:
	// two readers: true
	// a writer: rwlock: try lock /examples/rlock: busy
	// when they have gone: true
}

// A wait that takes too long ends with its context, and leaves nothing in line.
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

	if err := hold.Unlock(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// rwlock: lock /examples/lock: context deadline exceeded
	// true
}

// The holder learns that the lock is gone, here because somebody has deleted the
// node by hand.
func ExampleHold_Context() {
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
	if err := conn.Delete("/examples/context/"+queue[0].Name, -1); err != nil {
		log.Fatal(err)
	}

	<-work.Done()
	fmt.Println("after:", context.Cause(work))
	fmt.Println(errors.Is(context.Cause(work), rwlock.ErrLost), hold.Held())
	fmt.Println(hold.Unlock(ctx))
	// Output:
	// before: <nil>
	// after: lock lost: its node was deleted
	// true false
	// rwlock: unlock /examples/context: lock lost: its node was deleted
}

// By default whoever reaches the servers can delete the node of a lock, and has
// taken the lock away. With a list of one's own nobody else can. What counts is
// the list of the directory; one that exists already keeps the list it has.
func ExampleWithACL() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	ann, err := zkconn.Connect(ctx, realzk.ExampleServers(), 10*time.Second, zkconn.WithDigestAuth("ann", "secret"))
	if err != nil {
		log.Fatal(err)
	}
	defer ann.Close()
	stranger := exampleConn(ctx)
	defer stranger.Close()

	for _, mu := range []*rwlock.RWMutex{
		rwlock.New(ann, "/example-open"),
		rwlock.New(ann, "/example-closed", rwlock.WithACL(zk.DigestACL(zk.PermAll, "ann", "secret"))),
	} {
		hold, err := mu.Lock(ctx)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("a stranger deletes the node:", stranger.Delete(hold.Guard().Path, -1))
		fmt.Println("the holder asks:", hold.Verify(ctx))
		hold.Unlock(ctx)
	}
	// Output:
	// a stranger deletes the node: <nil>
	// the holder asks: rwlock: verify /example-open: lock lost: its node was deleted
	// a stranger deletes the node: zk: not authenticated
	// the holder asks: <nil>
}

// fencedStore refuses whoever comes with a smaller token than it has seen.
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

// A store that compares tokens is safe from a holder that has lost the lock and
// does not know it yet.
func ExampleHold_Token() {
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
	// Its holder sleeps, and somebody clears the lock.
	queue, err := mu.Queue(ctx)
	if err != nil {
		log.Fatal(err)
	}
	if err := conn.Delete("/examples/token/"+queue[0].Name, -1); err != nil {
		log.Fatal(err)
	}

	next, err := mu.Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer next.Unlock(ctx)
	fmt.Println(store.write(next.Token(), "new"))
	fmt.Println(store.write(late.Token(), "old"))
	fmt.Println(store.text)
	// Output:
	// <nil>
	// refused: the lock has a newer holder
	// new
}

// A write to ZooKeeper itself needs no token: the guard in front of it makes the
// transaction fail once the lock is gone.
func ExampleHold_Guard() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn := exampleConn(ctx)
	defer conn.Close()
	mu := rwlock.New(conn, "/examples/guard")

	hold, err := mu.Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	guard := hold.Guard()
	note := &zk.CreateRequest{Path: "/examples/guard-note", Acl: zk.WorldACL(zk.PermAll), Flags: zk.FlagEphemeral}
	_, err = conn.Multi(guard, note)
	fmt.Println("while held:", err)

	if err := hold.Unlock(ctx); err != nil {
		log.Fatal(err)
	}
	_, err = conn.Multi(guard, &zk.SetDataRequest{Path: note.Path, Data: []byte("late"), Version: -1})
	fmt.Println("afterwards:", err)
	// Output:
	// while held: <nil>
	// afterwards: zk: node does not exist
}

// What was written can be read in place: no other writer comes in between.
func ExampleHold_Downgrade() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn := exampleConn(ctx)
	defer conn.Close()
	mu := rwlock.New(conn, "/examples/downgrade")

	hold, err := mu.Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer hold.Unlock(ctx)
	_, err = mu.TryRLock(ctx)
	fmt.Println("another reader:", err)

	if err := hold.Downgrade(ctx); err != nil {
		log.Fatal(err)
	}
	reader, err := mu.TryRLock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer reader.Unlock(ctx)
	fmt.Println("after the downgrade:", reader.Held() && hold.Held())
	// Output:
	// another reader: rwlock: try read lock /examples/downgrade: busy
	// after the downgrade: true
}
