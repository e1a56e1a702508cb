package venue

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/zklocks/zklocks/internal/memnet"
	"github.com/zklocks/zklocks/internal/memzk"
	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/internal/test/realzk"
	"github.com/zklocks/zklocks/internal/wire"
)

// memory is the venue of a bubble.
type memory struct {
	network   *memnet.Network
	here      *memnet.Host // where the test's connections come from
	ensembles []*memEnsemble
	shared    *memEnsemble
}

// closing is longer than a client takes to end after Close.
const closing = 5 * time.Second

func newMemory(tb testing.TB) *memory {
	m := &memory{network: memnet.New()}
	m.here = m.network.Host("here")
	tb.Cleanup(func() {
		// Later cleanups have closed what the test opened: wait for its goroutines to end.
		time.Sleep(closing)
		for _, e := range m.ensembles {
			e.stop()
		}
		m.network.Close()
		time.Sleep(closing)
	})
	m.shared = m.start(1, Options{})
	return m
}

func (m *memory) start(members int, o Options) *memEnsemble {
	if o.Tick == 0 {
		o.Tick = 100 * time.Millisecond
	}
	if o.ContainerCheck == 0 {
		o.ContainerCheck = 500 * time.Millisecond
	}
	e := &memEnsemble{memory: m, Ensemble: memzk.Start(memzk.Config{
		Members: members, Tick: o.Tick, MinSession: 2 * o.Tick, MaxSession: cmp.Or(o.MaxSession, time.Minute), ContainerCheck: o.ContainerCheck,
		SyncLimit: o.syncLimit(), Phase: o.Phase,
	})}
	for _, member := range e.Ensemble.Members() {
		s := &memServer{ensemble: e, member: member, addr: fmt.Sprintf("zk%d-%d:2181", len(m.ensembles)+1, member.ID())}
		e.servers = append(e.servers, s)
		member.Lag(o.CommitDelay)
		if err := s.listen(); err != nil {
			panic(err) // the address is new
		}
	}
	m.ensembles = append(m.ensembles, e)
	return e
}

// syncLimit returns the limit in ticks, as realzk does.
func (o Options) syncLimit() int {
	if o.SyncLimit > 0 {
		return max(1, int(o.SyncLimit/o.Tick))
	}
	return max(5, int(2*time.Second/o.Tick))
}

func (m *memory) Virtual() bool { return true }

func (m *memory) Servers(testing.TB) []string { return m.shared.Addrs() }

func (m *memory) Shared(testing.TB) Server { return m.shared.servers[0] }

func (m *memory) Dialer() []wire.Option { return []wire.Option{wire.WithDialer(m.Dial)} }

func (m *memory) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	return m.here.DialContext(ctx, network, addr)
}

func (m *memory) Connect(tb testing.TB, timeout time.Duration, servers ...string) *wire.Conn {
	tb.Helper()
	if len(servers) == 0 {
		servers = m.Servers(tb)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := wire.Connect(ctx, servers, timeout, m.Dialer()...)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = conn.Close() })
	return conn
}

func (m *memory) Proxy(tb testing.TB, target string) *proxy.Proxy {
	tb.Helper()
	return proxy.ForOn(tb, m.here, target)
}

func (m *memory) Expire(tb testing.TB, conn realzk.Conn) {
	tb.Helper()
	id, _ := realzk.SessionOf(conn)
	for _, e := range m.ensembles {
		if e.Ensemble.Expire(id) {
			return
		}
	}
	tb.Fatalf("expire: no server has session %#x", id)
}

func (m *memory) Latency(d time.Duration) { m.network.SetLatency(d) }

func (m *memory) Watched(tb testing.TB, session int64) (paths []string) {
	tb.Helper()
	answer, err := m.shared.servers[0].Word("wchc")
	if err != nil {
		tb.Fatal(err)
	}
	return test.WatchedBy(answer, session)
}

func (m *memory) Standalone(tb testing.TB, o Options) Server { return m.start(1, o).servers[0] }

