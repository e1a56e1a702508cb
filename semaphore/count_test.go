package semaphore_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/contract"
	"github.com/zklocks/zklocks/internal/test/locks"
	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/internal/test/venue"
	"github.com/zklocks/zklocks/internal/wire"
	"github.com/zklocks/zklocks/rwlock"
	"github.com/zklocks/zklocks/semaphore"
)

func stored(s *contract.Stage) string {
	s.Helper()
	data, _, err := s.Witness.Client().Get(s.Path)
	s.Must(err)
	return string(data)
}

// A rollout to another number tries again and again. None of its calls makes the queue again that
// the server has deleted: it would remain forever, and the old number with it.
func TestARefusedCallDoesNotFreezeTheNumber(t *testing.T) {
	contract.InMemory(t, "/queue", func(s *contract.Stage) {
		s.Ctx = context.Background()
		for name, refused := range map[string]struct {
			permits, n int
			opts       []semaphore.Option
			want       error
		}{
			"another number":          {5, 1, nil, semaphore.ErrMismatch},
			"too many":                {4, 5, nil, semaphore.ErrTooMany},
			"too many of the stored":  {0, 5, nil, semaphore.ErrTooMany},
			"too many of any, stored": {6, 5, []semaphore.Option{semaphore.WithStoredPermits()}, semaphore.ErrTooMany},
		} {
			release(s, newClient(s, 4).acquire(1))
			test.Eventually(s, 3*time.Minute, "the server deletes the queue", func() bool {
				exists, _, err := s.Witness.Client().Exists(s.Dir)
				return err == nil && !exists
			})
			sem := semaphore.New(locks.On(s.Connect()), s.Path, refused.permits, refused.opts...)
			before := s.Tree(s.Path)
			if len(before) != 1 {
				s.Fatalf("%s: there are %q", name, before)
			}
			for _, acquire := range []func(context.Context, int) (*zklocks.Hold, error){sem.Acquire, sem.TryAcquire, sem.Acquire} {
				_, err := acquire(s.Ctx, refused.n)
				s.Is(err, refused.want)
				if after := s.Tree(s.Path); !maps.Equal(before, after) {
					s.Errorf("%s: %q", name, after)
				}
			}
			time.Sleep(4 * time.Minute) // virtual: the servers check the containers
			if left := s.Tree(s.Path); len(left) > 0 {
				s.Errorf("%s: 4 minutes later there are %q", name, left)
			}
			release(s, newClient(s, 5).acquire(5)) // the number is free
			time.Sleep(4 * time.Minute)            // virtual
		}
	})
}

