package zkconn_test

import (
	"testing"
	"time"

	"github.com/zklocks/zklocks/internal/zktest"
	"github.com/zklocks/zklocks/zkconn"
)

// A server may answer nobody who has not said who he is, and end the connection. Whoever has credentials does not notice.
// Whoever has none is told by the first call. Later ones find no connection that lasts, an outage as any other: they
// wait, and the server is not hammered at.
func TestServerThatDemandsCredentials(t *testing.T) {
	t.Parallel()
	s := zktest.Standalone(t, zktest.Options{JVM: []string{"-Dzookeeper.enforce.auth.enabled=true", "-Dzookeeper.enforce.auth.schemes=digest"}})
	welcome := connect(t, 4*time.Second, []string{s.Addr()}, zkconn.WithDigestAuth("ann", "secret"))
	call(t, welcome, 20*time.Second)

	p := zktest.ProxyFor(t, s.Addr())
	conn := connect(t, 4*time.Second, []string{p.Addr()})
	if _, _, err := conn.Get("/"); err == nil || err.Error() != "unknown error: -124" { // the client has no name for it
		t.Errorf("the first call: %v", err)
	}
	zktest.Eventually(t, 20*time.Second, "the connection has ended", func() bool { return p.Seen(zktest.ConnectOp) > 1 })
	const handshakes = 20
	before, began := p.Seen(zktest.ConnectOp), time.Now()
	zktest.Eventually(t, 20*time.Second, "later calls end with connections", func() bool {
		if _, _, err := conn.Get("/"); err == nil {
			t.Fatal("it answers")
		}
		return p.Seen(zktest.ConnectOp) >= before+handshakes
	})
	if took := time.Since(began); took < handshakes*5*time.Millisecond {
		t.Errorf("%d handshakes in %v", handshakes, took)
	}
}
