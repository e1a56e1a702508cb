package zklocks_test

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/leader"
	"github.com/zklocks/zklocks/reentrant"
	"github.com/zklocks/zklocks/rwlock"
	"github.com/zklocks/zklocks/semaphore"
	"github.com/zklocks/zklocks/zktest"
)

// texts is the setup of a test of error texts: the connection here, whose calls time out, and the
// connection there.
type texts struct {
	*testing.T
	host        *zktest.Host
	here, there *zklocks.Conn
}

func (t *texts) takes(lock acquire) *zklocks.Hold {
	t.Helper()
	h, err := lock(t.Context())
	must(t, err)
	return h
}

// queues makes n calls wait until the test ends.
func (t *texts) queues(n int, lock acquire) {
	for range n {
		go func() { _, _ = lock(t.Context()) }()
		time.Sleep(100 * time.Millisecond) // virtual
	}
}

func writer(c *zklocks.Conn) acquire { return rwlock.New(c, "/l").Lock }
func reader(c *zklocks.Conn) acquire { return rwlock.New(c, "/l").RLock }
func mutex(c *zklocks.Conn) acquire  { return reentrant.New(c, "/l").Lock }
func permits(c *zklocks.Conn, n int) acquire {
	return semaphore.New(c, "/s", 3).Locker(n).Lock
}
func handoff(c *zklocks.Conn) *rwlock.RWMutex { return rwlock.New(c, "/l", rwlock.WithHandoff(4)) }

const timedOut = "context deadline exceeded"

