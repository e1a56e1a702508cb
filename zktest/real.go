package zktest

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test/realzk"
)

// Real returns the addresses of real ZooKeeper servers, for a test in real time. If the environment
// variable ZK_SERVERS is set ("host:port,host:port"), Real returns its addresses. Otherwise it
// starts a server for t, with Java, from the folder in ZK_HOME or from a usual place of
// installation. If it finds neither, it skips the test and says so.
//
// The server that it starts has a tick of 100 ms, so it grants session timeouts of 200 ms to a
// minute. t fails if ZK_SERVERS is not a list of addresses, or if it runs in a synctest bubble, in
// which real connections do not work.
func Real(t testing.TB) []string {
	t.Helper()
	inBubble(t, "Real")
	if named := strings.TrimSpace(os.Getenv("ZK_SERVERS")); named != "" {
		addrs, chroot, err := zklocks.ParseServers(named)
		switch {
		case err != nil:
			t.Fatalf("zktest: Real: ZK_SERVERS: %v", err)
		case chroot != "":
			t.Fatalf("zktest: Real: ZK_SERVERS has a path, %s, which no address can have", chroot)
		}
		return addrs
	}
	s, err := realzk.Start(realzk.Options{})
	switch {
	case errors.Is(err, realzk.ErrNotInstalled):
		t.Skipf("zktest: no real ZooKeeper to test on: set ZK_SERVERS to the addresses of one, or install Java and set ZK_HOME to an unpacked ZooKeeper (%v)", err)
	case err != nil:
		t.Fatalf("zktest: Real: %v", err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Errorf("zktest: Real: %v", err)
		}
	})
	return []string{s.Addr()}
}
