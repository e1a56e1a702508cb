package zklocks_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/rwlock"
	"github.com/zklocks/zklocks/zktest"
)

// exampleT is the testing.TB of an Example, which is given none.
type exampleT struct {
	testing.TB // nil: not used
	cleanups   []func()
}

func (*exampleT) Helper()                           {}
func (*exampleT) Context() context.Context          { return context.Background() }
func (*exampleT) Errorf(format string, args ...any) { log.Panicf(format, args...) }
func (*exampleT) Fatalf(format string, args ...any) { log.Panicf(format, args...) }
func (t *exampleT) Cleanup(f func())                { t.cleanups = append(t.cleanups, f) }

// exampleConn returns a connection to a server in memory, as [zklocks.Connect] does to a real one.
func exampleConn(opts ...zklocks.ConnectOption) (conn *zklocks.Conn, end func()) {
	t := new(exampleT)
	conn = zktest.NewServer(t).Host("here").Connect(t, 10*time.Second, opts...)
	return conn, func() {
		for len(t.cleanups) > 0 {
			last := len(t.cleanups) - 1
			t.cleanups[last]()
			t.cleanups = t.cleanups[:last]
		}
	}
}

// The limit is on the wait for the lock. The work may take as long as it needs.
func ExampleDo_within() {
	ctx := context.Background()
	conn, end := exampleConn() // zklocks.Connect in a program
	defer end()
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
	fmt.Println(err)
	fmt.Println("too late:", errors.Is(err, context.DeadlineExceeded))

	if err := other.Release(ctx); err != nil {
		log.Fatal(err)
	}
	err = zklocks.Do(ctx, zklocks.Within(100*time.Millisecond, lock.Lock), work)
	fmt.Println(err)
	// Output:
	// rwlock: lock /jobs/nightly: context deadline exceeded: not granted within 100ms
	// too late: true
	// done: true
	// <nil>
}

// A job writes when it last ran, in the transaction that checks the lock. Below a chroot the path
// of the program's own node comes from Path.
func ExampleConn_Path() {
	ctx := context.Background()
	conn, end := exampleConn(zklocks.WithChroot("/team1"))
	defer end()

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
