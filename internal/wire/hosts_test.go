package wire

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func newTestHosts(servers ...string) *hosts {
	h := newHosts(context.Background(), servers, 6*time.Second)
	h.resolve = nil
	return h
}

func TestNextGoesRound(t *testing.T) {
	h := newTestHosts("a:1", "b:1", "c:1")
	seen := map[string]int{}
	last := ""
	for range 9 {
		s, retryStart := h.Next()
		if retryStart {
			t.Fatal("retryStart makes the client sleep a second and fail all calls")
		}
		if s == last {
			t.Error("the same server twice in a row")
		}
		seen[s]++
		last = s
		h.Connected()
	}
	if seen["a:1"] != 3 || seen["b:1"] != 3 || seen["c:1"] != 3 {
		t.Error(seen)
	}
	quit, leave := context.WithCancel(context.Background())
	h.quit = quit
	leave()
	if _, retryStart := h.Next(); !retryStart {
		t.Error("a closed client goes on forever")
	}
}

func TestStartIsShuffled(t *testing.T) {
	first := map[string]bool{}
	for range 100 {
		h := newTestHosts("a:1", "b:1", "c:1")
		s, _ := h.Next()
		first[s] = true
	}
	if len(first) != 3 {
		t.Error("all clients begin with", first)
	}
}

func TestPauses(t *testing.T) { synctest.Test(t, pauses) }

func pauses(t *testing.T) {
	for _, servers := range [][]string{{"a:1"}, {"a:1", "b:1", "c:1"}} {
		h := newTestHosts(servers...)
		h.Connected()
		time.Sleep(time.Minute) // virtual
		longest := firstPause
		for round := range 12 {
			for try := range servers {
				p := h.pause()
				switch {
				case round == 0 || try > 0:
					if p != 0 {
						t.Errorf("%d servers, round %d, try %d: pause %v", len(servers), round, try, p)
					}
				case p < longest/2 || p > longest:
					t.Errorf("%d servers, round %d: pause %v, want %v to %v", len(servers), round, p, longest/2, longest)
				}
			}
			if round > 0 {
				longest = min(2*longest, lastPause)
			}
		}
		// The client pauses before each connection to a server that closes connections at once.
		for range 10 {
			h.Connected()
			time.Sleep(time.Millisecond) // virtual
			if p := h.pause(); p > 4*firstPause {
				t.Errorf("flapping: %v", p)
			}
		}
		h.Connected()
		time.Sleep(settled) // virtual
		if p := h.pause(); p != 0 {
			t.Errorf("after a connection that settled: %v", p)
		}
	}
}

// at begins an attempt at a server and returns its limit.
func at(h *hosts, server string) (limit time.Duration) {
	h.last = h.list[slices.IndexFunc(h.list, func(x *host) bool { return x.given == server })]
	_, limit, _ = h.address()
	return limit
}

func TestFrozenServerIsLeftAlone(t *testing.T) { synctest.Test(t, frozenServerIsLeftAlone) }

func frozenServerIsLeftAlone(t *testing.T) {
	h := newTestHosts("a:1", "b:1", "c:1")
	limit := at(h, "a:1")
	if limit != time.Second {
		t.Errorf("limit %v, want a sixth of 6s", limit)
	}
	h.hung()
	for range 20 {
		if s, _ := h.Next(); s == "a:1" {
			t.Fatal("asked the server that hangs, with two others to ask")
		}
	}
	time.Sleep(avoidance * limit) // virtual
	var again []string
	for range 3 {
		s, _ := h.Next()
		again = append(again, s)
	}
	if !slices.Contains(again, "a:1") {
		t.Error("never asked again")
	}
	// If all hang, the limit doubles each round, up to two thirds of the session timeout.
	h.answered()
	for _, want := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 4 * time.Second} {
		asked := map[string]bool{}
		for range h.list {
			s, _ := h.Next()
			if _, limit, _ := h.address(); limit != want {
				t.Errorf("%s: limit %v, want %v", s, limit, want)
			}
			h.hung()
			asked[s] = true
		}
		if len(asked) != len(h.list) {
			t.Errorf("a round asks %v", asked)
		}
	}
}

