package wire

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// newTestHosts returns hosts whose names are looked up by resolve; nil: by the dialer.
func newTestHosts(ctx context.Context, resolve func(context.Context, string) ([]string, error), servers ...string) *hosts {
	h := newHosts(ctx, servers, 6*time.Second)
	h.resolve = resolve
	return h
}

// attempt makes an attempt as run does. It returns what is dialed, and how long that took to find
// out.
func (h *hosts) attempt() (address string, took time.Duration, err error) {
	time.Sleep(h.pause()) // virtual
	began := time.Now()
	h.pick()
	address, _, err = h.address()
	return address, time.Since(began), err
}

// The first server is a random one, the others follow in turn.
func TestNextGoesRound(t *testing.T) {
	first := map[string]bool{}
	for range 100 {
		h := newTestHosts(t.Context(), nil, "a:1", "b:1", "c:1")
		seen, last := map[string]int{}, ""
		for i := range 9 {
			s := h.pick()
			if i == 0 {
				first[s] = true
			}
			if s == last {
				t.Error("the same server twice in a row")
			}
			seen[s]++
			last = s
			h.arrived(s, time.Second)
		}
		if seen["a:1"] != 3 || seen["b:1"] != 3 || seen["c:1"] != 3 {
			t.Error(seen)
		}
	}
	if len(first) != 3 {
		t.Error("all clients begin with", first)
	}
}

func TestPauses(t *testing.T) { synctest.Test(t, pauses) }

func pauses(t *testing.T) {
	for _, servers := range [][]string{{"a:1"}, {"a:1", "b:1", "c:1"}} {
		h := newTestHosts(t.Context(), nil, servers...)
		h.arrived("a:1", 6*time.Second)
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
		// There is a pause before each connection to a server that closes connections at once.
		for range 10 {
			h.arrived("a:1", 6*time.Second)
			time.Sleep(time.Millisecond) // virtual
			if p := h.pause(); p > 4*firstPause {
				t.Errorf("flapping: %v", p)
			}
		}
		h.arrived("a:1", 6*time.Second)
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
	h := newTestHosts(t.Context(), nil, "a:1", "b:1", "c:1")
	limit := at(h, "a:1")
	if limit != time.Second {
		t.Errorf("limit %v, want a sixth of 6s", limit)
	}
	h.hung()
	h.given.Store(&[]string{"c:1", "b:1", "a:1"}) // by SetServers, which forgets nothing
	for range 20 {
		if s := h.pick(); s == "a:1" {
			t.Fatal("asked the server that hangs, with two others to ask")
		}
	}
	time.Sleep(avoidance * limit) // virtual
	var again []string
	for range 3 {
		s := h.pick()
		again = append(again, s)
	}
	if !slices.Contains(again, "a:1") {
		t.Error("never asked again")
	}
	// The answer of another server makes it neither better nor its limit longer.
	at(h, "b:1")
	h.answered()
	for range 5 {
		if limit := at(h, "a:1"); limit != time.Second {
			t.Errorf("limit %v, want a sixth of 6s", limit)
		}
		h.hung()
		at(h, "b:1")
		h.answered()
		for range 10 {
			if s := h.pick(); s == "a:1" {
				t.Error("the answer of another makes the dead one as good")
			}
		}
	}
	time.Sleep(avoidance * limit) // virtual
	h.answered()
	// If all hang, the limit doubles each round, up to two thirds of the session timeout.
	for _, want := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 4 * time.Second} {
		asked := map[string]bool{}
		for range h.list {
			s := h.pick()
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
	at(h, "a:1")
	h.answered()
	for range 3 {
		if s := h.pick(); s != "a:1" {
			t.Errorf("asked %s, which hangs", s)
		}
	}
}

func TestLimitFollowsTheGrantedTimeout(t *testing.T) {
	for _, tc := range []struct{ timeout, want time.Duration }{
		{100 * time.Millisecond, shortestTry}, {3 * time.Second, 500 * time.Millisecond}, {time.Hour, longestTry},
	} {
		h := newTestHosts(t.Context(), nil, "a:1")
		h.arrived("a:1", tc.timeout)
		if limit := at(h, "a:1"); limit != tc.want {
			t.Errorf("%v: limit %v, want %v", tc.timeout, limit, tc.want)
		}
	}
}

// The addresses of a name are dialed one after the other. When all have failed, the name is
// looked up again. If the name servers no longer answer, the addresses of the last lookup are used.
func TestNamesAreLookedUpAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		looked, ips, gone := 0, []string(nil), false
		h := newTestHosts(ctx, func(ctx context.Context, _ string) ([]string, error) {
			looked++
			if gone {
				<-ctx.Done()
			}
			if ips == nil {
				return nil, errors.New("no answer")
			}
			return slices.Clone(ips), ctx.Err()
		}, "zk:2181")
		dials := func(want ...string) {
			t.Helper()
			var all []string
			for range want {
				address, took, err := h.attempt()
				if err != nil || took > 100*time.Millisecond {
					t.Fatalf("an attempt took %v: %v", took, err)
				}
				all = append(all, address)
			}
			slices.Sort(all)
			if !slices.Equal(all, want) {
				t.Errorf("dialed %q, want %q", all, want)
			}
		}
		if _, _, err := h.address(); err == nil {
			t.Error("no error for a name that stands for nothing")
		}
		ips = []string{"10.0.0.1", "10.0.0.2", "10.0.0.2", "::1"}
		dials("10.0.0.1:2181", "10.0.0.2:2181", "[::1]:2181")
		if looked != 2 {
			t.Errorf("%d lookups, want 2", looked)
		}
		ips = []string{"10.0.0.7"}
		dials("10.0.0.7:2181")
		ips = nil
		dials("10.0.0.7:2181")
		gone = true
		dials("10.0.0.7:2181", "10.0.0.7:2181", "10.0.0.7:2181")
		cancel()
		synctest.Wait()
	})
}

// The first of two name servers is dead, and the resolver asks the second after five seconds.
func TestANameThatTakesLongToLookUpIsReached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newTestHosts(t.Context(), func(context.Context, string) ([]string, error) {
			time.Sleep(5 * time.Second) // virtual: the timeout of the dead name server
			return []string{"10.0.0.1"}, nil
		}, "zk:2181")
		start := time.Now()
		address, took, err := h.attempt()
		for ; err != nil && time.Since(start) < time.Minute; address, took, err = h.attempt() {
			if took > longestTry {
				t.Errorf("an attempt took %v", took)
			}
		}
		if took := time.Since(start); err != nil || address != "10.0.0.1:2181" || took > 7*time.Second {
			t.Errorf("%s after %v: %v", address, took, err)
		}
	})
}