// If a call times out, its error says in one line which call it was and what it waited for.
func TestTheErrorOfAWaitThatTimesOut(t *testing.T) {
	for name, tc := range map[string]struct {
		call func(*texts) acquire // waits for 8 seconds
		says string
	}{
		"another process holds": {func(t *texts) acquire {
			t.takes(writer(t.there))
			return writer(t.here)
		}, "rwlock: lock /l: " + timedOut + ": 1 ahead in the queue; this connection holds none"},
		"this connection holds": {func(t *texts) acquire {
			t.takes(writer(t.here))
			time.Sleep(32 * time.Second) // virtual
			return writer(t.here)
		}, "rwlock: lock /l: " + timedOut + ": 1 ahead in the queue; this connection has held 1 for 40s"},
		"a writer that has downgraded": {func(t *texts) acquire {
			m := rwlock.New(t.here, "/l")
			h := t.takes(m.Lock)
			time.Sleep(32 * time.Second) // virtual
			must(t, m.Downgrade(t.Context(), h))
			return m.Lock
		}, "rwlock: lock /l: " + timedOut + ": 1 ahead in the queue; this connection has held 1 for 40s"},
		"three ahead, the first of this connection": {func(t *texts) acquire {
			t.takes(writer(t.here))
			t.queues(2, writer(t.there))
			return writer(t.here)
		}, "rwlock: lock /l: " + timedOut + ": 3 ahead in the queue; this connection has held 1 for 8.2s"},
		"three ahead, two of them wait here": {func(t *texts) acquire {
			t.takes(writer(t.there))
			t.queues(2, writer(t.here))
			return writer(t.here)
		}, "rwlock: lock /l: " + timedOut + ": 3 ahead in the queue; this connection holds none"},
		"a writer ahead that waits for this connection": {func(t *texts) acquire {
			m := rwlock.New(t.here, "/l")
			t.takes(m.RLock)
			t.queues(1, writer(t.there))
			return m.RLock
		}, "rwlock: read lock /l: " + timedOut + ": 1 ahead in the queue, a writer that waits for a read hold of this connection, held for 8.1s"},
		"two such writers, one of this connection": {func(t *texts) acquire {
			m := rwlock.New(t.here, "/l", rwlock.WithCuratorNames())
			must(t, m.Downgrade(t.Context(), t.takes(m.Lock)))
			t.queues(1, rwlock.New(t.there, "/l", rwlock.WithCuratorNames()).Lock)
			t.queues(1, m.Lock)
			return m.RLock
		}, "rwlock: read lock /l: " + timedOut + ": 2 ahead in the queue, writers that wait for a read hold of this connection, held for 8.2s"},
		"a writer ahead that waits for another connection": {func(t *texts) acquire {
			t.takes(reader(t.there))
			t.takes(rwlock.New(t.here, "/l/below").RLock)
			t.queues(1, writer(t.here))
			return reader(t.here)
		}, "rwlock: read lock /l: " + timedOut + ": 1 ahead in the queue; this connection holds none"},
		"a node that the server refuses to delete": {func(t *texts) acquire {
			for _, path := range []string{"/l", "/l/below"} {
				h := t.takes(rwlock.New(t.here, path).Lock)
				must(t, second(t.there.Client().SetACL(path, zk.WorldACL(zk.PermAll&^zk.PermDelete), -1)))
				if err := h.Release(t.Context()); !errors.Is(err, zk.ErrNoAuth) {
					t.Error(err)
				}
			}
			return reader(t.here)
		}, "rwlock: read lock /l: " + timedOut + ": 1 ahead in the queue; this connection has released 1 that the server refuses to delete"},
		"nested": {func(t *texts) acquire { // other locks of the connection are not mentioned
			t.takes(rwlock.New(t.here, "/l/below").Lock)
			t.takes(reentrant.New(t.here, "/l/beside").Lock)
			t.takes(writer(t.there))
			return writer(t.here)
		}, "rwlock: lock /l: " + timedOut + ": 1 ahead in the queue; this connection holds none"},
		"handed on within the process": {func(t *texts) acquire {
			m := handoff(t.here)
			t.takes(m.Lock)
			t.queues(1, m.Lock)
			return m.Lock
		}, "rwlock: lock /l: " + timedOut + ": 2 ahead in the queue; this connection has held 1 for 8.1s"},
		"handed on elsewhere": {func(t *texts) acquire {
			t.takes(writer(t.there))
			return handoff(t.here).Lock
		}, "rwlock: lock /l: " + timedOut + ": 1 ahead in the queue; this connection holds none"},
		"semaphore": {func(t *texts) acquire {
			t.takes(permits(t.there, 2))
			t.takes(permits(t.here, 1))
			return permits(t.here, 2)
		}, "semaphore: acquire /s: " + timedOut + ": 2 ahead in the queue; this connection has held 1 for 8s"},
		"all": {func(t *texts) acquire {
			t.takes(rwlock.New(t.there, "/b").Lock)
			t.takes(permits(t.here, 3))
			return zklocks.All(rwlock.New(t.here, "/a"), rwlock.New(t.here, "/b"), semaphore.New(t.here, "/s", 3).Locker(1)).Lock
		}, "zklocks: lock /a and /b and /s: " + timedOut + ": /b: 1 ahead in the queue; this connection holds none"},
		"all, after the turn of one has come": {func(t *texts) acquire {
			h := t.takes(rwlock.New(t.there, "/a").Lock)
			t.takes(rwlock.New(t.there, "/b").Lock)
			time.AfterFunc(4*time.Second, func() { _ = h.Release(context.Background()) })
			return zklocks.All(rwlock.New(t.here, "/a"), rwlock.New(t.here, "/b")).Lock
		}, "zklocks: lock /a and /b: " + timedOut + ": /b: 1 ahead in the queue; this connection holds none"},
		"leader": {func(t *texts) acquire {
			t.takes(leader.New(t.there, "/l").Campaign)
			return leader.New(t.here, "/l").Campaign
		}, "leader: campaign /l: " + timedOut + ": 1 ahead in the queue; this connection holds none"},
	} {
		t.Run(name, func(t *testing.T) {
			inTexts(t, func(t *texts) {
				call := tc.call(t)
				ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second)
				defer cancel()
				_, err := call(ctx)
				t.says(err, tc.says, false)
			})
		})
	}
}

