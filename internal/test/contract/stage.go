package contract

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/internal/test/venue"
	"github.com/zklocks/zklocks/internal/wire"
	"github.com/zklocks/zklocks/internal/zkclient"
)

const (
	// session is longer than any pause of a machine, so that a session expires only if a test makes
	// it expire.
	session = 15 * time.Second
	// quietSession is so long that no heartbeat and no ping is due in a test.
	quietSession = time.Minute
)

// Stage is a lock path on a server, and a witness that reads it.
type Stage struct {
	*testing.T
	Venue   venue.Venue
	Ctx     context.Context
	Path    string // of the lock
	Dir     string // in which the nodes stand
	Server  string
	Witness *wire.Conn
}

// InMemory runs a test on a stage in memory, in virtual time, in parallel with others. The
// directory is below the path. When the test ends, the queue must have no node left.
func InMemory(t *testing.T, below string, play func(*Stage)) {
	t.Helper()
	t.Parallel()
	venue.InMemory(t, func(t *testing.T, v venue.Venue) {
		s := NewStage(t, v, below)
		play(s)
		s.Empty()
	})
}

// NewStage returns a stage on the server that a venue's tests share.
func NewStage(t *testing.T, v venue.Venue, below string) *Stage {
	t.Helper()
	return stageAt(t, v, below, v.Servers(t)[0])
}

func stageAt(t *testing.T, v venue.Venue, below, server string) *Stage {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	path := test.Path(t)
	return &Stage{
		T: t, Venue: v, Ctx: ctx, Path: path, Dir: path + below, Server: server,
		Witness: v.Connect(t, session, server),
	}
}

// Virtual reports whether the stage is in memory, where time passes only when all goroutines wait.
func (s *Stage) Virtual() bool { return s.Venue.Virtual() }

// Settle returns, in memory, when all goroutines wait for the test or for time to pass: nothing is
// under way any more.
func (s *Stage) Settle() {
	if s.Virtual() {
		synctest.Wait()
	}
}

// Pass lets time pass in memory, so that a measured duration is more than 0. On a real server each
// step takes time.
func (s *Stage) Pass(d time.Duration) {
	if s.Virtual() {
		time.Sleep(d)
	}
}

// Unsure asserts that the text of an error says that the transaction may have taken place, and that
// the error matches a lost answer. It must not match the end of the hold, which would say that
// nothing was done.
func (s *Stage) Unsure(err, missing error) {
	s.Helper()
	s.Is(err, missing)
	if errors.Is(err, zklocks.ErrLost) || errors.Is(err, zklocks.ErrReleased) || err == nil || !strings.Contains(err.Error(), "may have taken place") {
		s.Errorf("error %v: as if nothing had been done", err)
	}
}

// AtOnce asserts that something took no time; on a real server, next to none.
func (s *Stage) AtOnce(what string, took time.Duration) { s.Helper(); s.Within(what, took, 0) }

// Within asserts that something took no longer than most. In memory that is exact. On a real server
// a busy machine adds to it, so there it only shows that nothing hangs.
func (s *Stage) Within(what string, took, most time.Duration) {
	s.Helper()
	if !s.Virtual() {
		most += soon
	}
	if took > most {
		s.Errorf("%s took %v, want at most %v", what, took, most)
	}
}

// Lasted asserts how long something is said to have lasted: some time, and on a real server between
// least and most, in memory exactly most.
func (s *Stage) Lasted(what string, said, least, most time.Duration) {
	s.Helper()
	if said <= 0 || said < least || said > most || s.Virtual() && said != most {
		s.Errorf("%s: said to have lasted %v, want %v to %v", what, said, least, most)
	}
}

// Connect connects as zklocks does.
func (s *Stage) Connect() *wire.Conn {
	s.Helper()
	return s.kept(s.Venue.Connect(s, session, s.Server))
}

// kept checks at the end of a test in memory that the connection keeps nothing for locks. The test
// has released all that it held, and left all queues.
func (s *Stage) kept(conn *wire.Conn) *wire.Conn {
	s.Cleanup(func() {
		if !s.Virtual() || conn.IsClosed() || s.Failed() {
			return
		}
		client := zkclient.Of(conn)
		for range 2 * 60 {
			if len(client.Kept()) == 0 {
				return
			}
			time.Sleep(time.Second / 2) // virtual
		}
		s.Errorf("a minute after the test the connection keeps %q, in the state %v", client.Kept(), conn.State())
	})
	return conn
}

// Behind connects through a proxy.
func (s *Stage) Behind() (*wire.Conn, *proxy.Proxy) {
	s.Helper()
	return s.BehindFor(session)
}

// BehindFor is Behind with another session timeout.
func (s *Stage) BehindFor(timeout time.Duration) (*wire.Conn, *proxy.Proxy) {
	s.Helper()
	p := s.Venue.Proxy(s, s.Server)
	return s.kept(s.Venue.Connect(s, timeout, p.Addr())), p
}

// ConnectWith connects with options of its own. The caller closes it.
func (s *Stage) ConnectWith(ctx context.Context, server string, opts ...wire.Option) (*wire.Conn, error) {
	return wire.Connect(ctx, []string{server}, session, append(s.Venue.Dialer(), opts...)...)
}

// Expire ends a session at the server.
func (s *Stage) Expire(conn *wire.Conn) { s.Helper(); s.Venue.Expire(s, conn) }

// Must fails the test on an error.
func (s *Stage) Must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// Is asserts that an error matches another.
func (s *Stage) Is(err, want error) {
	s.Helper()
	if !errors.Is(err, want) {
		s.Errorf("error %v, want one that is %q", err, want)
	}
}

// InLine waits until the queue has so many nodes.
func (s *Stage) InLine(nodes int) {
	s.Helper()
	var last []string
	defer func() {
		if len(last) != nodes {
			s.Logf("in line: %q", last) // the queue never had that many nodes
		}
	}()
	test.Eventually(s, soon, "nodes in line", func() bool {
		last = test.Children(s, s.Witness.Client(), s.Dir)
		return len(last) == nodes
	})
}

// Empty asserts that no node is left in the queue.
func (s *Stage) Empty() {
	s.Helper()
	test.AssertEmpty(s, s.Witness.Client(), s.Dir)
}

// EmptyNow is Empty without waiting.
func (s *Stage) EmptyNow() {
	s.Helper()
	if left := test.Children(s, s.Witness.Client(), s.Dir); len(left) > 0 {
		s.Errorf("%s has children: %v", s.Dir, left)
	}
}

// CatchUp returns when what the server has sent to a client has arrived; in memory, when it has had
// all its effects.
func (s *Stage) CatchUp(conn *wire.Conn) {
	s.Helper()
	for range 10 {
		test.Eventually(s, soon, "an answer", func() bool {
			_, err := conn.Ask(s.Ctx, wire.AnySession, wire.Exists("/"))
			return err == nil
		})
	}
	s.Settle()
}

// Fired waits until a fault has met its request.
func (s *Stage) Fired(f *proxy.Fault) {
	s.Helper()
	test.Within(s, soon, "the fault meets its request", func() { <-f.Fired() })
}

// Lost waits until a hold reports its loss.
func (s *Stage) Lost(lost <-chan struct{}) {
	s.Helper()
	test.Within(s, soon, "the loss is reported", func() { <-lost })
}

// NodeOf returns the path of a hold's node; of its first node, if it has several.
func NodeOf(h *zklocks.Hold) string { return h.Guard()[0].(*zk.CheckVersionRequest).Path }