// The client tries a dead server in each round, while it can reach another. The limit for the dead
// server does not grow.
func TestADeadServerCostsTheSameEachTime(t *testing.T) {
	h := newTestHosts("a:1", "b:1", "c:1")
	for range 5 {
		if limit := at(h, "a:1"); limit != time.Second {
			t.Errorf("limit %v, want a sixth of 6s", limit)
		}
		h.hung()
		at(h, "b:1")
		h.answered()
		for range 10 {
			if s, _ := h.Next(); s == "a:1" {
				t.Error("the answer of another makes the dead one as good")
			}
		}
	}
}

// The name servers no longer answer. The client uses the addresses of the last lookup.
func TestAReconnectDoesNotWaitForNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		h := newHosts(ctx, []string{"zk:2181"}, 6*time.Second)
		var gone atomic.Bool
		h.resolve = func(ctx context.Context, _ string) ([]string, error) {
			if gone.Load() {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return []string{"10.0.0.1"}, nil
		}
		for range 5 {
			began := time.Now()
			h.Next()
			h.pause()
			if address, _, err := h.address(); err != nil || address != "10.0.0.1:2181" {
				t.Errorf("%s, %v", address, err)
			}
			if took := time.Since(began); took > 100*time.Millisecond {
				t.Errorf("an attempt took %v", took)
			}
			gone.Store(true)
		}
		cancel()
		synctest.Wait()
	})
}

func TestLimitFollowsTheGrantedTimeout(t *testing.T) {
	for _, tc := range []struct{ timeout, want time.Duration }{
		{100 * time.Millisecond, shortestTry}, {3 * time.Second, 500 * time.Millisecond}, {time.Hour, longestTry},
	} {
		h := newTestHosts("a:1")
		h.timeout = tc.timeout
		if limit := at(h, "a:1"); limit != tc.want {
			t.Errorf("%v: limit %v, want %v", tc.timeout, limit, tc.want)
		}
	}
}

// The client dials the addresses of a name one after the other. When all have failed, it looks up
// the name again.
func TestNamesAreLookedUpAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHosts(t.Context(), []string{"zk:2181"}, 6*time.Second)
		looked := 0
		answer := func(ips ...string) {
			h.resolve = func(context.Context, string) ([]string, error) {
				looked++
				if ips == nil {
					return nil, errors.New("no answer")
				}
				return slices.Clone(ips), nil
			}
		}
		dialed := func(n int) []string {
			t.Helper()
			var all []string
			for range n {
				h.Next()
				h.pause()
				a, _, err := h.address()
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, a)
			}
			slices.Sort(all)
			return all
		}
		answer()
		if _, _, err := h.address(); err == nil {
			t.Error("no error for a name that stands for nothing")
		}
		answer("10.0.0.1", "10.0.0.2", "10.0.0.2", "::1")
		want := []string{"10.0.0.1:2181", "10.0.0.2:2181", "[::1]:2181"}
		if got := dialed(3); !slices.Equal(got, want) || looked != 2 {
			t.Errorf("dialed %v after %d lookups, want %v", got, looked, want)
		}
		answer("10.0.0.7")
		if got := dialed(1); got[0] != "10.0.0.7:2181" {
			t.Errorf("all have failed, and it still dials %v", got)
		}
		answer() // a name server that is down must not keep us from servers that are up
		if got := dialed(1); got[0] != "10.0.0.7:2181" {
			t.Errorf("dialed %v", got)
		}
	})
}

// The first of two name servers is dead, and the resolver asks the second after five seconds.
func TestANameThatTakesLongToLookUpIsReached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		h := newHosts(ctx, []string{"zk:2181"}, 6*time.Second)
		h.resolve = func(ctx context.Context, _ string) ([]string, error) {
			select {
			case <-time.After(5 * time.Second): // virtual: the timeout of the dead name server
				return []string{"10.0.0.1"}, nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		start := time.Now()
		for time.Since(start) < time.Hour {
			time.Sleep(h.pause()) // virtual: as the client pauses between two attempts
			h.Next()
			began := time.Now()
			address, _, err := h.address()
			if took := time.Since(began); took > longestTry {
				t.Errorf("an attempt took %v", took)
			}
			if err == nil {
				if took := time.Since(start); address != "10.0.0.1:2181" || took > 7*time.Second {
					t.Errorf("%s, after %v", address, took)
				}
				cancel()
				synctest.Wait()
				return
			}
		}
		t.Fatal("never reached")
	})
}