func inTexts(t *testing.T, f func(*texts)) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.NewServer(t, zktest.WithHoldsLeft())
		host := s.Host("here")
		f(&texts{t, host, host.Connect(t, 10*time.Second), s.Host("there").Connect(t, 10*time.Second)})
	})
}

// says checks the error of a call whose ctx was canceled.
func (t *texts) says(err error, want string, noAnswer bool) {
	t.Helper()
	t.Log(err)
	if !errors.Is(err, context.DeadlineExceeded) || !regexp.MustCompile("^"+want+"$").MatchString(err.Error()) {
		t.Errorf("error %v, want %s", err, want)
	}
	if got := errors.Is(err, zklocks.ErrNoAnswer); got != noAnswer {
		t.Errorf("matches ErrNoAnswer: %v, want %v", got, noAnswer)
	}
}

// outages are reasons why no server answers, and the text of the error after four seconds.
var outages = map[string]struct {
	begin func(*zktest.Host)
	says  string
}{
	"silent":        {(*zktest.Host).Partition, `127\.0\.0\.1:1 has been silent for [234](\.\d*)?s`},
	"no connection": {(*zktest.Host).Refuse, `no connection for 4(\.1)?s; tried: 127\.0\.0\.1:1; last attempt: connect: connection refused`},
	"throttled": {func(h *zktest.Host) {
		for n := 1; n <= 1000; n++ {
			h.Nth(zktest.Any, n, zktest.Answer(-127))
		}
	}, `the server is overloaded and has dropped the request \(code -127\)`},
}

