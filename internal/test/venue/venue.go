// Package venue is where a test plays: on the in-memory server in virtual time, or on a real server
// in real time. A test is written once, against a Venue.
//
//	func TestSomething(t *testing.T) {
//		t.Parallel()
//		venue.InMemory(t, func(t *testing.T, v venue.Venue) {
//			conn := v.Connect(t, 4*time.Second) // with the server that the test may share
//			p := v.Proxy(t, v.Servers(t)[0])    // packets, with faults as verbs
//			v.Expire(t, conn)
//			s := v.Standalone(t, venue.Options{}) // a server to kill, pause and restart
//			e := v.Cluster(t, 3, venue.Options{})
//			...
//		})
//	}
//
// # How to move a test into virtual time
//
// Wrap its body in InMemory, or in Both if real servers should go on playing it, and replace
//
//	realzk.Servers(t), Connect, ConnectForeign, Expire, Standalone, Cluster, Watched
//	proxy.For(t, addr)
//
// by the methods of the Venue. What is about time stays as it is: time.Sleep, timers, contexts and
// test.Eventually follow the clock of the bubble. A margin of real time is of no use there: assert
// the exact instant, or an order.
//
// Inside a bubble the following do not work. They hang, or the runtime ends the program with the
// word deadlock:
//   - real files, processes and network connections that a goroutine waits for;
//   - a goroutine that waits for a sync.Mutex whose holder waits for virtual time: the clock
//     stands;
//   - a channel, timer or connection that was made outside of the bubble;
//   - t.Run, t.Parallel: call them outside, and InMemory inside of them;
//   - a loop that polls or asks a server without a pause: no time passes while a goroutine can run.
//     Let it sleep, or give the network a Latency;
//   - runtime.GC as a signal: finalizers and cleanups run outside.
//
// Each goroutine must have ended when f and the cleanups of its t have: close what you open.
package venue

import (
	"context"
	"crypto/tls"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/internal/test/realzk"
	"github.com/zklocks/zklocks/internal/wire"
)

// Options shape a server of the test's own. The zero value is right for most tests.
type Options struct {
	Tick           time.Duration // 0: 100 ms
	ContainerCheck time.Duration // 0: 500 ms
	MaxSession     time.Duration // the longest session timeout that is granted; 0: a minute
	Partitions     bool          // of a Cluster: Isolate can part its members

	// Phase is how much of a tick is over when the servers start. In memory only: real ones have
	// their own.
	Phase time.Duration

	// SyncLimit is after how long without a packet the members of a Cluster drop each other; 0: 2
	// s.
	SyncLimit time.Duration
	// CommitDelay is how much later than the leader the followers of a Cluster know of a
	// transaction.
	CommitDelay time.Duration
}

// A Venue has servers, and a network to reach them.
type Venue interface {
	// Virtual reports whether the test runs in a bubble, on the in-memory server.
	Virtual() bool

	// Servers are the addresses of the server that the test may share with others.
	Servers(testing.TB) []string
	// Shared is that server, to ask it things: a test that kills or pauses takes one of its own.
	Shared(testing.TB) Server
	// Connect is a connection made by wire.Connect; no servers: to Servers. It is closed at
	// cleanup.
	Connect(tb testing.TB, timeout time.Duration, servers ...string) *wire.Conn
	// ConnectForeign is a connection made by zk.Connect alone.
	ConnectForeign(tb testing.TB, timeout time.Duration, servers ...string) *zk.Conn
	// Dialer is what wire.Connect needs to reach the venue's servers.
	Dialer() []wire.Option
	// Dial opens a network connection to one of them, for a test's own wire.WithDialer.
	Dial(ctx context.Context, network, addr string) (net.Conn, error)
	// Proxy returns a proxy in front of a server, which is closed at cleanup.
	Proxy(tb testing.TB, target string) *proxy.Proxy
	// Expire ends a session at its server, now. The client's connection is cut, as by a client that
	// took the session over.
	Expire(tb testing.TB, conn realzk.Conn)
	// ExpireAt does it by way of the server at addr: the one that conn is connected to may be
	// paused or dead, or speak TLS.
	ExpireAt(tb testing.TB, conn realzk.Conn, addr string)
	// Latency sets how long each packet to or from a server takes, from now on. Without it no time
	// passes in a bubble while a client polls. A real network has its own and ignores it.
	Latency(d time.Duration)
	// Watched returns the paths on which a session has watches, as Servers report them.
	Watched(tb testing.TB, session int64) []string

	// Standalone is a server for this test alone.
	Standalone(testing.TB, Options) Server
	// StandaloneTLS is one with TLS, too. Clients get its certificate, which must be issued for
	// localhost to be valid; those of clients must be from the same authority.
	StandaloneTLS(tb testing.TB, a *realzk.Authority, cert tls.Certificate, o Options) Secure
	// Cluster is an ensemble for this test alone.
	Cluster(tb testing.TB, n int, o Options) Ensemble
}

// A Server is standalone, or a member of an Ensemble.
type Server interface {
	Addr() string
	Kill() error
	Restart() error
	Pause() error
	Resume() error
	Word(string) (string, error)
	Requests() (int64, error)
	SetSequences(map[string]int32) error
}

// Secure is a server with TLS at an address beside its usual one.
type Secure struct {
	Server
	TLSAddr string // localhost and a port
}

// An Ensemble is several servers of which one leads.
type Ensemble interface {
	Servers() []Server
	Addrs() []string
	Leader() (Server, error)
	Followers() ([]Server, error)
	// Isolate cuts a member off from the others; clients still reach it.
	Isolate(Server) error
	Heal()
}

// InMemory runs f in a bubble, with a server of its own.
func InMemory(t *testing.T, f func(*testing.T, Venue)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, newMemory(t)) })
}

// Real is the venue of real servers, for a test that plays nowhere else.
func Real() Venue { return real{} }

// OnReal runs f on real servers in real time, or skips the test where none can be started.
func OnReal(t *testing.T, f func(*testing.T, Venue)) {
	t.Helper()
	f(t, real{})
}

// Both runs f twice, as two subtests, each beside other parallel tests.
func Both(t *testing.T, f func(*testing.T, Venue)) {
	t.Helper()
	t.Run("virtual", func(t *testing.T) { t.Parallel(); InMemory(t, f) })
	t.Run("real", func(t *testing.T) { t.Parallel(); OnReal(t, f) })
}

// Behind has connections to two of three servers in memory. The second server shows a second later
// what clients of the others do.
func Behind(t *testing.T, do func(t *testing.T, first, behind *wire.Conn)) {
	InMemory(t, func(t *testing.T, v Venue) {
		ensemble := v.Cluster(t, 3, Options{CommitDelay: time.Second})
		leads, err := ensemble.Leader()
		if err != nil {
			t.Fatal(err)
		}
		followers, err := ensemble.Followers()
		if err != nil {
			t.Fatal(err)
		}
		do(t, v.Connect(t, 20*time.Second, leads.Addr()), v.Connect(t, 20*time.Second, followers[0].Addr()))
	})
}
