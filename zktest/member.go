package zktest

import (
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/zklocks/zklocks/internal/memzk"
)

// A Member is one server of an ensemble, or the standalone server.
type Member struct {
	s    *Server
	m    *memzk.Member
	host string // its name in the in-memory network

	mu        sync.Mutex
	listens   []func() (net.Listener, error) // called at each restart
	listeners []net.Listener                 // guarded by mu; empty while it is dead
	serving   sync.WaitGroup
	dead      bool
	closed    bool
}

// ID returns the member's number; the first is 1.
func (m *Member) ID() int { return m.m.ID() }

// Addr returns the member's address, which is also in Server.Addrs.
//
// It is on the loopback interface, with a port on which no program listens. So the system refuses a
// client without the dialer of a Host at once, on any machine.
func (m *Member) Addr() string {
	return fmt.Sprintf("127.0.0.1:%d", m.s.number%mostServers*mostMembers+m.ID())
}

// inMemory returns the member's address in the in-memory network.
func (m *Member) inMemory() string { return m.host + ":2181" }

func (m *Member) listenInMemory() {
	again := func() (net.Listener, error) { return m.s.network.Listen(m.inMemory()) }
	first, err := again()
	if err == nil {
		err = m.listen(first, again)
	}
	if err != nil {
		panic(fmt.Sprintf("zktest: %v", err)) // the network is new
	}
}

// listen accepts connections on first now, and on a listener of again after each restart.
func (m *Member) listen(first net.Listener, again func() (net.Listener, error)) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.listens = append(m.listens, again)
	if m.dead {
		return first.Close()
	}
	m.serve(first)
	return nil
}

func (m *Member) serve(l net.Listener) {
	m.listeners = append(m.listeners, l)
	m.serving.Go(func() { _ = m.m.Serve(l) })
}

func (m *Member) quiet() {
	for _, l := range m.listeners {
		l.Close()
	}
	m.listeners = nil
}

func (m *Member) close() {
	m.mu.Lock()
	m.closed = true
	m.quiet()
	m.mu.Unlock()
	m.serving.Wait()
}

// Kill ends the member's process: its connections are cut, and new ones are refused. It keeps its
// data.
func (m *Member) Kill() {
	m.s.check("Kill")
	m.kill()
}

func (m *Member) kill() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dead = true
	m.quiet()
	m.m.Kill()
}

// Restart starts the member, after killing it if it is alive.
func (m *Member) Restart() {
	m.s.t.Helper()
	m.s.check("Restart")
	m.kill()
	m.start()
}

func (m *Member) start() {
	m.s.t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed || !m.dead { // a concurrent Restart has started it
		return
	}
	m.dead = false
	for _, open := range m.listens {
		l, err := open()
		if err != nil {
			m.s.t.Errorf("zktest: restart of member %d: %v", m.ID(), err)
			continue
		}
		m.serve(l)
	}
	m.m.Restart()
}

// Pause stops the member's process, as SIGSTOP does: connections remain open, and nothing is
// answered.
func (m *Member) Pause() { m.s.check("Pause"); m.m.Pause() }

// Resume ends a Pause.
func (m *Member) Resume() { m.s.check("Resume"); m.m.Resume() }

// Isolate cuts the member off from the other members. Clients still reach it. A leader without a
// majority continues to answer reads; after five ticks it detects that, and stops serving.
func (m *Member) Isolate() { m.s.check("Isolate"); m.m.Isolate() }

// Heal ends an Isolate.
func (m *Member) Heal() { m.s.check("Heal"); m.m.Heal() }

// Lag makes the member apply changes d later than the leader, so that its clients read old data. It
// has no effect on a leader.
func (m *Member) Lag(d time.Duration) { m.s.check("Lag"); m.m.Lag(d) }
