package observe_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/observe"
	"github.com/zklocks/zklocks/rwlock"
	"github.com/zklocks/zklocks/zktest"
)

// Counting holds takes two of the functions.
func Example() {
	ctx := context.Background()
	t, end := zktest.ForExample()
	defer end()
	conn := zktest.NewServer(t).Host("here").Connect(t, 10*time.Second) // zklocks.Connect in a program

	mu := rwlock.New(conn, "/examples/counted", zklocks.WithObserver(observe.Observer{
		Granted:  func(e observe.Granted) { fmt.Println(e.Kind, "granted, joined:", e.Joined) },
		Released: func(e observe.Released) { fmt.Println(e.Kind, "released") },
	}))
	for range 2 {
		hold, err := mu.RLock(ctx)
		if err != nil {
			log.Fatal(err)
		}
		defer hold.Release(ctx)
	}
	// Output:
	// read granted, joined: false
	// read granted, joined: true
	// read released
	// read released
}
