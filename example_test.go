package zklocks_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/rwlock"
	"github.com/zklocks/zklocks/zktest"
)

// Do returns the error of the work. If the lock was lost meanwhile, the error matches ErrLost, too.
func ExampleDo() {
	ctx := context.Background()
	t, end := zktest.ForExample()
	defer end()
	conn := zktest.NewServer(t).Host("here").Connect(t, 10*time.Second) // zklocks.Connect in a program
	lock := rwlock.New(conn, "/jobs/report")

	err := zklocks.Do(ctx, lock.Lock, func(ctx context.Context, hold *zklocks.Hold) error {
		fmt.Println("holding:", hold.Held()) // pass ctx on: it is canceled when the lock is lost
		return ctx.Err()
	})
	switch {
	case errors.Is(err, zklocks.ErrLost):
		log.Print("another process may have begun the report: ", err)
	case err != nil:
		log.Fatal(err)
	}
	// Output:
	// holding: true
}

// The limit applies to the wait for the lock. The work may take as long as it needs.
func ExampleWithin() {
	ctx := context.Background()
	t, end := zktest.ForExample()
	defer end()
	conn := zktest.NewServer(t).Host("here").Connect(t, 10*time.Second) // zklocks.Connect in a program
	lock := rwlock.New(conn, "/jobs/nightly")
	work := func(ctx context.Context, hold *zklocks.Hold) error {
		time.Sleep(200 * time.Millisecond) // longer than the limit
		fmt.Println("done:", ctx.Err() == nil && hold.Held())
		return nil
	}

	other, err := lock.Lock(ctx) // another caller has the lock
	if err != nil {
		log.Fatal(err)
	}
	err = zklocks.Do(ctx, zklocks.Within(100*time.Millisecond, lock.Lock), work)
	fmt.Println("too late:", errors.Is(err, context.DeadlineExceeded))

	if err := other.Release(ctx); err != nil {
		log.Fatal(err)
	}
	err = zklocks.Do(ctx, zklocks.Within(100*time.Millisecond, lock.Lock), work)
	fmt.Println(err)
	// Output:
	// too late: true
	// done: true
	// <nil>
}

