package wire_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/test/leaks"
	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/internal/test/venue"
	"github.com/zklocks/zklocks/internal/wire"
)

func TestMain(m *testing.M) { leaks.Main(m) }

var open = zk.WorldACL(zk.PermAll)

// must ends the test on an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// ok reports an error, on any goroutine.
func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

func errOf[T any](_ T, err error) error { return err }

// connect returns a connection that is closed at the end of the test.
func connect(t testing.TB, v venue.Venue, timeout time.Duration, servers []string, opts ...wire.Option) *wire.Conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	conn, err := wire.Connect(ctx, servers, timeout, slices.Concat(v.Dialer(), opts)...)
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// behind runs a test in memory, in parallel with others, with a connection behind a proxy and a
// witness without a proxy. The options are the connection's.
func behind(t *testing.T, f func(t *testing.T, v venue.Venue, p *proxy.Proxy, conn, witness *wire.Conn), opts ...wire.Option) {
	t.Helper()
	t.Parallel()
	venue.InMemory(t, func(t *testing.T, v venue.Venue) {
		p := v.Proxy(t, v.Servers(t)[0])
		f(t, v, p, connect(t, v, 20*time.Second, []string{p.Addr()}, opts...), connect(t, v, 20*time.Second, v.Servers(t)))
	})
}

// call reads the root until a server answers, as the locks do if the connection is lost. It fails
// the test if that takes longer than within.
func call(t testing.TB, conn *wire.Conn, within time.Duration) (took time.Duration) {
	t.Helper()
	start := time.Now()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			if _, _, err := conn.Client().Get("/"); err == nil || time.Since(start) > within {
				return
			}
			time.Sleep(time.Millisecond) // or no time would pass in a bubble
		}
	}()
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-done:
		return time.Since(start)
	case <-timer.C:
		t.Fatalf("no answer after %v, state %v", within, conn.State())
		return 0
	}
}

// lines is a logger that keeps its messages.
type lines struct {
	wait  string // if not "": a message with it calls found
	found func()

	mu   sync.Mutex
	said []string
}

func (l *lines) Printf(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	line := fmt.Sprintf(format, args...)
	l.said = append(l.said, line)
	if l.wait != "" && strings.Contains(line, l.wait) {
		l.found()
	}
}

// has asserts that a message has a text.
func (l *lines) has(t *testing.T, text string) {
	t.Helper()
	if all := strings.Join(l.all(), "\n"); !strings.Contains(all, text) {
		t.Errorf("the log does not say %q:\n%s", text, all)
	}
}

func (l *lines) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.said)
}
