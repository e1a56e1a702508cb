package zkclient

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/internal/test/venue"
	"github.com/zklocks/zklocks/internal/wire"
)

// unreached returns the error of a call that waits until its ctx is canceled.
func unreached(t *testing.T, c *Client) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	_, _, err := c.Get(ctx, "/")
	if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want that of ctx", err)
	}
	return err
}

// The servers refuse credentials that they have accepted before. The zk client considers each
// connection up.
func TestTheErrorTellsThatCredentialsAreRefused(t *testing.T) {
	t.Parallel()
	venue.InMemory(t, func(t *testing.T, v venue.Venue) {
		p := v.Proxy(t, v.Servers(t)[0])
		opts := append(v.Dialer(), wire.WithDigestAuth("ann", "secret"))
		conn, err := wire.Connect(t.Context(), []string{p.Addr()}, 10*time.Second, opts...)
		must(t, err)
		defer conn.Close()
		c := Of(conn)
		var refused []*proxy.Fault
		for range 1000 {
			refused = append(refused, p.Next(proxy.AuthOp, proxy.Answer(-115)))
		}
		p.Cut()
		if err := unreached(t, c); !errors.Is(err, zk.ErrAuthFailed) || !strings.Contains(err.Error(), p.Addr()) {
			t.Errorf("error %v, want %v of %s", err, zk.ErrAuthFailed, p.Addr())
		}
		for _, f := range refused {
			f.Cancel()
		}
		_, _, err = c.Get(within(t, 20*time.Second), "/")
		must(t, err)
		ended, end := context.WithCancel(t.Context())
		end()
		if err := c.ExplainSilence(ended, context.Canceled); errors.Is(err, zk.ErrAuthFailed) {
			t.Errorf("error %v, and they are accepted", err)
		}
		p.Mute() // no server refuses any more
		if err := unreached(t, c); errors.Is(err, zk.ErrAuthFailed) {
			t.Errorf("error %v, after an answer", err)
		}
	})
}

// After the first connection all attempts fail, as if a certificate has expired.
func TestTheErrorTellsWhyThereIsNoConnection(t *testing.T) {
	t.Parallel()
	venue.InMemory(t, func(t *testing.T, v venue.Venue) {
		p := v.Proxy(t, v.Servers(t)[0])
		why := errors.New("x509: certificate has expired")
		var expired atomic.Bool
		conn, err := wire.Connect(t.Context(), []string{p.Addr()}, 10*time.Second, wire.WithDialer(
			func(ctx context.Context, network, address string) (net.Conn, error) {
				if expired.Load() {
					return nil, why
				}
				return v.Dial(ctx, network, address)
			}))
		must(t, err)
		defer conn.Close()
		expired.Store(true)
		p.Cut()
		test.Eventually(t, 10*time.Second, "the connection is lost", func() bool { return conn.State() != zk.StateHasSession })
		if err := unreached(t, Of(conn)); !strings.Contains(err.Error(), "; tried: "+p.Addr()+"; last attempt: "+why.Error()) {
			t.Errorf("error %v, want why the last attempt failed", err)
		}
	})
}
