package realzk

import (
	"os"
	"testing"

	"github.com/zklocks/zklocks/internal/test/loopback"
)

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