// deleteAll deletes the semaphore, whose queue is empty.
func deleteAll(s *contract.Stage) {
	s.Helper()
	test.Eventually(s, soon, "all is deleted", func() bool {
		err := s.Witness.Client().Delete(s.Dir, -1)
		return (err == nil || err == zk.ErrNoNode) && s.Witness.Client().Delete(s.Path, -1) == nil
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func once(sem *semaphore.Semaphore, n int) error {
	h, err := sem.Acquire(context.Background(), n)
	if err != nil {
		return err
	}
	return h.Release(context.Background())
}

// A server that lags behind shows a replaced number, or the data of a node that was deleted since.
// No caller is refused because of that, and Resize replaces the number that is stored.
func TestANumberFromAServerThatIsBehind(t *testing.T) {
	const path = "/permits"
	set := func(first *wire.Conn, data string) error {
		_, err := first.Client().Set(path, []byte(data), -1)
		return err
	}
	again := func(first *wire.Conn, data string) error {
		_ = first.Client().Delete(path+"/queue", -1) // the server may have deleted it
		return errors.Join(first.Client().Delete(path, -1), create(first, path, data))
	}
	for name, c := range map[string]struct {
		before string                         // what both servers show; "4": a semaphore of 4 permits was used
		since  func(*wire.Conn, string) error // a change that only the first server has applied
		to     string                         // the number after that
		call   func(*semaphore.Semaphore, *wire.Conn) error
		want   error
		stored string
	}{
		"Resize to the former number":     {"4", set, "6", resize(4), nil, "4"},
		"Resize to that of a former life": {"4", again, "6", resize(4), nil, "4"},
		"Resize of another program's":     {"4", again, "config", resize(5), semaphore.ErrMismatch, "config"},
		"Resize of what was no number":    {"none", set, "4", resize(6), nil, "6"},
		"more than there were":            {"4", set, "6", func(sem *semaphore.Semaphore, _ *wire.Conn) error { return once(sem, 6) }, nil, "6"},
		"another value by the new number": {"4", set, "6", byAnother(6), nil, "6"},
	} {
		t.Run(name, func(t *testing.T) {
			venue.Behind(t, func(t *testing.T, first, behind *wire.Conn) {
				sem := semaphore.New(locks.On(behind), path, 4, semaphore.WithStoredPermits())
				if c.before == "4" {
					must(t, once(sem, 4))
				} else {
					must(t, create(first, path, c.before))
					time.Sleep(2 * time.Second) // virtual: the other server shows the change
				}
				must(t, c.since(first, c.to))
				if err := c.call(sem, behind); !errors.Is(err, c.want) {
					t.Errorf("error %v, want %v", err, c.want)
				}
				data, _, err := first.Client().Get(path)
				must(t, err)
				if string(data) != c.stored {
					t.Errorf("%q is stored, want %s", data, c.stored)
				}
			})
		})
	}
}

func create(conn *wire.Conn, path, data string) error {
	_, err := conn.Client().Create(path, []byte(data), zk.FlagPersistent, zk.WorldACL(zk.PermAll))
	return err
}

func resize(to int) func(*semaphore.Semaphore, *wire.Conn) error {
	return func(sem *semaphore.Semaphore, _ *wire.Conn) error { return sem.Resize(context.Background(), to) }
}

func byAnother(number int) func(*semaphore.Semaphore, *wire.Conn) error {
	return func(_ *semaphore.Semaphore, conn *wire.Conn) error {
		return once(semaphore.New(locks.On(conn), "/permits", number), number)
	}
}

// With WithStoredPermits the number given to New is stored if no number is stored yet. Otherwise it
// is ignored.
func TestTheStoredNumberWins(t *testing.T) {
	for name, c := range map[string]struct {
		stored  string // stored before
		permits int    // given to New
		n       int    // number of acquired permits
		want    error
		after   string
	}{
		"nothing is stored":                            {"", 3, 3, nil, "3"},
		"nothing is stored, and too many are acquired": {"", 3, 4, semaphore.ErrTooMany, ""},
		"the same is stored":                           {"3", 3, 3, nil, "3"},
		"fewer are stored":                             {"3", 5, 3, nil, "3"},
		"fewer are stored, and too many are acquired":  {"3", 5, 4, semaphore.ErrTooMany, "3"},
		"more are stored":                              {"5", 3, 5, nil, "5"},
		"more are stored, and too many are acquired":   {"5", 3, 6, semaphore.ErrTooMany, "5"},
		"any number will do":                           {"3", 0, 3, nil, "3"},
		"any number will do, and there is none":        {"", 0, 1, semaphore.ErrMismatch, ""},
		"what is stored is no number":                  {"three", 3, 1, semaphore.ErrMismatch, "three"},
	} {
		t.Run(name, func(t *testing.T) {
			contract.InMemory(t, "/queue", func(s *contract.Stage) {
				for _, acquire := range []func(*semaphore.Semaphore, context.Context, int) (*zklocks.Hold, error){
					(*semaphore.Semaphore).Acquire, (*semaphore.Semaphore).TryAcquire,
				} {
					if c.stored != "" {
						_, err := s.Witness.Client().Create(s.Path, []byte(c.stored), zk.FlagPersistent, zk.WorldACL(zk.PermAll))
						s.Must(err)
					}
					sem := semaphore.New(locks.On(s.Connect()), s.Path, c.permits, semaphore.WithStoredPermits())
					h, err := acquire(sem, s.Ctx, c.n)
					s.Is(err, c.want)
					if h != nil {
						_, busy := sem.TryAcquire(s.Ctx, 1) // these are all permits
						s.Is(busy, zklocks.ErrBusy)
						release(s, h)
					}
					exists, _, err := s.Witness.Client().Exists(s.Path)
					s.Must(err)
					if exists != (c.after != "") || exists && stored(s) != c.after {
						s.Errorf("stored: %v, want %q", exists, c.after)
					}
					s.Empty()
					if exists {
						deleteAll(s)
					}
				}
			})
		})
	}
}

// A Semaphore that is created after a Resize uses the new number. Like the older ones, it follows
// the next Resize.
func TestASemaphoreMadeAfterAResizeFollowsIt(t *testing.T) {
	contract.InMemory(t, "/queue", func(s *contract.Stage) {
		start := func() *client {
			return newClient(s, 2, semaphore.WithStoredPermits())
		}
		first := start()
		release(s, first.acquire(2))
		s.Must(first.Resize(s.Ctx, 4))
		second := start()
		release(s, second.acquire(4))
		s.Must(second.Resize(s.Ctx, 1))
		for _, c := range []*client{first, second, start()} {
			h := c.acquire(1)
			_, err := c.TryAcquire(s.Ctx, 1)
			s.Is(err, zklocks.ErrBusy)
			_, err = c.TryAcquire(s.Ctx, 2)
			s.Is(err, semaphore.ErrTooMany)
			release(s, h)
		}
		_, err := newClient(s, 2).TryAcquire(s.Ctx, 1) // without the option
		s.Is(err, semaphore.ErrMismatch)
	})
}

func TestAnEmptyNodeGetsTheNumber(t *testing.T) {
	contract.InMemory(t, "/queue", func(s *contract.Stage) {
		acl := zk.DigestACL(zk.PermAdmin, "root", "secret")
		acl = append(acl, zk.WorldACL(zk.PermRead|zk.PermWrite|zk.PermCreate|zk.PermDelete)...)
		_, err := s.Witness.Client().Create(s.Path, nil, zk.FlagPersistent, acl)
		s.Must(err)
		_, err = newClient(s, 0).Acquire(s.Ctx, 1)
		s.Is(err, semaphore.ErrMismatch)
		release(s, newClient(s, 3).acquire(3))
		if got := stored(s); got != "3" {
			s.Errorf("stored %q", got)
		}
	})
}

// A lock has created the node as a container, which the server deletes when it is empty.
func TestTheNumberOutlivesTheQueueOfALock(t *testing.T) {
	for name, first := range map[string]func(s *contract.Stage, c *client){
		"by its first caller": func(s *contract.Stage, c *client) { release(s, c.acquire(1)) },
		"by a Resize":         func(s *contract.Stage, _ *client) { s.Must(newClient(s, 3).Resize(s.Ctx, 3)) },
	} {
		for _, below := range []string{"", "/files"} {
			t.Run(name+below, func(t *testing.T) {
				contract.InMemory(t, "/queue", func(s *contract.Stage) {
					h, err := rwlock.New(locks.On(s.Witness), s.Path+below).Lock(s.Ctx)
					s.Must(err)
					s.Must(h.Release(s.Ctx))
					c := newClient(s, 3, semaphore.WithStoredPermits())
					first(s, c)
					s.Pass(time.Minute) // ten times as long as a container lives here
					if got := stored(s); got != "3" {
						s.Errorf("stored %q", got)
					}
					release(s, c.acquire(3))
				})
			})
		}
	}
}

func TestResizeUpLetsAWaiterIn(t *testing.T) {
	contract.InMemory(t, "/queue", func(s *contract.Stage) {
		holder, waiter, resizer := newClient(s, 1), newClient(s, 1), newClient(s, 0)
		h := holder.acquire(1)
		first, second := waiter.wait(1, 2), waiter.wait(1, 3)
		s.Must(resizer.Resize(s.Ctx, 2))
		resized := time.Now()
		got := first.Granted()
		if d := time.Since(resized); d > time.Second { // a recheck would come after 5 s
			s.Errorf("granted %v after the Resize", d)
		}
		s.CatchUp(waiter.conn)
		second.Waits()
		s.Must(resizer.Resize(s.Ctx, 10))
		release(s, second.Granted())
		release(s, newClient(s, 10).acquire(8)) // a new value must be given the new number
		_, err := newClient(s, 1).TryAcquire(s.Ctx, 1)
		s.Is(err, semaphore.ErrMismatch)
		release(s, got)
		release(s, h)
		release(s, holder.acquire(10)) // an old value follows the Resize
	})
}

func TestResizeDownLeavesHoldersAndRefusesLargerRequests(t *testing.T) {
	contract.InMemory(t, "/queue", func(s *contract.Stage) {
		holder, big, less, small := newClient(s, 4), newClient(s, 4), newClient(s, 4), newClient(s, 4)
		h := holder.acquire(3)
		lost := h.Lost()
		three := less.wait(3, 6) // this waiter watches two of the holder's nodes
		four := big.wait(4, 10)  // this waiter watches one node, of the waiter ahead
		a := small.wait(2, 12)
		s.Must(holder.Resize(s.Ctx, 2))
		for n, b := range map[int]*attempt{4: four, 3: three} {
			if err := b.Failed(); !errors.Is(err, semaphore.ErrTooMany) || !strings.Contains(err.Error(), "only 2") {
				s.Errorf("the waiter for %d of two: %v", n, err)
			}
		}
		s.InLine(5) // their nodes were deleted
		s.CatchUp(small.conn)
		a.Waits()
		if !h.Held() || contract.Closed(lost) {
			s.Error("the holder lost its permits")
		}
		s.Must(h.Verify(s.Ctx))
		release(s, h)
		got := a.Granted()
		_, err := holder.TryAcquire(s.Ctx, 1)
		s.Is(err, zklocks.ErrBusy)
		release(s, got)
	})
}

// Queue uses the stored number: it lists a holder beyond that number as waiting, and as holding
// again when a holder ahead of it has released.
func TestQueueAfterAResizeToFewer(t *testing.T) {
	contract.InMemory(t, "/queue", func(s *contract.Stage) {
		c := newClient(s, 3)
		holds := []*zklocks.Hold{c.acquire(1), c.acquire(1), c.acquire(1)}
		shown := func(what string, want ...bool) {
			s.Helper()
			q, err := c.Queue(s.Ctx)
			s.Must(err)
			var got []bool
			for _, m := range q {
				got = append(got, m.Holding)
			}
			if !slices.Equal(got, want) {
				s.Errorf("%s: shown as holding: %v, want %v", what, got, want)
			}
		}
		shown("before", true, true, true)
		s.Must(c.Resize(s.Ctx, 2))
		shown("after", true, true, false)
		if !holds[2].Held() {
			s.Error("the third has lost its permit")
		}
		release(s, holds[0])
		shown("one is released", true, true)
		release(s, holds[1])
		release(s, holds[2])
	})
}

// After a Resize to fewer permits, a waiter is granted only when it is within the new number. The
// larger number that it read before no longer counts.
func TestResizeDownHoldsForWaiters(t *testing.T) {
	contract.InMemory(t, "/queue", func(s *contract.Stage) {
		c := newClient(s, 3)
		one, two, three := c.acquire(1), c.acquire(1), c.acquire(1)
		waiter := newClient(s, 3)
		a := waiter.wait(1, 4)
		s.Must(c.Resize(s.Ctx, 1))
		for _, h := range []*zklocks.Hold{three, one} {
			release(s, h)
			s.CatchUp(waiter.conn)
			a.Waits()
		}
		release(s, two)
		release(s, a.Granted())
	})
}

// resizeUnheard stores another number while no client has READ, so that the server withholds the
// event from all of them.
func resizeUnheard(s *contract.Stage, permits string) {
	s.Helper()
	_, err := s.Witness.Client().SetACL(s.Path, zk.WorldACL(zk.PermAll&^zk.PermRead), -1)
	s.Must(err)
	_, err = s.Witness.Client().Set(s.Path, []byte(permits), -1)
	s.Must(err)
	_, err = s.Witness.Client().SetACL(s.Path, zk.WorldACL(zk.PermAll), -1)
	s.Must(err)
}

// The event of a Resize was withheld. The client reads the new number when it queues, and then its
// waiters follow it.
func TestAResizeWithoutAnEvent(t *testing.T) {
	contract.InMemory(t, "/queue", func(s *contract.Stage) {
		c, other := newClient(s, 3), newClient(s, 3)
		holds := []*zklocks.Hold{other.acquire(1), other.acquire(1), other.acquire(1)}
		a := c.wait(1, 4)
		resizeUnheard(s, "1")
		b := c.wait(1, 5)
		for _, h := range holds {
			a.Waits()
			release(s, h)
			s.CatchUp(c.conn)
		}
		h := a.Granted()
		s.CatchUp(c.conn)
		b.Waits()
		release(s, h)
		release(s, b.Granted())
	})
}

// The server refuses the check of the number, not the create in the directory, and the error says
// so. When the right is restored, a cycle takes as few requests as before.
func TestTheNumberMayNotBeReadAnyMore(t *testing.T) {
	contract.InMemory(t, "/queue", func(s *contract.Stage) {
		for missing, right := range map[int32]string{zk.PermRead: "READ on " + s.Path, zk.PermCreate: "CREATE on " + s.Path + "/queue"} {
			conn, through := s.Behind()
			sem := semaphore.New(locks.On(conn), s.Path, 3)
			cycle := func() int64 {
				before := through.Seen(proxy.AnyOp)
				h, err := sem.Acquire(s.Ctx, 1)
				s.Must(err)
				s.Must(h.Release(s.Ctx))
				return through.Seen(proxy.AnyOp) - before
			}
			cycle() // creates what is missing
			cycle() // reads the number
			usual := cycle()
			path := s.Path
			if missing == zk.PermCreate {
				path += "/queue"
			}
			_, err := s.Witness.Client().SetACL(path, zk.WorldACL(zk.PermAll&^missing), -1)
			s.Must(err)
			for range 2 {
				_, err = sem.Acquire(s.Ctx, 1)
				s.Is(err, zk.ErrNoAuth)
				if err == nil || !strings.HasSuffix(err.Error(), right) {
					s.Errorf("%v; it takes %s", err, right)
				}
			}
			_, err = s.Witness.Client().SetACL(path, zk.WorldACL(zk.PermAll), -1)
			s.Must(err)
			cycle() // may read the number again
			if n := cycle(); n != usual {
				s.Errorf("%d requests for an uncontended cycle, want %d", n, usual)
			}
			s.Empty()
		}
	})
}

// The event of the number's deletion was withheld. The client stores the number again.
func TestADeletedNumberWithoutAnEvent(t *testing.T) {
	contract.InMemory(t, "/queue", func(s *contract.Stage) {
		c := newClient(s, 3)
		release(s, c.acquire(1))
		_, err := s.Witness.Client().SetACL(s.Path, zk.WorldACL(zk.PermAll&^zk.PermRead), -1)
		s.Must(err)
		s.Must(s.Witness.Client().Delete(s.Path+"/queue", -1))
		s.Must(s.Witness.Client().Delete(s.Path, -1))
		release(s, c.acquire(1))
	})
}

// A Semaphore that follows the stored number has read another number than New was given. The node
// is deleted.
func TestTheNumberThatWasReadLastIsStoredAgain(t *testing.T) {
	contract.InMemory(t, "/queue", func(s *contract.Stage) {
		c := newClient(s, 2, semaphore.WithStoredPermits())
		release(s, c.acquire(2))
		s.Must(newClient(s, 0).Resize(s.Ctx, 4))
		release(s, c.acquire(4))
		deleteAll(s)
		release(s, c.acquire(4))
		if got := stored(s); got != "4" {
			s.Errorf("stored %q", got)
		}
	})
}

func TestResizeOfNothingStoresTheNumber(t *testing.T) {
	contract.InMemory(t, "/queue", func(s *contract.Stage) {
		c := newClient(s, 0)
		dead, cancel := context.WithCancel(s.Ctx)
		cancel()
		s.Is(c.Resize(dead, 5), context.Canceled)
		exists, _, err := s.Witness.Client().Exists(s.Path)
		s.Must(err)
		if exists {
			s.Error("resized for a caller that had gone")
		}
		s.Must(c.Resize(s.Ctx, 5))
		if got := stored(s); got != "5" {
			s.Errorf("stored %q", got)
		}
		release(s, c.acquire(5))
		s.Pass(time.Minute) // ten times as long as a container lives here
		if got := stored(s); got != "5" {
			s.Errorf("after a while, stored %q", got)
		}
	})
}

// A semaphore is deleted and created between the read of the number and the create of a permit's
// node. The version of the new node equals the version that was read.
func TestANumberOfAnotherLifeIsNoticedByTheCreate(t *testing.T) {
	contract.InMemory(t, "/queue", func(s *contract.Stage) {
		c, p := behind(s, 3)
		release(s, c.acquire(3))
		create := p.Next(proxy.CreateOp, proxy.HoldRequest)
		tried := contract.Begin(s, s.Ctx, func(ctx context.Context) (*zklocks.Hold, error) { return c.TryAcquire(ctx, 1) })
		s.Fired(create)
		deleteAll(s)
		h := newClient(s, 1).acquire(1)
		create.Release()
		s.Is(tried.Failed(), zklocks.ErrBusy) // of the only permit
		release(s, h)
	})
}

// After a reconnect the client sets the watch on the number again later than the first requests are
// answered.
func TestTheNumberIsReadAgainAfterAReconnect(t *testing.T) {
	contract.InMemory(t, "/queue", func(s *contract.Stage) {
		c, p := behind(s, 3)
		reads := func() (n int64) {
			before := p.Seen(proxy.ReadOp)
			release(s, c.acquire(1))
			return p.Seen(proxy.ReadOp) - before
		}
		stays := c.acquire(1) // or the server would delete the empty directory
		reads()
		if n := reads(); n != 0 {
			s.Errorf("%d reads of what is known", n)
		}
		p.Cut()
		s.CatchUp(c.conn)
		if reads() == 0 {
			s.Error("what was known before the reconnect was taken")
		}
		if n := reads(); n != 0 {
			s.Errorf("%d reads of what is known again", n)
		}
		release(s, stays)
	})
}

// A semaphore stores no number at a path where a lock of another kind, or of another library, has a
// node. The semaphore stores its number once that node is gone.
func TestTheFirstNumberIsNotStoredNextToAnotherLock(t *testing.T) {
	const id, uuid = "076e6e61c0cde965b0859f41aaeb74ff", "_c_076e6e61-c0cd-e965-b085-9f41aaeb74ff-"
	for name, prefix := range map[string]string{
		"a writer":                        uuid + "write-",
		"a reader":                        uuid + "read-",
		"reentrant, and Curator's mutex":  uuid + "lock-",
		"a leader of LeaderLatch's names": uuid + "latch-",
		"Curator's read/write lock":       uuid + "__WRIT__",
		"Curator's reader":                uuid + "__READ__",
		"kazoo's lock":                    id + "__lock__",
		"kazoo's reader":                  id + "__rlock__",
	} {
		t.Run(name, func(t *testing.T) {
			contract.InMemory(t, "/queue", func(s *contract.Stage) {
				_, err := s.Witness.Client().Create(s.Path, nil, zk.FlagPersistent, zk.WorldACL(zk.PermAll))
				s.Must(err)
				theirs, err := s.Witness.Client().Create(s.Path+"/"+prefix, nil, zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
				s.Must(err)
				sem := newClient(s, 3)
				for range 2 {
					_, err := sem.Acquire(s.Ctx, 1)
					s.Is(err, semaphore.ErrMismatch)
					_, err = sem.TryAcquire(s.Ctx, 1)
					s.Is(err, semaphore.ErrMismatch)
					s.Is(sem.Resize(s.Ctx, 4), semaphore.ErrMismatch)
				}
				if got := stored(s); got != "" {
					s.Errorf("stored %q", got)
				}
				if left := test.Children(s, s.Witness.Client(), s.Path); len(left) != 1 {
					s.Errorf("left %q", left)
				}
				s.Must(s.Witness.Client().Delete(theirs, -1))
				h := sem.acquire(3)
				if got := stored(s); got != "3" {
					s.Errorf("stored %q after the release", got)
				}
				s.Must(h.Release(s.Ctx))
			})
		})
	}
}

// A program may use a semaphore for each of its customers. Some time after the last release the
// server deletes the node with the number. Only WithStoredPermits keeps the number, but no watch on
// it.
func TestASemaphoreLeavesNothing(t *testing.T) {
	const keys = 100
	for name, c := range map[string]struct {
		opts []semaphore.Option
		kept int
	}{
		"the number given to New": {nil, 0},
		"the stored number":       {[]semaphore.Option{semaphore.WithStoredPermits()}, keys},
	} {
		t.Run(name, func(t *testing.T) {
			contract.InMemory(t, "/queue", func(s *contract.Stage) {
				conn := s.Connect()
				var nodes []string
				for i := range keys {
					sem := semaphore.New(locks.On(conn), fmt.Sprint(s.Path, "-", i), 2, c.opts...)
					first, err := sem.Acquire(s.Ctx, 1)
					s.Must(err)
					second, err := sem.Acquire(s.Ctx, 1)
					s.Must(err)
					release(s, first)
					release(s, second)
					nodes = append(nodes, fmt.Sprint(s.Path, "-", i))
				}
				s.Pass(time.Minute) // ten times as long as a container lives here
				left := 0
				for _, path := range nodes {
					exists, _, err := s.Witness.Client().Exists(path)
					s.Must(err)
					if exists {
						left++
					}
				}
				watched := len(s.Venue.Watched(s, conn.Session()))
				if left != c.kept || watched != 0 {
					s.Errorf("%d nodes and %d watches are left of %d semaphores, want %d and none", left, watched, keys, c.kept)
				}
			})
		})
	}
}
