package zktest

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test/realzk"
)

// Real returns the addresses of real ZooKeeper servers, for a test that is to run on one, in real
// time: those in the environment variable ZK_SERVERS ("host:port,host:port"); without it that of a
// server which it starts for t, with Java, from the folder in ZK_HOME or where packages install it.
// Where neither is found, the test is skipped with a sentence that says so.
//
// The server it starts has a tick of 100ms, so that it grants session timeouts of 200ms to a
// minute. t fails in a synctest bubble, in which real connections do not work, and if ZK_SERVERS is
// no list of addresses.
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
