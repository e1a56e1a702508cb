package zklocks_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/rwlock"
	"github.com/zklocks/zklocks/zktest"
)

// Members whose minSessionTimeout and maxSessionTimeout differ, or one that was restarted with
// others, grant different timeouts to one session. Here the client's handshake asks for the timeout
// that such a member would grant.

// granting connects a host. next returns what each connection but the first is granted.
func granting(t *testing.T, s *zktest.Server, host *zktest.Host, next func() time.Duration) *zklocks.Conn {
	t.Helper()
	var dials atomic.Int32
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := host.Dial(ctx, network, addr)
		if err == nil && dials.Add(1) > 1 {
			c = test.AskFor(c, next())
		}
		return c, err
	}
	conn, err := zklocks.Connect(ctx, s.Addrs(), 40*time.Second, zklocks.WithDialer(dial))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		time.Sleep(2 * time.Second) // virtual: it connects again, to say goodbye
		_ = conn.Close()
		time.Sleep(2 * time.Second) // virtual: its goroutines end
	})
	return conn
}

// toldBefore fails unless the holder has been told of its loss. The next one holds.
func toldBefore(t *testing.T, lost <-chan struct{}, when string, args ...any) {
	t.Helper()
	select {
	case <-lost:
	default:
		t.Errorf(when+": the next one holds, and the holder was not told", args...)
	}
}

