package wire_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/internal/test/venue"
	"github.com/zklocks/zklocks/internal/wire"
)

// A server whose data are lost or older than what the client has read closes each connection
// during the handshake, because the handshake states the zxid of the last reply. the client logs
// that, pauses between attempts, and resumes its session on a server that has the data. In a new
// session it has read nothing, so it uses the other server.
func TestServerThatHasLostItsData(t *testing.T) {
	t.Parallel()
	venue.InMemory(t, func(t *testing.T, v venue.Venue) {
		const handshakes = 10
		forgetful := v.Standalone(t, venue.Options{}).Addr()
		knows := v.Servers(t)[0]
		p := v.Proxy(t, knows)
		var said lines
		conn := connect(t, v, 30*time.Second, []string{p.Addr()}, wire.WithLogger(&said), wire.WithDigestAuth("ann", "secret"))
		path := test.Path(t)
		for range 20 { // more writes than the other server has seen
			must(t, errOf(conn.Client().Create(path, nil, zk.FlagEphemeral, open)))
			must(t, conn.Client().Delete(path, -1))
		}
		session, epoch := conn.Session(), conn.Epoch()
		p.Cut()
		test.Eventually(t, 20*time.Second, "connected", func() bool { return conn.Epoch() > epoch })
		synctest.Wait() // the last reply, to the credentials, has no zxid

		p.SetTarget(forgetful)
		before, began := p.Seen(proxy.ConnectOp), time.Now()
		p.Cut()
		test.Eventually(t, 20*time.Second, "several attempts", func() bool { return p.Seen(proxy.ConnectOp) >= before+handshakes })
		if took := time.Since(began); took < handshakes*50*time.Millisecond {
			t.Errorf("%d handshakes in %v", handshakes, took)
		}
		if conn.State() == zk.StateHasSession || conn.Session() != session {
			t.Errorf("state %v, session %#x, had %#x", conn.State(), conn.Session(), session)
		}
		test.Eventually(t, 5*time.Second, "the log says why", func() bool {
			return strings.Contains(strings.Join(said.all(), "\n"), "closed the connection during the handshake")
		})

		p.SetTarget(knows)
		call(t, conn, 20*time.Second)
		if conn.Session() != session {
			t.Error("another session")
		}

		epoch = conn.Epoch()
		p.OnRequest(func(op proxy.Op) {
			if op == proxy.ConnectOp { // the server with the data answers that the session has expired
				p.SetTarget(forgetful)
			}
		})
		v.Expire(t, conn)
		for _, what := range []string{"a new session", "its next connection"} {
			test.Eventually(t, 20*time.Second, what+" on the other server", func() bool { return conn.Epoch() > epoch })
			epoch = conn.Epoch()
			p.Cut()
		}
	})
}
