package zktest_test

import (
	"context"
	"testing"
	"time"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/leader"
	"github.com/zklocks/zklocks/rwlock"
	"github.com/zklocks/zklocks/zktest"
)

func forgets(t testing.TB, s *zktest.Server, path string) (*zktest.Host, *zklocks.Hold) {
	host := s.Host("left")
	mu := rwlock.New(host.Connect(t, 10*time.Second), path)
	hold, err := mu.Lock(t.Context())
	if err != nil {
		t.Error(err)
	}
	return host, hold
}

// A hold that a test does not release is reported, with the line that acquired it.
func TestHoldsLeft(t *testing.T) {
	for name, test := range map[string]func(t testing.TB){
		"one": func(t testing.TB) { forgets(t, zktest.NewServer(t), "/x") },
		"one of two that share a node": func(t testing.TB) {
			mu := rwlock.New(zktest.NewServer(t).Host("left").Connect(t, 10*time.Second), "/x")
			for _, release := range []bool{false, true} {
				hold, err := mu.RLock(t.Context())
				if err != nil {
					t.Error(err)
				}
				if release {
					_ = hold.Release(t.Context())
				}
			}
		},
		"downgraded": func(t testing.TB) {
			mu := rwlock.New(zktest.NewServer(t).Host("left").Connect(t, 10*time.Second), "/x")
			hold, err := mu.Lock(t.Context())
			if err != nil {
				t.Error(err)
			}
			if err := mu.Downgrade(t.Context(), hold); err != nil {
				t.Error(err)
			}
		},
	} {
		line := "held_test.go:"
		if name == "downgraded" {
			line = "in the background"
		}
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) { fails(t, test, "a hold is not released", "host left", "/x, token ", line) })
		})
	}
	t.Run("in real time", func(t *testing.T) {
		t.Parallel()
		fails(t, func(t testing.TB) { forgets(t, zktest.NewServer(t), "/x") }, "a hold is not released", "write /x", "held_test.go:")
	})
}

// A hold is not reported if it has ended, ends in the background, or may be left.
func TestHoldsThatMayBeLeft(t *testing.T) {
	for name, test := range map[string]func(t *testing.T){
		"allowed": func(t *testing.T) { forgets(t, zktest.NewServer(t, zktest.WithHoldsLeft()), "/x") },
		"the connection is closed": func(t *testing.T) {
			host := zktest.NewServer(t).Host("a")
			conn := host.Connect(t, 10*time.Second)
			_, err := rwlock.New(conn, "/x").Lock(t.Context())
			must(t, err)
			must(t, conn.Close())
		},
		"cut off": func(t *testing.T) { // it is lost after the test has ended
			host, _ := forgets(t, zktest.NewServer(t), "/x")
			host.Partition()
		},
		"released in the background": func(t *testing.T) {
			leads := make(chan struct{})
			election := leader.New(zktest.NewServer(t).Host("a").Connect(t, 10*time.Second), "/x")
			go election.Run(t.Context(), func(ctx context.Context, _ *zklocks.Hold) error {
				close(leads)
				<-ctx.Done()
				return nil
			})
			<-leads
		},
	} {
		t.Run(name, func(t *testing.T) { bubble(t, test) })
	}
}