// A holder's connection is replaced by one with a shorter session timeout, and is cut off a moment
// later. The holder hears of the loss before the next one holds.
func TestALossIsToldInTimeAfterAShorterTimeoutIsGranted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.NewServer(t)
		host := s.Host("a")
		conn := granting(t, s, host, func() time.Duration { return 4 * time.Second })
		next := rwlock.New(s.Host("b").Connect(t, 4*time.Second), path)
		hold, err := rwlock.New(conn, path).Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		lost := hold.Lost()
		time.Sleep(time.Second) // virtual: long before the first heartbeat, which comes after 9/32 of 40 s
		host.Cut()
		time.Sleep(500 * time.Millisecond) // virtual: it connects again
		host.Partition()
		second, err := next.Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		toldBefore(t, lost, "after a cut")
		host.Heal()
		if err := hold.Release(t.Context()); !errors.Is(err, zklocks.ErrLost) {
			t.Error(err)
		}
		if err := second.Release(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// The answer to the handshake comes right before the timeout has passed that it grants. The holder
// is told at the deadline, although the first heartbeat has not been sent.
func TestALossIsToldAtTheDeadlineAfterASlowHandshake(t *testing.T) {
	const shorter = time.Second
	for left := time.Millisecond; left < 20*time.Millisecond; left += 2 * time.Millisecond {
		synctest.Test(t, func(t *testing.T) {
			s := zktest.NewServer(t, zktest.WithTick(shorter/2))
			host := s.Host("a")
			conn := granting(t, s, host, func() time.Duration { return shorter })
			hold, err := rwlock.New(conn, path).Lock(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			lost := hold.Lost()
			answer := host.Next(zktest.Handshake, zktest.DelayReply(shorter-left))
			host.Cut()
			<-answer.Fired()
			for conn.SessionTimeout() != shorter {
				time.Sleep(50 * time.Microsecond) // virtual: until it has connected again
			}
			host.Partition()
			deadline := hold.ValidUntil()
			<-lost
			if late := time.Since(deadline); late > 0 {
				t.Errorf("%v before the deadline: told %v after it", left, late)
			}
			host.Heal()
			_ = hold.Release(t.Context()) // it was lost
		})
	}
}

// The same without the partition: the hold lives on.
func TestAHoldLivesOnAfterAShorterTimeoutIsGranted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.NewServer(t)
		host := s.Host("a")
		conn := granting(t, s, host, func() time.Duration { return 4 * time.Second })
		hold, err := rwlock.New(conn, path).Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second) // virtual: longer than the timeout to come, and before the first heartbeat
		host.Cut()
		select {
		case <-hold.Lost():
			t.Error(hold.Err())
		case <-time.After(time.Minute): // virtual: many timeouts
		}
		if err := hold.Release(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// A connection by one follower has a short timeout, the next one by another member a long one. The
// former follower reports the session to the leader once more, which counts the short one from then
// on.
func TestALossIsToldInTimeAfterALongerTimeoutIsGranted(t *testing.T) {
	for offset := time.Duration(0); offset < time.Second; offset += 50 * time.Millisecond { // between two pings of the leader
		synctest.Test(t, func(t *testing.T) {
			s := zktest.NewServer(t, zktest.WithMembers(3))
			all := s.Members()
			former := all[2] // reports after all others
			if s.Leader() == former {
				s.Elect(all[0])
			}
			host := s.Host("a")
			granted := 4 * time.Second
			conn := granting(t, s, host, func() time.Duration { return granted })
			next := rwlock.New(s.Host("b").Connect(t, 4*time.Second), path)
			hold, err := rwlock.New(conn, path).Lock(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			lost := hold.Lost()
			for _, m := range all[:2] {
				host.To(m).Partition()
			}
			host.Cut()
			time.Sleep(5*time.Second + offset) // virtual: it connects to the former
			if err := hold.Verify(t.Context()); err != nil {
				t.Fatal(err)
			}
			granted = 40 * time.Second
			host.Heal()
			host.To(former).Partition()
			host.Cut()
			if err := hold.Verify(t.Context()); err != nil { // by another
				t.Fatal(err)
			}
			host.Partition()
			second, err := next.Lock(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			toldBefore(t, lost, "after %v", offset)
			host.Heal()
			_ = hold.Release(t.Context()) // it was lost
			_ = second.Release(t.Context())
		})
	}
}

// Reconnects that are granted shorter and longer timeouts, among elections: the holder is told of
// its loss before the next one holds.
func TestTimeoutsThatChangeAtRandom(t *testing.T) {
	for seed := range uint64(100) {
		synctest.Test(t, func(t *testing.T) {
			r, of := rand.New(rand.NewPCG(seed, 1)), rand.New(rand.NewPCG(seed, 2))
			s := zktest.NewServer(t, zktest.WithMembers(3), zktest.WithSeed(seed))
			host := s.Host("a")
			// The client dials one server at a time.
			conn := granting(t, s, host, func() time.Duration {
				return []time.Duration{4, 5, 8, 12, 40}[of.IntN(5)] * time.Second
			})
			next := rwlock.New(s.Host("b").Connect(t, 4*time.Second), path)
			hold, err := rwlock.New(conn, path).Lock(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			lost, done := hold.Lost(), make(chan struct{})
			go func() {
				defer close(done)
				second, err := next.Lock(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				toldBefore(t, lost, "seed %d", seed)
				_ = second.Release(t.Context())
			}()
			for range r.IntN(6) {
				time.Sleep(time.Duration(r.IntN(15_000)) * time.Millisecond) // virtual: heartbeats and reconnects
				if m := s.Members()[r.IntN(3)]; r.IntN(5) == 0 && m != s.Leader() {
					s.Elect(m)
				} else {
					host.Cut()
				}
			}
			time.Sleep(time.Duration(r.IntN(15_000)) * time.Millisecond) // virtual: the same
			host.Partition()
			<-done
			host.Heal()
			_ = hold.Release(t.Context()) // it may have been lost before
		})
	}
}

// A member has granted a short timeout, another one then a long one to the same session: the client
// notices a server that is frozen by the short one, which is what the session lives by.
func TestAFrozenServerIsNoticedByTheShortestTimeout(t *testing.T) {
	const shortest = 6 * time.Second
	synctest.Test(t, func(t *testing.T) {
		s := zktest.NewServer(t, zktest.WithMembers(3))
		host := s.Host("a")
		granted := shortest
		var dialed atomic.Pointer[time.Time]
		conn, err := zklocks.Connect(t.Context(), s.Addrs(), shortest, zklocks.WithDialer(func(ctx context.Context, network, addr string) (net.Conn, error) {
			now := time.Now()
			dialed.Store(&now)
			c, err := host.Dial(ctx, network, addr)
			if err == nil {
				c = test.AskFor(c, granted)
			}
			return c, err
		}))
		if err != nil {
			t.Fatal(err)
		}
		hold, err := rwlock.New(conn, path).Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		granted = 40 * time.Second
		host.Cut()
		time.Sleep(10 * time.Second) // virtual: several heartbeats by the next member
		if err := hold.Verify(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := conn.SessionTimeout(); got != shortest {
			t.Errorf("session timeout %v", got)
		}
		at := conn.Client().Server()
		for _, m := range s.Members() {
			if m.Addr() == at {
				host.To(m).Freeze()
			}
		}
		frozen := time.Now()
		time.Sleep(2 * shortest) // virtual: time to notice it, and to connect to another member
		switch again := *dialed.Load(); {
		case again.Before(frozen):
			t.Errorf("not noticed within %v", time.Since(frozen))
		case again.Sub(frozen) > shortest*2/3:
			t.Errorf("noticed after %v", again.Sub(frozen))
		}
		host.Thaw()
		_ = hold.Release(t.Context()) // it may be lost
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
		time.Sleep(2 * time.Second) // virtual: its goroutines end
	})
}

// What members have granted to one session does not limit the next one.
func TestANewSessionAsksForTheTimeoutOfConnect(t *testing.T) {
	const long, short = 40 * time.Second, 6 * time.Second
	for name, grants := range map[string][]time.Duration{
		"after a short timeout":                {short},
		"after a short timeout and a long one": {short, long},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := zktest.NewServer(t, zktest.WithMembers(3))
				host := s.Host("a")
				dials := 0
				conn, err := zklocks.Connect(t.Context(), s.Addrs(), long, zklocks.WithDialer(func(ctx context.Context, network, addr string) (net.Conn, error) {
					c, err := host.Dial(ctx, network, addr)
					if err == nil && dials < len(grants) {
						c = test.AskFor(c, grants[dials])
					}
					dials++
					return c, err
				}))
				if err != nil {
					t.Fatal(err)
				}
				for range grants[1:] {
					host.Cut()
					time.Sleep(2 * time.Second) // virtual: it connects again
				}
				if got := conn.SessionTimeout(); got != short {
					t.Errorf("session timeout %v", got)
				}
				first := conn.Client().SessionID()
				s.Expire(conn)
				time.Sleep(2 * time.Second) // virtual: it gets another session
				if got := conn.SessionTimeout(); got != long || conn.Client().SessionID() == first {
					t.Errorf("session timeout %v of the next session", got)
				}
				if err := conn.Close(); err != nil {
					t.Error(err)
				}
				time.Sleep(2 * time.Second) // virtual: its goroutines end
			})
		})
	}
}