// A job records when it last ran, in the transaction that checks the lock. Path returns the path of
// the program's own node below the chroot.
func ExampleConn_Path() {
	ctx := context.Background()
	t, end := zktest.ForExample()
	defer end()
	conn := zktest.NewServer(t).Host("here").Connect(t, 10*time.Second, zklocks.WithChroot("/team1"))

	err := zklocks.Do(ctx, rwlock.New(conn, "/jobs/nightly").Lock, func(ctx context.Context, hold *zklocks.Hold) error {
		made, err := hold.Multi(ctx, &zk.CreateRequest{
			Path: conn.Path("/jobs/last-run"), Data: []byte("2026-11-26"), Acl: zk.WorldACL(zk.PermAll),
		})
		if err == nil {
			fmt.Println(made[0].String)
		}
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	data, _, err := conn.Client().Get(conn.Path("/jobs/last-run"))
	fmt.Println(string(data), err)
	// Output:
	// /team1/jobs/last-run
	// 2026-11-26 <nil>
}

// Any option may be left out. ctx bounds Connect only: without a deadline it waits until a server
// answers.
func ExampleConnect() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	pem, err := os.ReadFile("/etc/zookeeper/ca.pem")
	if err != nil {
		log.Fatal(err)
	}
	roots, password := x509.NewCertPool(), os.Getenv("ZK_PASSWORD")
	roots.AppendCertsFromPEM(pem)

	conn, err := zklocks.Connect(ctx, []string{"zk1:2281", "zk2:2281", "zk3:2281"},
		30*time.Second, // session timeout: how long the locks of a dead process stay held
		zklocks.WithTLS(&tls.Config{RootCAs: roots}),
		zklocks.WithDigestAuth("jobs", password),
		zklocks.WithACL(zk.DigestACL(zk.PermAll, "jobs", password)), // the default of all locks on the connection
		zklocks.WithChroot("/team1"),
		zklocks.WithLogger(log.Default()),
	)
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	fmt.Println("granted:", conn.SessionTimeout())
}

// Two transfers take the locks of both accounts, each in its own order, and never deadlock.
func ExampleAll() {
	ctx := context.Background()
	t, end := zktest.ForExample()
	defer end()
	conn := zktest.NewServer(t).Host("here").Connect(t, 10*time.Second)
	locks := map[string]*rwlock.RWMutex{
		"ann": rwlock.New(conn, "/accounts/ann"), "bob": rwlock.New(conn, "/accounts/bob"),
	}
	balance := map[string]int{"ann": 100, "bob": 100}
	transfer := func(from, to string, amount int) error {
		both := zklocks.All(locks[from], locks[to])
		return zklocks.Do(ctx, both.Lock, func(context.Context, *zklocks.Hold) error {
			balance[from], balance[to] = balance[from]-amount, balance[to]+amount
			return nil
		})
	}

	errs := make(chan error)
	go func() { errs <- transfer("ann", "bob", 30) }()
	go func() { errs <- transfer("bob", "ann", 10) }()
	fmt.Println(<-errs, <-errs)
	fmt.Println(balance)
	// Output:
	// <nil> <nil>
	// map[ann:80 bob:120]
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

// deleteNodes deletes the nodes of a lock, as an operator or a careless program may.
func deleteNodes(ctx context.Context, conn *zklocks.Conn, lock *rwlock.RWMutex) {
	queue, err := lock.Queue(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for _, member := range queue {
		if err := conn.Client().Delete(member.Path, -1); err != nil {
			log.Fatal(err)
		}
	}
}

// A store that compares tokens is safe from a holder that has lost the lock and still writes.
func ExampleHold_Token() {
	ctx := context.Background()
	t, end := zktest.ForExample()
	defer end()
	conn := zktest.NewServer(t).Host("here").Connect(t, 10*time.Second)
	lock := rwlock.New(conn, "/examples/token")
	var store fencedStore // its write refuses a smaller token than it has seen

	late, err := lock.Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	deleteNodes(ctx, conn, lock) // while the holder is paused

	next, err := lock.Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer next.Release(ctx)
	fmt.Println(store.write(next.Token(), "new"))
	fmt.Println(store.write(late.Token(), "old"))
	fmt.Println(store.text)
	late.Release(ctx)
	// Output:
	// <nil>
	// refused: the lock has a newer holder
	// new
}

// A write to ZooKeeper itself needs no token: a transaction of the hold fails if the lock is lost.
func ExampleHold_Multi() {
	ctx := context.Background()
	t, end := zktest.ForExample()
	defer end()
	conn := zktest.NewServer(t).Host("here").Connect(t, 10*time.Second)

	hold, err := rwlock.New(conn, "/examples/multi").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	note := &zk.CreateRequest{Path: conn.Path("/examples/note"), Acl: zk.WorldACL(zk.PermAll)}
	made, err := hold.Multi(ctx, note)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("while held:", made[0].String)

	if err := hold.Release(ctx); err != nil {
		log.Fatal(err)
	}
	_, err = hold.Multi(ctx, &zk.SetDataRequest{Path: note.Path, Data: []byte("late"), Version: -1})
	fmt.Println("afterwards:", err)
	// Output:
	// while held: /examples/note
	// afterwards: rwlock: multi /examples/multi: lock already released
}

// A transaction that needs two locks has the guards of both. All callers must take the two locks in
// the same order. If the order may differ, use All, whose hold checks both.
func ExampleHold_Guard() {
	ctx := context.Background()
	t, end := zktest.ForExample()
	defer end()
	conn := zktest.NewServer(t).Host("here").Connect(t, 10*time.Second)

	from, err := rwlock.New(conn, "/examples/from").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer from.Release(ctx)
	to, err := rwlock.New(conn, "/examples/to").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}

	note := &zk.CreateRequest{Path: conn.Path("/examples/note"), Acl: zk.WorldACL(zk.PermAll)}
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

// Work that cannot be fenced sends a quorum request right before it begins. Held is local, and may
// return true although another program has just deleted the node.
func ExampleHold_Verify() {
	ctx := context.Background()
	t, end := zktest.ForExample()
	defer end()
	conn := zktest.NewServer(t).Host("here").Connect(t, 10*time.Second)
	lock := rwlock.New(conn, "/examples/verify")
	hold, err := lock.Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	sendMail := func() {
		if err := hold.Verify(ctx); err != nil {
			fmt.Println("not sent:", err)
			return
		}
		fmt.Println("sent")
	}

	sendMail()
	deleteNodes(ctx, conn, lock)
	sendMail()
	hold.Release(ctx)
	// Output:
	// sent
	// not sent: rwlock: verify /examples/verify: lock lost: its node was deleted
}

// The work stops when the lock is lost. Here an operator deletes its node.
func ExampleHold_Context() {
	ctx := context.Background()
	t, end := zktest.ForExample()
	defer end()
	conn := zktest.NewServer(t).Host("here").Connect(t, 10*time.Second)
	lock := rwlock.New(conn, "/examples/context")
	hold, err := lock.Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	work := hold.Context(ctx)
	fmt.Println("before:", work.Err())

	deleteNodes(ctx, conn, lock)
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

// A holder that is asked to release the lock releases it when it can.
func ExampleHold_ReleaseRequested() {
	ctx := context.Background()
	t, end := zktest.ForExample()
	defer end()
	conn := zktest.NewServer(t).Host("here").Connect(t, 10*time.Second)
	lock := rwlock.New(conn, "/examples/request")
	hold, err := lock.Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}

	queue, err := lock.Queue(ctx) // any process can ask
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

// By default every client of the servers can delete the node of a lock, and so take the lock away.
// With an access control list only the clients that it names can. The list of the directory
// decides; a directory that already exists keeps its list.
func ExampleWithACL() {
	ctx := context.Background()
	t, end := zktest.ForExample()
	defer end()
	host := zktest.NewServer(t).Host("here")
	ann := host.Connect(t, 10*time.Second, zklocks.WithDigestAuth("ann", "secret"))
	stranger := host.Connect(t, 10*time.Second)

	for _, lock := range []*rwlock.RWMutex{
		rwlock.New(ann, "/example-open"),
		rwlock.New(ann, "/example-closed", zklocks.WithACL(zk.DigestACL(zk.PermAll, "ann", "secret"))),
	} {
		hold, err := lock.Lock(ctx)
		if err != nil {
			log.Fatal(err)
		}
		queue, err := lock.Queue(ctx)
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
