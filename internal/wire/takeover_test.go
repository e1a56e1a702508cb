package wire_test

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/internal/test/realzk"
	"github.com/zklocks/zklocks/internal/test/venue"
	"github.com/zklocks/zklocks/internal/wire"
)

// end ends a session through these servers.
func end(t *testing.T, v venue.Venue, dead wire.Session, servers []string, opts ...wire.Option) error {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	return wire.End(ctx, servers, 4*time.Second, dead, slices.Concat(v.Dialer(), opts)...)
}

func create(t *testing.T, conn *wire.Conn, node string) {
	t.Helper()
	must(t, errOf(conn.Client().Create(node, nil, zk.FlagEphemeral, open)))
}

func exists(t *testing.T, witness *wire.Conn, node string, want bool) {
	t.Helper()
	ok(t, errOf(witness.Client().Sync(node)))
	if there, _, err := witness.Client().Exists(node); err != nil || there != want {
		t.Errorf("%s is there: %v, %v", node, there, err)
	}
}

// Any member ends a session of any other, while its owner lives and sends requests; the second time
// there is nothing to end.
func TestAnyMemberEndsASession(t *testing.T) {
	t.Parallel()
	venue.Both(t, func(t *testing.T, v venue.Venue) {
		v.Latency(time.Millisecond)
		e := v.Cluster(t, 3, venue.Options{})
		for i, from := range e.Addrs() {
			for j, via := range e.Addrs() {
				ann := wire.WithDigestAuth("ann", "secret")
				conn, node := connect(t, v, 20*time.Second, []string{from}, ann), fmt.Sprintf("/end%d%d", i, j)
				must(t, errOf(conn.Client().Create(node, nil, zk.FlagEphemeral, zk.DigestACL(zk.PermAll, "ann", "secret"))))
				for range 4 {
					go func() {
						for !conn.IsClosed() {
							_, _ = conn.Ask(context.Background(), wire.AnySession, wire.Exists("/"))
							time.Sleep(time.Millisecond) // real: the pace of the requests
						}
					}()
				}
				dead := *conn.Own()
				for _, want := range []error{nil, wire.ErrOver} {
					if err := end(t, v, dead, []string{via}, ann); !errors.Is(err, want) {
						t.Errorf("%d, %d: %v, want %v", i, j, err, want)
					}
					// The leader may still know the session when the member has confirmed its end.
					test.Eventually(t, 20*time.Second, "the owner has another session", func() bool { return conn.Session() != 0 && conn.Session() != dead.ID })
				}
				exists(t, connect(t, v, 20*time.Second, e.Addrs()[(i+1)%3:][:1]), node, false)
				_ = conn.Close()
			}
		}
	})
}

// A member that is cut off from the leader cannot end a session, and another one can.
func TestAMemberThatIsCutOffEndsNoSession(t *testing.T) {
	t.Parallel()
	venue.Both(t, func(t *testing.T, v venue.Venue) {
		e := v.Cluster(t, 3, venue.Options{Partitions: true})
		followers, err := e.Followers()
		must(t, err)
		conn, node := connect(t, v, 20*time.Second, []string{followers[0].Addr()}), test.Path(t)
		create(t, conn, node)
		must(t, e.Isolate(followers[0]))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := wire.End(ctx, []string{followers[0].Addr()}, 4*time.Second, *conn.Own(), v.Dialer()...); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		ok(t, end(t, v, *conn.Own(), []string{followers[0].Addr(), followers[1].Addr()}))
		exists(t, connect(t, v, 20*time.Second, []string{followers[1].Addr()}), node, false)
	})
}

