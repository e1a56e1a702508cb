package loopback

import (
	"errors"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"go.uber.org/goleak"

	"github.com/zklocks/zklocks/internal/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestClientsAreServedUntilStop(t *testing.T) {
	var addr string
	t.Run("served", func(t *testing.T) {
		addr = For(t).Addr()
		conn, err := wire.Connect(t.Context(), []string{addr}, 4*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := conn.Create("/a", nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll)); err != nil {
			t.Fatal(err)
		}
		if found, _, err := conn.Exists("/a"); err != nil || !found {
			t.Fatalf("a node that was created exists: %v, %v", found, err)
		}
	})
	if _, err := net.Dial("tcp", addr); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("after the test a dial ends with %v, want a refused connection", err)
	}
}

// The goroutine that serves may run only after Stop.
func TestAServerMayBeStoppedAtOnce(t *testing.T) {
	for range 200 {
		s, err := Start()
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Stop(); err != nil {
			t.Fatal(err)
		}
	}
}
