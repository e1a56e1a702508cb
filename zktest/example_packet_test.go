package zktest_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/zklocks/zklocks/rwlock"
	"github.com/zklocks/zklocks/zktest"
)

// theReplyIsLost makes the server execute the request for a lock, and ends the connection before
// the client receives the reply.
func theReplyIsLost(t *testing.T) {
	here := zktest.NewServer(t).Host("here")
	lock := rwlock.New(here.Connect(t, 10*time.Second), "/jobs/nightly")
	lost := here.Next(zktest.Create, zktest.CutAfterCommit)
	hold, err := lock.Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	<-lost.Fired()
	if err := hold.Release(t.Context()); err != nil {
		t.Error(err)
	}
	if queue, err := lock.Queue(t.Context()); err != nil || len(queue) != 0 {
		t.Errorf("%d requests are left in the queue: %v", len(queue), err)
	}
}

// A connection ends at the worst moment: the server has executed the request, and the client has no
// reply.
func ExampleHost_Next() {
	var t *testing.T // of the test function
	synctest.Test(t, theReplyIsLost)
}
