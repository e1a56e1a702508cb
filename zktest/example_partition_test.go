package zktest_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zklocks/zklocks/rwlock"
	"github.com/zklocks/zklocks/zktest"
)

// theJobStops cuts off the machine on which a job runs. The job must have stopped when another
// machine acquires the lock.
func theJobStops(t *testing.T) {
	s := zktest.NewServer(t)
	here, there := s.Host("here"), s.Host("there")
	hold, err := rwlock.New(here.Connect(t, 10*time.Second), "/jobs/nightly").Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	stopped := make(chan bool)
	job := func(ctx context.Context) {
		<-ctx.Done()
		close(stopped)
	}
	go job(hold.Context(t.Context()))

	here.Partition()
	next, err := rwlock.New(there.Connect(t, 10*time.Second), "/jobs/nightly").Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer next.Release(t.Context())
	select {
	case <-stopped:
	default:
		t.Error("two jobs run at a time")
	}
}

// A machine loses the network while it holds a lock. The test takes ten seconds of virtual time,
// and some milliseconds of real time.
func ExampleHost_Partition() {
	var t *testing.T // of the test function
	synctest.Test(t, theJobStops)
}
