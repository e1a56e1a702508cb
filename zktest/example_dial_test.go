package zktest_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/rwlock"
	"github.com/zklocks/zklocks/zktest"
)

// work is a program that connects by itself.
func work(ctx context.Context, servers []string, opts ...zklocks.ConnectOption) error {
	conn, err := zklocks.Connect(ctx, servers, 10*time.Second, opts...)
	if err != nil {
		return err
	}
	defer conn.Close()
	hold, err := rwlock.New(conn, "/jobs/nightly").Lock(ctx)
	if err != nil {
		return err
	}
	return hold.Release(ctx)
}

// theLeaderDies kills one of three servers while the program works.
func theLeaderDies(t *testing.T) {
	s := zktest.NewServer(t, zktest.WithMembers(3))
	s.Host("here").Delay(200 * time.Millisecond)
	time.AfterFunc(time.Second, s.Leader().Kill)
	if err := work(t.Context(), s.Addrs(), zklocks.WithDialer(s.Host("here").Dial)); err != nil {
		t.Error(err)
	}
}

// A program that connects by itself uses the addresses of the servers and a host's dialer.
func ExampleHost_Dial() {
	var t *testing.T // of the test function
	synctest.Test(t, theLeaderDies)
}
