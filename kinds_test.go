package zklocks_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/contract"
	"github.com/zklocks/zklocks/internal/test/locks"
	"github.com/zklocks/zklocks/leader"
	"github.com/zklocks/zklocks/once"
	"github.com/zklocks/zklocks/reentrant"
	"github.com/zklocks/zklocks/rwlock"
	"github.com/zklocks/zklocks/semaphore"
)

// election is an election as a lock. It has no call that does not wait.
type election struct{ *leader.Election }

func (e election) Lock(ctx context.Context) (*zklocks.Hold, error)    { return e.Campaign(ctx) }
func (e election) TryLock(ctx context.Context) (*zklocks.Hold, error) { return e.Campaign(ctx) }

// kinds has a lock of each kind that may be used at one path by mistake. Locks of one group exclude
// each other.
var kinds = []struct {
	name, group string
	at          func(*zklocks.Conn, string) zklocks.Locker
}{
	{"rwlock", "rw", func(c *zklocks.Conn, path string) zklocks.Locker { return rwlock.New(c, path) }},
	{"rwlock, for reading", "rw", func(c *zklocks.Conn, path string) zklocks.Locker { return rwlock.New(c, path).RLocker() }},
	{"rwlock with handoff", "rw", func(c *zklocks.Conn, path string) zklocks.Locker { return rwlock.New(c, path, rwlock.WithHandoff(3)) }},
	{"All", "rw", func(c *zklocks.Conn, path string) zklocks.Locker {
		return zklocks.All(reentrant.New(c, path+"-beside"), rwlock.New(c, path))
	}},
	{"reentrant", "mutex", func(c *zklocks.Conn, path string) zklocks.Locker { return reentrant.New(c, path) }},
	{"leader", "mutex", func(c *zklocks.Conn, path string) zklocks.Locker { return election{leader.New(c, path)} }},
	{"semaphore", "permits", func(c *zklocks.Conn, path string) zklocks.Locker { return semaphore.New(c, path, 3).Locker(2) }},
	{"rwlock, Curator's names", "curator", func(c *zklocks.Conn, path string) zklocks.Locker {
		return rwlock.New(c, path, rwlock.WithCuratorNames())
	}},
	{"rwlock, kazoo's names", "kazoo", func(c *zklocks.Conn, path string) zklocks.Locker {
		return rwlock.New(c, path, rwlock.WithKazooNames())
	}},
	{"reentrant, kazoo's names", "kazoo", func(c *zklocks.Conn, path string) zklocks.Locker {
		return reentrant.New(c, path, reentrant.WithKazooNames())
	}},
	{"leader, LeaderLatch's names", "latch", func(c *zklocks.Conn, path string) zklocks.Locker {
		return election{leader.New(c, path, leader.WithLatchNames())}
	}},
}

// makers is how the error names each group to the caller of another.
var makers = map[string]string{
	"rw": "package rwlock without", "mutex": "package reentrant or leader", "permits": "package semaphore",
	"curator": "rwlock.WithCuratorNames", "kazoo": "WithKazooNames (of", "latch": "leader.WithLatchNames",
}

// Two locks of different kinds are never held at one path at once: the later call fails, whether or
// not its lock was used before. Locks that exclude each other still do. A lock that was used before
// does not see the number of a semaphore that has come since.
func TestNoTwoKindsOnOnePath(t *testing.T) {
	for _, first := range kinds {
		for _, second := range kinds {
			t.Run(first.name+", then "+second.name, func(t *testing.T) {
				contract.InMemory(t, "", func(s *contract.Stage) {
					a, b := first.at(locks.On(s.Connect()), s.Path), second.at(locks.On(s.Connect()), s.Path)
					for _, used := range []bool{false, true} {
						if used && first.group == "permits" && second.group != "permits" {
							break
						}
						if used { // until readers need no listing
							for range 3 {
								h := contract.Begin(s, s.Context(), b.Lock).Granted()
								s.Must(h.Release(s.Context()))
							}
							forget(s)
						}
						h := contract.Begin(s, s.Context(), a.Lock).Granted()
						if first.group == second.group {
							continueWith(s, b, h)
							continue
						}
						for _, call := range []func(context.Context) (*zklocks.Hold, error){b.Lock, b.TryLock} {
							_, err := call(s.Context())
							if says := fmt.Sprint(err); !strings.Contains(says, "in use by a lock of another kind") || strings.Contains(says, "with the node") && !strings.Contains(says, ": such nodes need "+makers[first.group]) {
								s.Errorf("used before: %v: error %v", used, err)
							}
						}
						s.Must(h.Verify(s.Context()))
						s.Must(h.Release(s.Context()))
						forget(s)
					}
					test.AssertEmpty(s, s.Witness.Client(), s.Path+"-beside")
				})
			})
		}
	}
}

// continueWith has a lock wait for a hold, unless both are for reading.
func continueWith(s *contract.Stage, b zklocks.Locker, h *zklocks.Hold) {
	s.Helper()
	next := contract.Begin(s, s.Context(), b.Lock)
	time.Sleep(time.Second) // virtual: a lock that did not wait would have been granted
	select {
	case <-next.Done:
		readers := strings.Contains(contract.NodeOf(h), "-read-") || strings.Contains(contract.NodeOf(next.Granted()), "-read-")
		if !readers {
			s.Error("both hold")
		}
	default:
	}
	s.Must(h.Release(s.Context()))
	s.Must(next.Granted().Release(s.Context()))
}

// forget deletes the path, and with it a semaphore's number.
func forget(s *contract.Stage) {
	time.Sleep(time.Minute)                            // virtual: the server deletes containers
	_ = s.Witness.Client().Delete(s.Path+"/queue", -1) // below a plain node they remain
	_ = s.Witness.Client().Delete(s.Path, -1)
}

// A job of package once queues below its path, so it shares it with any lock.
func TestAJobQueuesBelowItsPath(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		conn := locks.On(s.Connect())
		for _, kind := range kinds {
			path := s.Path + "/lock"
			h := contract.Begin(s, s.Context(), kind.at(conn, path).Lock).Granted()
			ctx, cancel := context.WithTimeout(s.Context(), time.Second)
			err := once.New(conn, s.Path).RunSlot(ctx, kind.name, func(context.Context, *zklocks.Hold) error { return nil })
			cancel()
			if kind.group == "rw" {
				s.Is(err, context.DeadlineExceeded)
			} else if !strings.Contains(fmt.Sprint(err), path+" is in use by a lock of another kind") {
				s.Errorf("next to %s: %v", kind.name, err)
			}
			s.Must(h.Release(s.Context()))
			time.Sleep(time.Minute)                 // virtual: the server deletes containers
			_ = s.Witness.Client().Delete(path, -1) // with kazoo's names it is a plain node
		}
	})
}