// No server answers from before the call, or while the call waits.
func TestTheErrorOfACallThatNoServerAnswers(t *testing.T) {
	one := func(c *zklocks.Conn) zklocks.Locker { return rwlock.New(c, "/l") }
	campaign := func(c *zklocks.Conn) acquire { return leader.New(c, "/l").Campaign }
	all := func(c *zklocks.Conn) zklocks.Locker { return zklocks.All(rwlock.New(c, "/a"), one(c)) }
	for name, tc := range map[string]struct {
		call          func(*texts) acquire
		before, after string // the reason
		waits         bool
	}{
		"lock":         {func(t *texts) acquire { return writer(t.here) }, "rwlock: lock /l: ", "", true},
		"read lock":    {func(t *texts) acquire { return reader(t.here) }, "rwlock: read lock /l: ", "", true},
		"with handoff": {func(t *texts) acquire { return handoff(t.here).Lock }, "rwlock: lock /l: ", "", true},
		"try lock":     {func(t *texts) acquire { return one(t.here).TryLock }, "rwlock: try lock /l: ", "", false},
		"reentrant":    {func(t *texts) acquire { return mutex(t.here) }, "reentrant: lock /l: ", "", true},
		"acquire":      {func(t *texts) acquire { return permits(t.here, 2) }, "semaphore: acquire /s: ", "", true},
		"all":          {func(t *texts) acquire { return all(t.here).Lock }, "zklocks: lock /a and /l: ", "", true},
		"try all":      {func(t *texts) acquire { return all(t.here).TryLock }, "zklocks: try lock /a and /l: ", "", false},
		"campaign":     {func(t *texts) acquire { return campaign(t.here) }, "leader: campaign /l: ", "", true},
		"release": {func(t *texts) acquire {
			return onHold(t, func(ctx context.Context, h *zklocks.Hold) error { return h.Release(ctx) })
		}, "rwlock: release /l: ", ` \(the node is being deleted in the background\)`, false},
		"release of all": {func(t *texts) acquire {
			h := t.takes(all(t.here).Lock)
			return func(ctx context.Context) (*zklocks.Hold, error) { return nil, h.Release(ctx) }
		}, "zklocks: release /a and /l: ", ` \(the node is being deleted in the background\)`, false},
		"downgrade": {func(t *texts) acquire {
			m := rwlock.New(t.here, "/l")
			h := t.takes(m.Lock)
			return func(ctx context.Context) (*zklocks.Hold, error) { return nil, m.Downgrade(ctx, h) }
		}, "rwlock: downgrade /l: ", ` \(the downgrade goes on in the background\)`, false},
		"verify": {func(t *texts) acquire {
			return onHold(t, func(ctx context.Context, h *zklocks.Hold) error { return h.Verify(ctx) })
		}, "rwlock: verify /l: ", "", false},
		"multi": {func(t *texts) acquire {
			return onHold(t, func(ctx context.Context, h *zklocks.Hold) error {
				_, err := h.Multi(ctx, &zk.DeleteRequest{Path: "/x"})
				return err
			})
		}, "rwlock: multi /l: (the transaction may have taken place: )?", "", false},
		"queue": {func(t *texts) acquire {
			return func(ctx context.Context) (*zklocks.Hold, error) {
				_, err := rwlock.New(t.here, "/l").Queue(ctx)
				return nil, err
			}
		}, "rwlock: queue of /l: ", "", false},
		"leader of": {func(t *texts) acquire {
			return func(ctx context.Context) (*zklocks.Hold, error) {
				_, err := leader.New(t.here, "/l").Leader(ctx)
				return nil, err
			}
		}, "leader: leader of /l: ", "", false},
	} {
		for outage, o := range outages {
			want := tc.before + timedOut + ": no answer from ZooKeeper: " + o.says + tc.after
			t.Run(name+", "+outage, func(t *testing.T) {
				inTexts(t, func(t *texts) {
					call := tc.call(t)
					o.begin(t.host)
					time.Sleep(100 * time.Millisecond) // virtual
					ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
					defer cancel()
					_, err := call(ctx)
					t.says(err, want, true)
				})
			})
			if !tc.waits {
				continue
			}
			t.Run(name+", "+outage+" during the wait", func(t *testing.T) {
				inTexts(t, func(t *texts) {
					t.takes(permits(t.there, 3))
					if strings.HasPrefix(tc.before, "reentrant") || strings.HasPrefix(tc.before, "leader") {
						t.takes(mutex(t.there))
					} else {
						t.takes(writer(t.there))
					}
					call := tc.call(t)
					ctx, cancel := context.WithTimeout(t.Context(), 12*time.Second)
					defer cancel()
					time.AfterFunc(8*time.Second, func() { o.begin(t.host) })
					_, err := call(ctx)
					t.says(err, want, true)
				})
			})
		}
	}
}

func TestTheErrorOfACallThatBeginsLongAfterTheConnectionWasLost(t *testing.T) {
	inTexts(t, func(t *texts) {
		t.host.Refuse()
		time.Sleep(30 * time.Second) // virtual
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := writer(t.here)(ctx)
		t.says(err, "rwlock: lock /l: "+timedOut+": no answer from ZooKeeper: no connection for 31s; .*", true)
	})
}

// onHold returns a call of a method of an existing hold.
func onHold(t *texts, f func(context.Context, *zklocks.Hold) error) acquire {
	h := t.takes(writer(t.here))
	return func(ctx context.Context) (*zklocks.Hold, error) { return nil, f(ctx, h) }
}

// The error of a transaction says which operation failed.
func TestWhichOperationOfAMultiFailed(t *testing.T) {
	inTexts(t, func(t *texts) {
		h := t.takes(writer(t.here))
		_, err := h.Multi(t.Context(),
			&zk.CreateRequest{Path: "/x", Acl: zk.WorldACL(zk.PermAll)},
			&zk.SetDataRequest{Path: "/x", Version: -1},
			&zk.CreateRequest{Path: "/jobs/x", Acl: zk.WorldACL(zk.PermAll)})
		if want := "rwlock: multi /l: operation 2 (create /jobs/x): zk: node does not exist"; !errors.Is(err, zk.ErrNoNode) || err.Error() != want {
			t.Errorf("error %v, want %s", err, want)
		}
	})
}
