package realzk

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/zklocks/zklocks/internal/test/loopback"
)

// serversEnv names an ensemble to test against, in place of a server of our own.
const serversEnv = "ZK_SERVERS"

// realEnv means that a real server must be there: a test that needs one fails without it, and is
// not skipped. make test sets it, so that it leaves out no test silently.
const realEnv = "ZKLOCKS_REAL"

// LeftOutEnv names a file to which a test that is skipped because no ZooKeeper is installed adds a
// line. make quick counts them.
const LeftOutEnv = "ZKLOCKS_LEFT_OUT"

const leftOut = "needs a real ZooKeeper: make test installs one"

// ServerGoroutine is the function of the one goroutine that each running server has in this
// process.
const ServerGoroutine = "github.com/zklocks/zklocks/internal/test/realzk.(*process).run"

var shared struct {
	mu     sync.Mutex
	server *Server
	err    error
	memory *loopback.Server // of Some
}

func named() []string {
	return strings.FieldsFunc(os.Getenv(serversEnv), func(r rune) bool { return r == ',' || r == ' ' })
}

func startShared() (*Server, error) {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	// A server that cannot be started is not tried again by each test.
	if shared.server == nil && shared.err == nil {
		shared.server, shared.err = Start(Options{})
	}
	return shared.server, shared.err
}

// StopShared stops the shared servers, if a test has started them. It is for the end of all tests.
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

// cannot ends a test for which no server could be started: where ZooKeeper or Java is not installed
// it is skipped, unless realEnv says that they must be there.
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

// Servers are the addresses to test against: those in ZK_SERVERS, or the one of the package's
// shared server, which the first call starts. Where no ZooKeeper is installed the test is skipped,
// as with Shared, Standalone and Cluster; with ZKLOCKS_REAL=1 it fails.
func Servers(tb testing.TB) []string {
	tb.Helper()
	if addrs := named(); len(addrs) > 0 {
		return addrs
	}
	return []string{Shared(tb).Addr()}
}

// Shared is the package's shared server, to ask it things. Tests that kill or pause take a server
// of their own. With ZK_SERVERS there is none, and the test is skipped.
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

// Installed is called by a test that starts servers itself, or has another process do it: it ends
// the test as the functions above do where ZooKeeper or Java is not installed.
func Installed(tb testing.TB) {
	tb.Helper()
	if _, err := findJava(); err != nil {
		cannot(tb, err)
	}
}

// Standalone is a server for this test alone.
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

// Cluster is an ensemble of n servers for this test alone.
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