func (m *memory) StandaloneTLS(tb testing.TB, a *realzk.Authority, cert tls.Certificate, o Options) Secure {
	tb.Helper()
	s := m.start(1, o).servers[0]
	s.secure = fmt.Sprintf("localhost:%d", 2280+len(m.ensembles))
	s.tls = &tls.Config{Certificates: []tls.Certificate{cert}, ClientAuth: tls.VerifyClientCertIfGiven, ClientCAs: a.Pool}
	if err := s.Restart(); err != nil {
		tb.Fatal(err)
	}
	return Secure{s, s.secure}
}

func (m *memory) Cluster(tb testing.TB, n int, o Options) Ensemble { return m.start(n, o) }

type memEnsemble struct {
	*memzk.Ensemble
	memory  *memory
	servers []*memServer
}

func (e *memEnsemble) stop() {
	for _, s := range e.servers {
		s.close()
	}
	e.Ensemble.Stop()
}

func (e *memEnsemble) Servers() (servers []Server) {
	for _, s := range e.servers {
		servers = append(servers, s)
	}
	return servers
}

func (e *memEnsemble) Addrs() (addrs []string) {
	for _, s := range e.servers {
		addrs = append(addrs, s.addr)
	}
	return addrs
}

func (e *memEnsemble) Leader() (Server, error) {
	var leader *memzk.Member
	if !test.Poll(10*time.Second, func() bool { leader = e.Ensemble.Leader(); return leader != nil }) {
		return nil, errors.New("the ensemble has no leader")
	}
	return e.servers[leader.ID()-1], nil
}

func (e *memEnsemble) Followers() ([]Server, error) {
	if _, err := e.Leader(); err != nil {
		return nil, err
	}
	var followers []Server
	for _, s := range e.servers {
		if s.member.Mode() == "follower" {
			followers = append(followers, s)
		}
	}
	if len(followers) == 0 {
		return nil, errors.New("the ensemble has no followers")
	}
	return followers, nil
}

func (e *memEnsemble) Isolate(s Server) error { s.(*memServer).member.Isolate(); return nil }

func (e *memEnsemble) Heal() {
	for _, s := range e.servers {
		s.member.Heal()
	}
}

// memServer is a member and its addresses.
type memServer struct {
	ensemble  *memEnsemble
	member    *memzk.Member
	addr      string
	secure    string // its TLS address; empty: none
	tls       *tls.Config
	listeners []net.Listener // none while killed
}

func (s *memServer) listen() error {
	for _, addr := range []string{s.addr, s.secure} {
		if addr == "" {
			continue
		}
		l, err := s.ensemble.memory.network.Listen(addr)
		if err != nil {
			return err
		}
		s.listeners = append(s.listeners, l)
		accepts := l
		if addr == s.secure {
			accepts = tls.NewListener(l, s.tls)
		}
		go func() { _ = s.member.Serve(accepts) }() // until the listener is closed
	}
	return nil
}

func (s *memServer) close() {
	for _, l := range s.listeners {
		l.Close()
	}
	s.listeners = nil
}

func (s *memServer) Addr() string { return s.addr }

func (s *memServer) Kill() error {
	if s.listeners == nil {
		return errors.New("kill: server is not running")
	}
	s.close()
	s.member.Kill()
	return nil
}

// Restart returns when the server serves.
func (s *memServer) Restart() error {
	if s.listeners != nil {
		if err := s.Kill(); err != nil {
			return err
		}
	}
	s.member.Restart()
	if err := s.listen(); err != nil {
		return err
	}
	if !test.Poll(30*time.Second, func() bool { m := s.member.Mode(); return m == "standalone" || m == "leader" || m == "follower" }) {
		return fmt.Errorf("%s does not serve: %s", s.addr, s.member.Mode())
	}
	return nil
}

func (s *memServer) Stall() (flow func())             { return s.member.Stall() }
func (s *memServer) Pause() error                     { s.member.Pause(); return nil }
func (s *memServer) Resume() error                    { s.member.Resume(); return nil }
func (s *memServer) Word(word string) (string, error) { return s.member.Word(word) }
func (s *memServer) SetSequences(next map[string]int32) error {
	var missing []string
	for dir, number := range next {
		if !s.ensemble.SetSequence(dir, number) {
			missing = append(missing, dir)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("no such directories: %s", strings.Join(missing, ", "))
	}
	return nil
}