// The session is ended with the credentials of its client, by TLS.
func TestASessionIsEndedWithCredentials(t *testing.T) {
	t.Parallel()
	venue.OnReal(t, func(t *testing.T, v venue.Venue) {
		ca := realzk.NewAuthority(t)
		server := realzk.StandaloneTLS(t, ca, ca.Issue(t, "localhost", time.Now().Add(time.Hour)), realzk.Options{Tick: 2 * time.Second, JVM: []string{
			"-Dzookeeper.enforce.auth.enabled=true", "-Dzookeeper.enforce.auth.schemes=digest",
		}})
		secure := wire.WithTLS(&tls.Config{RootCAs: ca.Pool})
		ann := []wire.Option{secure, wire.WithDigestAuth("ann", "secret")}
		conn, node := connect(t, v, 20*time.Second, []string{server.TLSAddr}, ann...), test.Path(t)
		must(t, errOf(conn.Client().Create(node, nil, zk.FlagEphemeral, zk.DigestACL(zk.PermAll, "ann", "secret"))))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second) // less than two ticks, after which the session is over
		defer cancel()
		if err := wire.End(ctx, []string{server.TLSAddr}, 4*time.Second, *conn.Own(), secure); err == nil {
			t.Error("ended without credentials, which the server demands")
		}
		ok(t, end(t, v, *conn.Own(), []string{server.TLSAddr}, ann...))
		exists(t, connect(t, v, 20*time.Second, []string{server.TLSAddr}, ann...), node, false)
	})
}

// Requests of the dead process that arrive after the end of its session must not be executed.
func TestRequestsThatArriveAfterTheEnd(t *testing.T) {
	t.Parallel()
	venue.Both(t, func(t *testing.T, v venue.Venue) {
		v.Latency(time.Millisecond)
		e := v.Cluster(t, 3, venue.Options{})
		witness := connect(t, v, 20*time.Second, e.Addrs()[2:])
		for i, op := range []proxy.Op{proxy.CreateOp, proxy.SetOp} {
			for j, via := range []string{e.Addrs()[0], e.Addrs()[1]} { // the member of the connection, and another
				p := v.Proxy(t, e.Addrs()[0])
				conn, node := connect(t, v, 20*time.Second, []string{p.Addr()}), fmt.Sprintf("/late%d%d", i, j)
				must(t, errOf(witness.Client().Create(node, nil, 0, open)))
				late, answered := p.Next(op, proxy.HoldRequest), make(chan error, 1)
				request := wire.SetData(node, []byte("late"), -1)
				if op == proxy.CreateOp {
					request = wire.Create(node+"/late", nil, zk.FlagEphemeral, open)
				}
				go func() {
					_, err := conn.Ask(t.Context(), conn.Session(), request)
					answered <- err
				}()
				test.Within(t, 10*time.Second, "the request", func() { <-late.Fired() })
				ok(t, end(t, v, *conn.Own(), []string{via}))
				late.Release()
				test.Within(t, 20*time.Second, "the answer", func() {
					if err := <-answered; err == nil {
						t.Errorf("%v is executed after the end of its session", op)
					}
				})
				ok(t, errOf(witness.Client().Sync(node)))
				if _, stat, err := witness.Client().Get(node); err != nil || stat.Version != 0 || stat.NumChildren != 0 {
					t.Errorf("%v is executed after the end of its session: %+v, %v", op, stat, err)
				}
				_ = conn.Close()
			}
		}
	})
}

// A server computes the password of a session from the id alone, with this constant: whoever reads
// the ephemeralOwner of a node can end its session. SECURITY.md says so.
func TestThePasswordFollowsFromTheID(t *testing.T) {
	t.Parallel()
	venue.OnReal(t, func(t *testing.T, v venue.Venue) {
		own := connect(t, v, 4*time.Second, v.Servers(t)).Own()
		const multiplier, mask = 0x5DEECE66D, 1<<48 - 1 // of java.util.Random
		seed := (uint64(own.ID) ^ 0xB3415C00 ^ multiplier) & mask
		var computed []byte
		for range 4 {
			seed = (seed*multiplier + 0xB) & mask
			computed = binary.LittleEndian.AppendUint32(computed, uint32(seed>>16))
		}
		if !slices.Equal(computed, own.Password) {
			t.Errorf("%x, computed %x", own.Password, computed)
		}
	})
}
