package wire_test

import (
	"errors"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/internal/test/realzk"
	"github.com/zklocks/zklocks/internal/test/venue"
	"github.com/zklocks/zklocks/internal/wire"
)

// A server may refuse requests without credentials, and close the connection. This does not affect
// a client with credentials. The first call of a client without credentials returns
// zk.ErrAuthFailed. Later calls end with their connections, and run pauses between its
// attempts to connect. Only a real server can be configured to demand credentials.
func TestServerThatDemandsCredentials(t *testing.T) {
	t.Parallel()
	venue.OnReal(t, func(t *testing.T, v venue.Venue) {
		s := realzk.Standalone(t, realzk.Options{JVM: []string{"-Dzookeeper.enforce.auth.enabled=true", "-Dzookeeper.enforce.auth.schemes=digest"}})
		welcome := connect(t, v, 4*time.Second, []string{s.Addr()}, wire.WithDigestAuth("ann", "secret"))
		call(t, welcome, 20*time.Second)

		p := v.Proxy(t, s.Addr())
		conn := connect(t, v, 4*time.Second, []string{p.Addr()})
		if _, _, err := conn.Client().Get("/"); !errors.Is(err, zk.ErrAuthFailed) || !errors.Is(conn.LastFailure(), zk.ErrAuthFailed) {
			t.Errorf("the first call: %v, %v", err, conn.LastFailure())
		}
		test.Eventually(t, 20*time.Second, "the connection has ended", func() bool { return p.Seen(proxy.ConnectOp) > 1 })
		const handshakes = 20
		before, began := p.Seen(proxy.ConnectOp), time.Now()
		test.Eventually(t, 20*time.Second, "later calls end with connections", func() bool {
			if _, _, err := conn.Client().Get("/"); err == nil {
				t.Fatal("it answers")
			}
			return p.Seen(proxy.ConnectOp) >= before+handshakes
		})
		if took := time.Since(began); took < handshakes*5*time.Millisecond {
			t.Errorf("%d handshakes in %v", handshakes, took)
		}
	})
}
