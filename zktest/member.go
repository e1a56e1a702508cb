package zktest

import (
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
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

	removed atomic.Bool // it does not belong to the ensemble any more
}

func newMember(s *Server, m *memzk.Member) *Member {
	member := &Member{s: s, m: m, host: fmt.Sprintf("zk%d", m.ID())}
	member.listenInMemory()
	return member
}

// AddMember adds a member to the ensemble, as ZooKeeper's "reconfig -add" does, and returns it. The
// member has all data, serves clients and votes, and /zookeeper/config lists it. t fails if the
// Server is standalone, has 100 members, or no leader with a majority.
func (s *Server) AddMember() *Member {
	s.t.Helper()
	s.check("AddMember")
	if len(s.all()) == mostMembers {
		s.t.Fatalf("zktest: AddMember: there were %d members already", mostMembers)
	}
	m := s.ensemble.Add()
	if m == nil {
		s.t.Fatal("zktest: AddMember: the server is standalone, or has no leader with a majority")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	member := newMember(s, m)
	s.members = append(s.members, member)
	for _, h := range s.hosts {
		h.addDoor(member)
	}
	return member
}

// Remove takes the member out of the ensemble, as ZooKeeper's "reconfig -remove" does. It has no
// vote, and neither /zookeeper/config nor Addrs lists it. It serves its clients and accepts others
// until it is killed, and then never again. If it leads, the others elect a leader, which it
// follows. t fails if the member was removed before, is the last one, or if no majority of the other
// members follows the leader.
func (m *Member) Remove() {
	m.s.t.Helper()
	m.s.check("Remove")
	if !m.s.ensemble.Remove(m.m) {
		m.s.t.Errorf("zktest: Remove: member %d was removed before, is the last one, or no majority of the others follows a leader", m.ID())
		return
	}
	m.removed.Store(true)
}

// describe returns the text of /zookeeper/config, as an ensemble with a dynamic configuration has
// it.
func (s *Server) describe(members []int, version int64) string {
	var text strings.Builder
	for _, id := range members {
		fmt.Fprintf(&text, "server.%d=zk%d:2888:3888:participant;%s\n", id, id, s.addr(id))
	}
	fmt.Fprintf(&text, "version=%x", version)
	return text.String()
}

// ID returns the member's number; the first is 1.
func (m *Member) ID() int { return m.m.ID() }

// Addr returns the member's address, which is also in Server.Addrs.
//
// It is on the loopback interface, with a port on which no program listens. So the system refuses a
// client without the dialer of a Host at once, on any machine.
func (m *Member) Addr() string { return m.s.addr(m.ID()) }

func (s *Server) addr(id int) string {
	return fmt.Sprintf("127.0.0.1:%d", s.number%mostServers*mostMembers+id)
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
