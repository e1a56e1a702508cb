package zkclient

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/leaks"
	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/internal/test/venue"
	"github.com/zklocks/zklocks/internal/wire"
	"github.com/zklocks/zklocks/internal/znode"
)

func TestMain(m *testing.M) { leaks.Main(m) }

var open = zk.WorldACL(zk.PermAll)

// line is a directory with a client behind a proxy, and a witness with a direct connection.
type line struct {
	*proxy.Proxy
	v       venue.Venue
	conn    *wire.Conn
	client  *Client
	sess    int64
	witness *wire.Conn
	dir     string
}

// withLine runs a test in memory, in parallel with others.
func withLine(t *testing.T, timeout time.Duration, f func(*testing.T, *line)) {
	t.Helper()
	t.Parallel()
	venue.InMemory(t, func(t *testing.T, v venue.Venue) { f(t, newLine(t, v, timeout)) })
}

func newLine(t *testing.T, v venue.Venue, timeout time.Duration) *line {
	t.Helper()
	return newLineAt(t, v, timeout, v.Servers(t)[0])
}

func newLineAt(t *testing.T, v venue.Venue, timeout time.Duration, server string) *line {
	t.Helper()
	p := v.Proxy(t, server)
	l := &line{
		Proxy:   p,
		v:       v,
		conn:    v.Connect(t, timeout, p.Addr()),
		witness: v.Connect(t, 20*time.Second, server),
		dir:     test.Path(t),
	}
	l.client = Of(l.conn)
	l.sess = l.conn.Session()
	if _, err := l.witness.Client().Create(l.dir, nil, 0, open); err != nil {
		t.Fatal(err)
	}
	return l
}

func (l *line) want(nodes int) Claim {
	return Claim{Dir: l.dir, Kind: znode.Lock, Nodes: nodes, ACL: open, Touch: true}
}

// claim creates nodes, and fails the test if it cannot.
func (l *line) claim(t *testing.T, nodes int) []znode.Node {
	t.Helper()
	made, err := claimOne(within(t, 20*time.Second), l.client, l.sess, l.want(nodes))
	if err != nil {
		t.Fatal(err)
	}
	return made.Nodes
}

// claiming creates nodes on another goroutine.
func (l *line) claiming(ctx context.Context, nodes int) <-chan error {
	return async(func() error {
		_, err := claimOne(ctx, l.client, l.sess, l.want(nodes))
		return err
	})
}

// children returns the children of a directory after a barrier.
func (l *line) children(t *testing.T) []string {
	t.Helper()
	if _, err := l.witness.Client().Sync(l.dir); err != nil {
		t.Fatal(err)
	}
	return test.Children(t, l.witness.Client(), l.dir)
}

// empty fails the test if the directory has children.
func (l *line) empty(t *testing.T) {
	t.Helper()
	if left := l.children(t); len(left) != 0 {
		t.Errorf("left: %q", left)
	}
}

func (l *line) path(n znode.Node) string { return l.dir + "/" + n.Name }

func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

func fired(t *testing.T, faults ...*proxy.Fault) {
	t.Helper()
	for _, f := range faults {
		test.Within(t, 10*time.Second, "a fault strikes", func() { <-f.Fired() })
	}
}

// result waits for a value from a channel.
func result[T any](t *testing.T, within time.Duration, what string, c <-chan T) T {
	t.Helper()
	late := time.NewTimer(within)
	defer late.Stop()
	select {
	case v := <-c:
		return v
	case <-late.C:
		t.Fatalf("%s: nothing after %v", what, within)
		panic("unreachable")
	}
}

// async runs f on a new goroutine and returns a channel with its error.
func async(f func() error) <-chan error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	return done
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func errOf[T any](_ T, err error) error { return err }

func mustBe(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("got %v, want %v", err, want)
	}
}

// newSession waits until the client has another session than before.
func (l *line) newSession(t *testing.T) int64 {
	t.Helper()
	var now atomic.Int64
	test.Eventually(t, 15*time.Second, "a new session", func() bool {
		now.Store(l.conn.Session())
		return now.Load() != 0 && now.Load() != l.sess && l.conn.State() == zk.StateHasSession
	})
	return now.Load()
}

// claimOne claims nodes in one directory.
func claimOne(ctx context.Context, c *Client, session int64, claim Claim) (Claimed, error) {
	made, _, err := c.Claim(ctx, session, claim)
	if err != nil {
		return Claimed{}, err
	}
	return made[0], nil
}
