package zktest

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// serversEnv names an ensemble to test against, in place of a server of our own.
const serversEnv = "ZK_SERVERS"

const leakTimeout = 5 * time.Second

var shared struct {
	mu     sync.Mutex
	server *Server
	err    error
}

// Main is the body of TestMain: it runs the tests, stops the shared server if
// a test has started it, and fails the package when a goroutine is left over.
// It does not return.
func Main(m *testing.M) {
	code := m.Run()
	if err := stopShared(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	if code == 0 {
		// goleak itself waits a second; a connection closed while its server is
		// away takes longer to end on a busy machine.
		var err error
		poll(leakTimeout, func() bool {
			err = goleak.Find()
			return err == nil
		})
		if err != nil {
			fmt.Fprintf(os.Stderr, "zktest: goroutines left over by the tests: %v\n", err)
			code = 1
		}
	}
	os.Exit(code)
}

// IgnoreServers lets a single test use goleak.VerifyNone while servers (the
// shared one, too) go on running: each has one goroutine that waits for it.
func IgnoreServers() goleak.Option {
	return goleak.IgnoreAnyFunction("github.com/zklocks/zklocks/internal/zktest.(*process).run")
}

func named() []string {
	return strings.FieldsFunc(os.Getenv(serversEnv), func(r rune) bool { return r == ',' || r == ' ' })
}

func startShared() (*Server, error) {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	// A machine without ZooKeeper is told so by each test, at once.
	if shared.server == nil && shared.err == nil {
		shared.server, shared.err = Start(Options{})
	}
	return shared.server, shared.err
}

func stopShared() error {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.server == nil {
		return nil
	}
	err := shared.server.Stop()
	shared.server, shared.err = nil, errors.New("zktest: the shared server was stopped: the tests are over")
	return err
}

// Servers are the addresses to test against: those in ZK_SERVERS, or the one
// of the package's shared server, which the first call starts.
func Servers(tb testing.TB) []string {
	tb.Helper()
	if addrs := named(); len(addrs) > 0 {
		return addrs
	}
	return []string{Shared(tb).Addr()}
}

// Shared is the package's shared server, to ask it things. Tests that kill or
// pause take a server of their own. With ZK_SERVERS there is none, and the
// test is skipped.
func Shared(tb testing.TB) *Server {
	tb.Helper()
	if len(named()) > 0 {
		tb.Skipf("needs a server of ours, and %s names others", serversEnv)
	}
	s, err := startShared()
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// Standalone is a server for this test alone.
func Standalone(tb testing.TB, opts Options) *Server {
	tb.Helper()
	s, err := Start(opts)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Stop(); err != nil {
			tb.Error(err)
		}
	})
	return s
}

// Cluster is an ensemble of n servers for this test alone.
func Cluster(tb testing.TB, n int, opts Options) *Ensemble {
	tb.Helper()
	e, err := StartEnsemble(n, opts)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := e.Stop(); err != nil {
			tb.Error(err)
		}
	})
	return e
}
