package realzk

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/loopback"
)

// serversEnv names an ensemble to use instead of a server of our own.
const serversEnv = "ZK_SERVERS"

// realEnv means that a real server must be available: a test that needs one fails without it. make
// test sets it, so that no test is skipped silently.
const realEnv = "ZKLOCKS_REAL"

// LeftOutEnv names a file. Each test that needs a real server is then skipped, and adds a line to
// the file. make quick counts the lines.
const LeftOutEnv = "ZKLOCKS_LEFT_OUT"

const leftOut = "needs a real ZooKeeper, which make test installs and starts"

var shared struct {
	mu     sync.Mutex
	server *Server
	err    error
	memory *loopback.Server // used by Some
}

func named() []string {
	return strings.FieldsFunc(os.Getenv(serversEnv), func(r rune) bool { return r == ',' || r == ' ' })
}

func startShared() (*Server, error) {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	// If the server cannot be started, the other tests do not try to start it again.
	if shared.server == nil && shared.err == nil {
		shared.server, shared.err = Start(Options{})
	}
	return shared.server, shared.err
}

// StopShared stops the shared servers, at the end of all tests.
func StopShared() error {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	var errs []error
	if shared.memory != nil {
		errs = append(errs, shared.memory.Stop())
		shared.memory = nil
	}
	if shared.server != nil {
		errs = append(errs, shared.server.Stop())
		shared.server, shared.err = nil, errors.New("realzk: the shared server was stopped: the tests are over")
	}
	return errors.Join(errs...)
}

// cannot ends a test for which no server could be started. If ZooKeeper or Java is not installed,
// it skips the test, unless realEnv is set.
func cannot(tb testing.TB, err error) {
	tb.Helper()
	if errors.Is(err, ErrNotInstalled) && os.Getenv(realEnv) == "" {
		if list := os.Getenv(LeftOutEnv); list != "" {
			f, err := os.OpenFile(list, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
			if err == nil {
				_, err = fmt.Fprintln(f, tb.Name())
				err = errors.Join(err, f.Close())
			}
			if err != nil {
				tb.Fatal(err)
			}
		}
		tb.Skip(leftOut)
	}
	tb.Fatal(err)
}

// Servers returns the addresses in ZK_SERVERS, or the address of the package's shared server, which
// the first call starts. If ZooKeeper is not installed, it skips the test, like Shared, Standalone
// and Cluster; with ZKLOCKS_REAL=1 the test fails.
func Servers(tb testing.TB) []string {
	tb.Helper()
	if addrs := named(); len(addrs) > 0 {
		return addrs
	}
	return []string{Shared(tb).Addr()}
}

// Shared returns the package's shared server. Tests that kill or pause need their own server. With
// ZK_SERVERS there is no shared server, and Shared skips the test.
func Shared(tb testing.TB) *Server {
	tb.Helper()
	if len(named()) > 0 {
		tb.Skipf("needs a server of ours, and %s names others", serversEnv)
	}
	s, err := startShared()
	if err != nil {
		cannot(tb, err)
	}
	return s
}

// Installed skips or fails the test, like the functions above, if ZooKeeper or Java is not
// installed. It is for tests that start servers themselves or in another process.
func Installed(tb testing.TB) {
	tb.Helper()
	if _, err := findJava(); err != nil {
		cannot(tb, err)
	}
}

// Standalone returns a server for this test alone.
func Standalone(tb testing.TB, opts Options) *Server {
	tb.Helper()
	s, err := Start(opts)
	if err != nil {
		cannot(tb, err)
	}
	tb.Cleanup(func() {
		if err := s.Stop(); err != nil {
			tb.Error(err)
		}
	})
	return s
}

// Cluster returns an ensemble of n servers for this test alone.
func Cluster(tb testing.TB, n int, opts Options) *Ensemble {
	tb.Helper()
	e, err := StartEnsemble(n, opts)
	if err != nil {
		cannot(tb, err)
	}
	tb.Cleanup(func() {
		if err := e.Stop(); err != nil {
			tb.Error(err)
		}
	})
	return e
}

// Some returns the addresses of servers for a test of the client that needs a port to dial: the
// addresses in ZK_SERVERS; with ZKLOCKS_REAL=1 the package's shared server; otherwise an in-memory
// server that the package's tests share. So the test runs where only Go is installed, and on a real
// server where no test may be skipped.
func Some(tb testing.TB) []string {
	tb.Helper()
	addrs, err := some()
	if err != nil {
		tb.Fatal(err)
	}
	return addrs
}

func some() ([]string, error) {
	if addrs := named(); len(addrs) > 0 {
		return addrs, nil
	}
	if os.Getenv(realEnv) != "" {
		s, err := startShared()
		if err != nil {
			return nil, err
		}
		return []string{s.Addr()}, nil
	}
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.memory == nil {
		s, err := loopback.Start()
		if err != nil {
			return nil, err
		}
		shared.memory = s
	}
	return []string{shared.memory.Addr()}, nil
}

// Watched returns the paths on which a session has watches, as the shared server reports them.
func Watched(tb testing.TB, session int64) (paths []string) {
	tb.Helper()
	answer, err := Shared(tb).Word("wchc")
	if err != nil {
		tb.Fatal(err)
	}
	return test.WatchedBy(answer, session)
}
