package contract

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/zktest"
)

const (
	// session is longer than any pause of this machine: only what is made to
	// expire does.
	session = 15 * time.Second
	// quietSession is so long that no heartbeat and no ping is due in a test.
	quietSession = time.Minute
)

// Stage is a lock path on a server, and a witness who looks at it.
type Stage struct {
	*testing.T
	Ctx     context.Context
	Path    string // of the lock
	Dir     string // in which the nodes stand
	Server  string
	Witness *zk.Conn
}

// NewStage is a stage on the shared server. The directory is below the path.
func NewStage(t *testing.T, below string) *Stage {
	t.Helper()
	return stageAt(t, below, zktest.Servers(t)[0])
}

func stageAt(t *testing.T, below, server string) *Stage {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	path := zktest.Path(t)
	return &Stage{
		T: t, Ctx: ctx, Path: path, Dir: path + below, Server: server,
		Witness: zktest.Connect(t, session, server),
	}
}

// Connect connects as zklocks does.
func (s *Stage) Connect() *zk.Conn {
	s.Helper()
	return zktest.Connect(s, session, s.Server)
}

// Behind connects through a proxy.
func (s *Stage) Behind() (*zk.Conn, *zktest.Proxy) {
	s.Helper()
	return s.BehindFor(session)
}

// BehindFor does it with another session timeout.
func (s *Stage) BehindFor(timeout time.Duration) (*zk.Conn, *zktest.Proxy) {
	s.Helper()
	p := zktest.ProxyFor(s, s.Server)
	return zktest.Connect(s, timeout, p.Addr()), p
}

// Must fails the test on an error.
func (s *Stage) Must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// Is checks an error's kind.
func (s *Stage) Is(err, want error) {
	s.Helper()
	if !errors.Is(err, want) {
		s.Errorf("error %v, want one that is %q", err, want)
	}
}

// InLine waits until so many nodes stand in line.
func (s *Stage) InLine(nodes int) {
	s.Helper()
	var last []string
	defer func() {
		if len(last) != nodes {
			s.Logf("in line: %q", last) // it has not come to that
		}
	}()
	zktest.Eventually(s, soon, "nodes in line", func() bool {
		last = zktest.Children(s, s.Witness, s.Dir)
		return len(last) == nodes
	})
}

// Empty asserts that nobody is left in line.
func (s *Stage) Empty() {
	s.Helper()
	zktest.AssertEmpty(s, s.Witness, s.Dir)
}

// EmptyNow asserts it without patience.
func (s *Stage) EmptyNow() {
	s.Helper()
	if left := zktest.Children(s, s.Witness, s.Dir); len(left) > 0 {
		s.Errorf("%s has children: %v", s.Dir, left)
	}
}

// CatchUp returns when whatever the server has sent to a client has arrived.
func (s *Stage) CatchUp(conn *zk.Conn) {
	s.Helper()
	for range 10 {
		zktest.Eventually(s, soon, "an answer", func() bool {
			_, _, err := conn.Exists("/")
			return err == nil
		})
	}
}

// Lost waits until a loss is told.
func (s *Stage) Lost(lost <-chan struct{}) {
	s.Helper()
	zktest.Within(s, soon, "the loss is told", func() { <-lost })
}
