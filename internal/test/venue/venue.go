// Package venue runs a test on the in-memory server in virtual time, or on a real server in real
// time. A test is written once, against a Venue.
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
// Wrap its body in InMemory, or in Both if it should also run on real servers, and replace
//
//	realzk.Servers(t), Connect, Expire, Standalone, Cluster, Watched
//	proxy.For(t, addr)
//
// by the methods of the Venue. time.Sleep, timers, contexts and test.Eventually remain: they use
// the clock of the bubble. Replace margins of real time: assert the exact instant, or an order.
//
// The following do not work in a bubble. They hang, or the runtime ends the program with the word
// deadlock:
//   - real files, processes and network connections that a goroutine waits for;
//   - a goroutine that waits for a sync.Mutex whose holder waits for virtual time: the clock
//     stands;
//   - a channel, timer or connection that was made outside of the bubble;
//   - t.Run, t.Parallel: call them outside, and InMemory inside of them;
//   - a loop that sends requests without a pause: no time passes while a goroutine can run. Let it
//     sleep, or give the network a Latency;
//   - runtime.GC as a signal: finalizers and cleanups run outside.
//
// Each goroutine must have ended when f and the cleanups of its t have ended: close what you open.
package venue

import (
	"context"
	"crypto/tls"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/internal/test/realzk"
	"github.com/zklocks/zklocks/internal/wire"
)

// Options configure a server for one test. The zero value suits most tests.
type Options struct {
	Tick           time.Duration // 0: 100 ms
	ContainerCheck time.Duration // 0: 500 ms
	MaxSession     time.Duration // the longest granted session timeout; 0: a minute
	Partitions     bool          // of a Cluster: allows Isolate

	// Phase is how much of a tick has passed when the servers start. In memory only.
	Phase time.Duration

	// SyncLimit is the time without a packet after which the members of a Cluster drop each other;
	// 0: 2 s.
	SyncLimit time.Duration
	// CommitDelay is the delay with which the followers of a Cluster apply the leader's
	// transactions.
	CommitDelay time.Duration
}

// A Venue has servers, and a network to reach them.
type Venue interface {
	// Virtual reports whether the test runs in a bubble, on the in-memory server.
	Virtual() bool

	// Servers returns the addresses of the server that the test shares with others.
	Servers(testing.TB) []string
	// Shared returns that server. A test that kills or pauses needs a server of its own.
	Shared(testing.TB) Server
	// Connect returns a connection made by wire.Connect; without servers, to Servers. It is closed
	// at cleanup.
	Connect(tb testing.TB, timeout time.Duration, servers ...string) *wire.Conn
	// Dialer returns the options with which wire.Connect reaches the venue's servers.
	Dialer() []wire.Option
	// Dial opens a network connection to a server, for a test's own wire.WithDialer.
	Dial(ctx context.Context, network, addr string) (net.Conn, error)
	// Proxy returns a proxy in front of a server. The proxy is closed at cleanup.
	Proxy(tb testing.TB, target string) *proxy.Proxy
	// Expire ends a session now. The server closes the client's connection.
	Expire(tb testing.TB, conn realzk.Conn)
	// Latency sets how long each packet to or from a server travels, from now on. Without it no
	// time passes in a bubble while a client polls. Real servers ignore it.
	Latency(d time.Duration)
	// Watched returns the paths on which a session has watches, as Servers report them.
	Watched(tb testing.TB, session int64) []string

	// Standalone returns a server for this test alone.
	Standalone(testing.TB, Options) Server
	// StandaloneTLS returns a server with a TLS port, too. Clients receive cert, which must be
	// issued for localhost to be valid. Clients' certificates must be from the same authority.
	StandaloneTLS(tb testing.TB, a *realzk.Authority, cert tls.Certificate, o Options) Secure
	// Cluster returns an ensemble for this test alone.
	Cluster(tb testing.TB, n int, o Options) Ensemble
}

// A Server is a standalone server, or a member of an Ensemble.
type Server interface {
	Addr() string
	Kill() error
	Restart() error
	Pause() error
	Resume() error
	Word(string) (string, error)
}

// Secure is a server with a second address for TLS.
type Secure struct {
	Server
	TLSAddr string // localhost and a port
}

// An Ensemble is several servers; one of them leads.
type Ensemble interface {
	Servers() []Server
	Addrs() []string
	Leader() (Server, error)
	Followers() ([]Server, error)
	// Isolate cuts a member off from the others. Clients still reach it.
	Isolate(Server) error
	Heal()
}

// InMemory runs f in a bubble, with its own servers.
func InMemory(t *testing.T, f func(*testing.T, Venue)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, newMemory(t)) })
}

// Real returns the venue of real servers, for a test that does not run in memory.
func Real() Venue { return real{} }

// OnReal runs f on real servers in real time. If none can be started, it skips the test.
func OnReal(t *testing.T, f func(*testing.T, Venue)) {
	t.Helper()
	f(t, real{})
}

// Both runs f in two subtests, in memory and on real servers, in parallel with other tests.
func Both(t *testing.T, f func(*testing.T, Venue)) {
	t.Helper()
	t.Run("virtual", func(t *testing.T) { t.Parallel(); InMemory(t, f) })
	t.Run("real", func(t *testing.T) { t.Parallel(); OnReal(t, f) })
}

// Behind connects to two of three servers in memory. The second server applies everything a second
// later than the first.
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
