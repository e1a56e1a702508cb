package venue

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/internal/test/realzk"
	"github.com/zklocks/zklocks/internal/wire"
)

// real is the venue with Java processes and loopback TCP.
type real struct{}

func (real) Virtual() bool                  { return false }
func (real) Servers(tb testing.TB) []string { tb.Helper(); return realzk.Servers(tb) }
func (real) Shared(tb testing.TB) Server    { tb.Helper(); return realzk.Shared(tb) }
func (real) Latency(time.Duration)          {}
func (real) Dialer() []wire.Option          { return nil }

func (real) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	return proxy.TCP{}.DialContext(ctx, network, addr)
}

func (real) Connect(tb testing.TB, timeout time.Duration, servers ...string) *wire.Conn {
	tb.Helper()
	return realzk.Connect(tb, timeout, servers...)
}

func (real) Proxy(tb testing.TB, target string) *proxy.Proxy {
	tb.Helper()
	return proxy.For(tb, target)
}

func (real) Expire(tb testing.TB, conn realzk.Conn) { tb.Helper(); realzk.Expire(tb, conn) }

func (real) Watched(tb testing.TB, session int64) []string {
	tb.Helper()
	return realzk.Watched(tb, session)
}

func (real) Standalone(tb testing.TB, o Options) Server {
	tb.Helper()
	return realzk.Standalone(tb, o.real())
}

func (real) StandaloneTLS(tb testing.TB, a *realzk.Authority, cert tls.Certificate, o Options) Secure {
	tb.Helper()
	s := realzk.StandaloneTLS(tb, a, cert, o.real())
	return Secure{s.Server, s.TLSAddr}
}

func (o Options) real() realzk.Options {
	opts := realzk.Options{Tick: o.Tick, ContainerCheck: o.ContainerCheck}
	opts.Config = map[string]string{}
	if o.MaxSession > 0 {
		opts.Config["maxSessionTimeout"] = fmt.Sprint(o.MaxSession.Milliseconds())
	}
	if o.SyncLimit > 0 {
		o.Tick = cmp.Or(o.Tick, 100*time.Millisecond)
		opts.Config["syncLimit"] = fmt.Sprint(o.syncLimit())
	}
	if o.CommitDelay > 0 { // a member writes its log with this delay
		opts.JVM = []string{fmt.Sprintf("-Dzookeeper.flushDelay=%d", o.CommitDelay.Milliseconds())}
	}
	return opts
}

func (real) Cluster(tb testing.TB, n int, o Options) Ensemble {
	tb.Helper()
	opts := o.real()
	opts.Partitions = o.Partitions
	return realEnsemble{realzk.Cluster(tb, n, opts)}
}

type realEnsemble struct{ *realzk.Ensemble }

func (e realEnsemble) Servers() []Server { return serversOf(e.Ensemble.Servers()) }

func (e realEnsemble) Leader() (Server, error) {
	leader, err := e.Ensemble.Leader()
	if err != nil {
		return nil, err
	}
	return leader, nil
}

func (e realEnsemble) Followers() ([]Server, error) {
	followers, err := e.Ensemble.Followers()
	return serversOf(followers), err
}

func (e realEnsemble) Isolate(s Server) error { return e.Ensemble.Isolate(s.(*realzk.Server)) }

func serversOf(real []*realzk.Server) (servers []Server) {
	for _, s := range real {
		servers = append(servers, s)
	}
	return servers
}
