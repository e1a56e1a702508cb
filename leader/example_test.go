package leader_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/leader"
	"github.com/zklocks/zklocks/zktest"
)

// scheduler runs the schedule in one process of the cluster, until ctx is canceled.
func scheduler(ctx context.Context, servers []string) error {
	conn, err := zklocks.Connect(ctx, servers, 10*time.Second)
	if err != nil {
		return err
	}
	defer conn.Close()

	election := leader.New(conn, "/examples/scheduler")
	return election.Run(ctx, func(ctx context.Context, term *zklocks.Hold) error {
		err := schedule(ctx, term.Token()) // this ctx ends when the term is lost
		if err != nil && ctx.Err() == nil {
			log.Print(err) // Run pauses, campaigns again, and does not report it
		}
		return err
	})
}

// schedule works until ctx is canceled, and passes token to the store with each write.
func schedule(ctx context.Context, token int64) error {
	fmt.Println("leads, with a token:", token > 0)
	leads <- true
	<-ctx.Done()
	return context.Cause(ctx)
}

var leads = make(chan bool)

// A process leads until its context is canceled.
func Example() {
	t, end := zktest.ForExample()
	defer end()
	servers := zktest.NewServer(t).ListenTCP(t) // like []string{"zk1:2181", "zk2:2181", "zk3:2181"}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() { <-leads; cancel() }()

	err := scheduler(ctx, servers)
	fmt.Println(errors.Is(err, context.Canceled))
	// Output:
	// leads, with a token: true
	// true
}

// Run campaigns until ctx is canceled. The function leads for one term.
func ExampleElection_Run() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	t, end := zktest.ForExample()
	defer end()
	conn := zktest.NewServer(t).Host("here").Connect(t, 10*time.Second) // zklocks.Connect in a program
	election := leader.New(conn, "/examples/scheduler")

	terms := 0
	err := election.Run(ctx, func(ctx context.Context, term *zklocks.Hold) error {
		terms++
		fmt.Println("term", terms)
		if terms == 2 {
			cancel() // as at SIGTERM
		}
		return nil // resigns; the next candidate leads
	})
	fmt.Println(errors.Is(err, context.Canceled))
	// Output:
	// term 1
	// term 2
	// true
}

// The leader publishes its state; all processes read it.
func ExampleElection_Proclaim() {
	ctx := context.Background()
	t, end := zktest.ForExample()
	defer end()
	conn := zktest.NewServer(t).Host("here").Connect(t, 10*time.Second) // zklocks.Connect in a program
	election := leader.New(conn, "/examples/state", zklocks.WithData([]byte("loading")))

	err := zklocks.Do(ctx, election.Campaign, func(ctx context.Context, term *zklocks.Hold) error {
		if err := election.Proclaim(ctx, term, []byte("serving")); err != nil {
			return err
		}
		member, err := election.Leader(ctx)
		fmt.Println(string(member.Data))
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// serving
}

// The leader publishes its address, and another process asks for it.
func ExampleElection_Leader() {
	ctx := context.Background()
	t, end := zktest.ForExample()
	defer end()
	conn := zktest.NewServer(t).Host("here").Connect(t, 10*time.Second) // zklocks.Connect in a program
	election := leader.New(conn, "/examples/address", zklocks.WithData([]byte("10.0.0.7:8080")))

	_, err := election.Leader(ctx)
	fmt.Println(errors.Is(err, leader.ErrNoLeader))

	term, err := election.Campaign(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer term.Release(ctx)
	member, err := election.Leader(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(member.Data))
	// Output:
	// true
	// 10.0.0.7:8080
}

// A process that is not a candidate follows the leader and the data that it proclaims.
func ExampleElection_Observe() {
	ctx := context.Background()
	t, end := zktest.ForExample()
	defer end()
	conn := zktest.NewServer(t).Host("here").Connect(t, 10*time.Second) // zklocks.Connect in a program
	election := leader.New(conn, "/examples/followed", zklocks.WithData([]byte("warming up")))
	term, err := election.Campaign(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer term.Release(ctx)

	for view, err := range election.Observe(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		if !view.Current {
			continue // it may have been replaced
		}
		fmt.Println(string(view.Leader.Data))
		if string(view.Leader.Data) == "serving" {
			break
		}
		if err := election.Proclaim(ctx, term, []byte("serving")); err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// warming up
	// serving
}

// A health check for the process's supervisor: if a function continues after its term was lost, the
// process should be restarted.
func ExampleElection_Status() {
	t, end := zktest.ForExample()
	defer end()
	conn := zktest.NewServer(t).Host("here").Connect(t, 10*time.Second) // zklocks.Connect in a program
	election := leader.New(conn, "/examples/health")
	health := func(w http.ResponseWriter, _ *http.Request) {
		status := election.Status()
		if status.State == leader.StateOverdue {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		fmt.Fprintf(w, "%v since %v\n", status.State, status.Since.Format(time.RFC3339))
	}

	w := httptest.NewRecorder()
	health(w, nil)
	fmt.Println(w.Code, election.Status().State)
	// Output:
	// 200 follower
}
