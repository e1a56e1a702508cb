package memzk

import (
	"errors"
	"net"
	"slices"
	"syscall"
	"time"

	"github.com/zklocks/zklocks/internal/jute"
)

type role uint8

const (
	looking role = iota // has no leader and serves no clients
	following
	leading
)

// These are the times that a member without a leader needs to find a leader, and that an election
// takes, if the members reach each other. Real servers wait 200 ms for a better vote.
const (
	joinDelay     = 200 * time.Millisecond
	electionDelay = 200 * time.Millisecond
)

// Member is a server of an ensemble, or a standalone server.
type Member struct {
	e  *Ensemble
	id int

	// All that follows is guarded by Ensemble.mu.

	alive, paused, isolated bool
	removed                 bool          // it does not belong to the configuration any more
	retired                 bool          // its process has ended since then
	gate                    chan struct{} // closed when a paused member resumes or dies
	toExpire                []int64       // sessions that a paused leader ends when it resumes
	role                    role
	leader                  *Member // the leader that it follows, or itself if it leads
	epoch                   int64   // the epoch of that leader

	// Indexes in the log: received is on this member's disk, applied is in its tree.
	tree              *tree
	watches           *watches
	received, applied int
	lag               time.Duration
	due               []time.Duration // when to apply the entries that are received and not applied

	nextSession int64
	conns       map[*conn]struct{}
	bySession   map[int64]*conn
	touched     map[int64]time.Duration // sessions in use since the last ping, with their timeouts
	outbox      []func(leader *Member)  // requests that wait until the leader can be reached
	held        []*request              // requests that wait until Stall has ended; nil: it has
	syncs       []*request
	heard       time.Duration // while it and its leader cannot exchange packets: when they last did

	// State of a leader.
	tracker   *tracker
	since     time.Duration
	contact   time.Duration // when it last sent a proposal
	zxid      int64
	followers map[*Member]bool
	stalled   []*request // requests that wait for a majority
	sweep     []string   // containers to delete

	sessionAlarm, pingAlarm, quorumAlarm, containerAlarm alarm // of a leader
	applyAlarm, silenceAlarm, joinAlarm                  alarm // of a follower
	idleAlarm                                            alarm

	packetsIn, packetsOut int64
	started               time.Time
}

func (e *Ensemble) newMember(id int) *Member {
	m := &Member{
		e: e, id: id, alive: true,
		tree: newTree(), watches: newWatches(&e.behavior),
		conns: map[*conn]struct{}{}, bySession: map[int64]*conn{},
		touched: map[int64]time.Duration{}, started: time.Now(),
	}
	m.tree.watches = m.watches
	m.nextSession = e.firstSession(id, time.Now())
	m.sessionAlarm = e.newAlarm(m.expireSessions)
	m.pingAlarm = e.newAlarm(m.ping)
	m.quorumAlarm = e.newAlarm(m.checkQuorum)
	m.containerAlarm = e.newAlarm(m.sweepContainers)
	m.applyAlarm = e.newAlarm(m.applyDue)
	m.silenceAlarm = e.newAlarm(m.silence)
	m.joinAlarm = e.newAlarm(m.tryJoin)
	m.idleAlarm = e.newAlarm(m.closeIdle)
	return m
}

// ID returns the member's number; the first is 1.
func (m *Member) ID() int { return m.id }

// Serve accepts clients until the listener is closed. Ensemble.Stop closes the listener, also if
// Serve is called after Stop. While the process has no free file descriptor Serve retries, as a
// real server does.
func (m *Member) Serve(l net.Listener) error {
	e := m.e
	e.lock()
	if e.stopped {
		e.unlock()
		return l.Close()
	}
	e.running.Add(1)
	e.listeners[l] = struct{}{}
	e.unlock()
	defer e.running.Done()
	defer func() {
		e.lock()
		delete(e.listeners, l)
		e.unlock()
	}()
	for {
		nc, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if passes(err) {
			time.Sleep(10 * time.Millisecond) // the same pause as a real server
			continue
		}
		if err != nil {
			return err
		}
		go m.ServeConn(nc)
	}
}

// passes reports whether the listener may accept another client after this error.
func passes(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ECONNABORTED)
}

// ServeConn serves one client until the connection ends.
func (m *Member) ServeConn(nc net.Conn) {
	e := m.e
	e.lock()
	if e.stopped || !m.alive {
		e.unlock()
		nc.Close()
		return
	}
	e.running.Add(2)
	c := m.newConn(nc)
	e.unlock()
	go func() {
		defer e.running.Done()
		c.write()
	}()
	defer e.running.Done()
	c.read()
	e.lock()
	if c.ending && c.writing && !c.closed {
		// The writing goroutine writes the rest and closes the connection.
		e.unlock()
		<-c.gone
		e.lock()
	}
	c.shut()
	e.unlock()
	close(c.done)
}

// serves reports whether clients are answered: a member without a leader closes their connections.
func (m *Member) serves() bool { return m.alive && m.role != looking }

// usable reports whether other members can reach this member.
func (m *Member) usable() bool { return m.alive && !m.paused && !m.isolated }

func (m *Member) dropClients() {
	for _, c := range m.connections() {
		c.shut()
	}
}

// connections returns all connections, the oldest first.
func (m *Member) connections() []*conn {
	list := make([]*conn, 0, len(m.conns))
	for c := range m.conns {
		list = append(list, c)
	}
	sortConns(list)
	return list
}

// Kill ends the member's process: its connections are cut, and it keeps its data.
func (m *Member) Kill() {
	m.e.lock()
	defer m.e.unlock()
	m.kill()
}

func (m *Member) kill() {
	if !m.alive {
		return
	}
	m.e.note("member %d dies", m.id)
	m.alive, m.retired = false, m.removed
	m.open()
	m.leave()
}

// leave ends the member's role as a leader or a follower, and drops its clients.
func (m *Member) leave() {
	was, leader := m.role, m.leader
	m.role, m.leader, m.toExpire = looking, nil, nil
	m.dropClients()
	clear(m.touched)
	m.outbox, m.held, m.syncs, m.stalled = nil, nil, nil, nil
	m.silenceAlarm.stop()
	m.joinAlarm.stop()
	switch was {
	case leading:
		for _, a := range []*alarm{&m.sessionAlarm, &m.pingAlarm, &m.quorumAlarm, &m.containerAlarm} {
			a.stop()
		}
		m.tracker, m.sweep = nil, nil
		followers := m.e.sorted(m.followers)
		m.followers = nil
		for _, f := range followers {
			f.lostLeader(m)
		}
	case following:
		if leader.followers[m] { // an isolated leader detects this sooner than a real one
			delete(leader.followers, m)
			leader.watchQuorum()
		}
	}
	m.e.seek()
}

// Restart starts a member that was killed.
func (m *Member) Restart() {
	e := m.e
	e.lock()
	defer e.unlock()
	if m.alive || e.stopped {
		return
	}
	e.note("member %d starts", m.id)
	m.alive, m.started = true, time.Now()
	m.watches = newWatches(&e.behavior)
	m.tree.watches = m.watches
	m.nextSession = max(m.nextSession, e.firstSession(m.id, time.Now()))
	m.packetsIn, m.packetsOut = 0, 0
	if len(e.members) == 1 {
		e.lead(m, nil)
		return
	}
	e.seek()
}

// Pause stops the member's process as SIGSTOP does: connections remain open, nothing is answered,
// and no timer acts.
func (m *Member) Pause() {
	e := m.e
	e.lock()
	defer e.unlock()
	if !m.alive || m.paused || e.stopped {
		return
	}
	e.note("member %d is paused", m.id)
	m.paused, m.gate = true, make(chan struct{})
	e.linksDown()
}

// open lets the reading goroutines of a paused member continue.
func (m *Member) open() {
	if m.paused {
		m.paused = false
		close(m.gate)
	}
}

// Resume ends a pause. What was due meanwhile happens at once, in no particular order relative to
// the requests that have arrived. A leader that was deposed has not detected it yet: it answers
// reads and handshakes until it next counts its followers, within a tick.
func (m *Member) Resume() {
	e := m.e
	e.lock()
	defer e.unlock()
	if !m.paused {
		return
	}
	e.note("member %d goes on", m.id)
	m.open()
	m.seeLinks()
	if m.role == leading {
		for _, id := range m.toExpire {
			m.endSession(id)
		}
		// The requests of its own clients have arrived, and may be processed first. The sessions
		// that its followers' clients use are reported with the next ping.
		m.expire(func(id int64) bool {
			return m.bySession[id] == nil && slices.ContainsFunc(m.e.members, func(f *Member) bool {
				return f.leader == m && f.touched[id] > 0
			})
		})
		m.setContainerAlarm()
	}
	m.toExpire = nil
	m.applyDue()
	for c := range m.conns {
		if !c.initialized {
			c.active = e.now() // the connection is accepted only now
		}
		m.setIdleAlarm(c)
	}
	e.linksUp()
	e.seek()
}

// Isolate cuts the member off from the other members. Its clients remain connected.
func (m *Member) Isolate() {
	e := m.e
	e.lock()
	defer e.unlock()
	if m.isolated || e.stopped {
		return
	}
	e.note("member %d is isolated", m.id)
	m.isolated = true
	e.linksDown()
}

// Heal ends an isolation.
func (m *Member) Heal() {
	e := m.e
	e.lock()
	defer e.unlock()
	if !m.isolated {
		return
	}
	e.note("member %d is reached again", m.id)
	m.isolated = false
	for _, o := range append([]*Member{m}, e.members...) {
		if o.alive && !o.paused && (o == m || o.role == following && o.leader == m) {
			o.seeLinks()
		}
	}
	e.linksUp()
	e.seek()
}

// seeLinks makes a member that resumes or is reachable again detect which links have ended
// meanwhile.
func (m *Member) seeLinks() {
	switch m.role {
	case leading:
		for _, f := range m.e.sorted(m.followers) {
			if f.overdue() {
				delete(m.followers, f)
			}
		}
		m.watchQuorum()
	case following:
		l := m.leader
		ended := !l.isolated && !m.isolated && (!l.alive || l.role != leading || !l.followers[m])
		if ended || m.overdue() {
			m.leave()
		}
	}
}

// overdue reports whether a follower and its leader cannot reach each other and the sync limit has
// passed: the alarm rang while one of them was paused and could not act.
func (m *Member) overdue() bool { return !m.linked() && !m.silenceAlarm.set }

// Lag makes the member apply transactions d after their commit. It has no effect on a leader. A
// member that joins a leader applies everything first.
func (m *Member) Lag(d time.Duration) {
	m.e.lock()
	defer m.e.unlock()
	m.lag = max(d, 0)
	if d <= 0 && m.alive && !m.paused {
		m.catchUp(m.received)
	}
}

// linked reports whether this follower and its leader reach each other.
func (m *Member) linked() bool {
	return m.role == following && m.usable() && m.leader.usable() &&
		m.leader.role == leading && m.leader.followers[m]
}

// linkDown sets the alarm at which a follower and its unreachable leader drop each other.
func (m *Member) linkDown() {
	if m.role != following || m.linked() || m.silenceAlarm.set {
		return
	}
	m.heard = m.leader.lastContact()
	m.silenceAlarm.at(m.heard + m.e.syncTimeout())
}

// lastContact returns when a leader last exchanged a packet with its followers: at its last ping or
// proposal.
func (m *Member) lastContact() time.Duration { return max(m.contact, m.lastPing()) }

func (m *Member) lastPing() time.Duration {
	half := m.e.cfg.Tick / 2
	return m.since + (m.e.now()-m.since)/half*half
}

// silence is the alarm at which a follower and its leader drop each other.
func (m *Member) silence() {
	if m.role != following || m.linked() {
		return
	}
	l := m.leader
	if l.alive && !l.paused && l.followers[m] {
		delete(l.followers, m)
		l.watchQuorum()
	}
	// A paused member acts when it resumes.
	if m.alive && !m.paused {
		m.e.note("member %d gives up member %d, its leader", m.id, l.id)
		m.leave()
	}
}

// lostLeader is called on a follower when the leader's process has ended or has stopped leading.
func (m *Member) lostLeader(l *Member) {
	if !m.alive || m.role != following || m.leader != l {
		return
	}
	if m.paused || m.isolated || l.isolated {
		m.linkDown()
		return
	}
	m.leave()
}

// linkUp is called when a follower may reach its leader again before they have dropped each other.
func (m *Member) linkUp() {
	if !m.linked() {
		return
	}
	if m.silenceAlarm.set && m.leader.lastPing() > m.heard {
		m.answerPing() // the ping was sent meanwhile, so it arrives before everything that is sent now
	}
	m.silenceAlarm.stop()
	m.receive()
	box := m.outbox
	m.outbox = nil
	for _, do := range box {
		if m.linked() {
			do(m.leader)
		}
	}
	m.setPingAlarm()
}

// setPingAlarm makes the leader's next ping collect the sessions in use. The leader pings twice a
// tick, but a ping that collects nothing need not take place.
func (m *Member) setPingAlarm() {
	if m.role == following && len(m.touched) > 0 && m.linked() {
		half := m.e.cfg.Tick / 2
		l := m.leader
		l.pingAlarm.before(l.since + ((m.e.now()-l.since)/half+1)*half)
	}
}

// ping is the alarm of a leader: its followers answer with the sessions in use.
func (m *Member) ping() {
	if m.role != leading || m.paused {
		return
	}
	for _, f := range m.e.sorted(m.followers) {
		if f.leader == m && f.linked() {
			f.answerPing()
		}
	}
}

// answerPing reports the sessions in use to the leader.
func (m *Member) answerPing() {
	for _, id := range sortedKeys(m.touched) {
		m.leader.touchSession(id, m.touched[id])
	}
	clear(m.touched)
}

// hasQuorum reports whether a majority can receive the leader's proposals.
func (m *Member) hasQuorum() bool {
	if len(m.e.members) == 1 {
		return true
	}
	n := 0
	if m.votes() {
		n++
	}
	for f := range m.followers {
		if f.votes() && f.leader == m && f.linked() {
			n++
		}
	}
	return n >= m.e.quorum()
}

// watchQuorum is called when the followers of a leader have changed. A leader checks once a tick
// whether it has enough followers.
func (m *Member) watchQuorum() {
	if m.role != leading || m.paused {
		return
	}
	if m.support() >= m.e.quorum() {
		m.quorumAlarm.stop()
		m.pump()
		return
	}
	tick := m.e.cfg.Tick
	m.quorumAlarm.before(m.since + ((m.e.now()-m.since)/tick+1)*tick)
}

func (m *Member) checkQuorum() {
	if m.role != leading || m.paused || m.support() >= m.e.quorum() {
		return
	}
	m.e.note("member %d leads no more: it has not enough followers", m.id)
	m.leave()
}

// pump processes the requests that waited for a majority.
func (m *Member) pump() {
	for m.role == leading && len(m.stalled) > 0 && m.hasQuorum() {
		waiting := m.stalled
		m.stalled = nil
		for _, r := range waiting {
			if r.op == jute.OpSync {
				m.processSync(r)
			} else {
				m.process(r)
			}
		}
	}
}

func (m *Member) openSession(c *conn) {
	r := &request{c: c, from: m, op: jute.OpCreateSession, session: c.session}
	if m.role == leading {
		m.trackSession(c.session, c.timeout, m)
	}
	m.toLeader(r, (*Member).process)
}

// resumeSession asks the leader whether the session is alive. A leader decides alone, so a deposed
// leader may be wrong.
func (m *Member) resumeSession(c *conn) {
	r := &request{c: c, from: m, session: c.session}
	m.toLeader(r, (*Member).validateSession)
}

// validateSession runs on the leader. The session then belongs to the member of this connection.
func (m *Member) validateSession(r *request) {
	valid := m.touchSession(r.session, r.c.timeout)
	if valid {
		m.tracker.setOwner(r.session, r.from)
	}
	r.c.establish(valid)
}

// setIdleAlarm sets the alarm at which the member closes the connection if it has been silent for
// too long.
func (m *Member) setIdleAlarm(c *conn) { m.idleAlarm.before(c.idleUntil()) }

func (c *conn) idleUntil() time.Duration {
	return ((c.active+c.timeout)/sessionlessTimeout + 1) * sessionlessTimeout
}

func (m *Member) closeIdle() {
	if m.paused {
		return
	}
	now := m.e.now()
	for _, c := range m.connections() {
		if c.idleUntil() <= now {
			c.shut()
			continue
		}
		m.setIdleAlarm(c)
	}
}

// setContainerAlarm sets the alarm for the next deletion of containers, if there are any.
func (m *Member) setContainerAlarm() {
	if m.role != leading || len(m.tree.containers) == 0 || m.containerAlarm.set {
		return
	}
	every := m.e.cfg.ContainerCheck
	m.containerAlarm.at(m.since + ((m.e.now()-m.since)/every+1)*every)
}

// sweepPause is ZooKeeper's pause between deletes of containers: 10,000 a minute.
const sweepPause = 6 * time.Millisecond

func (m *Member) sweepContainers() {
	if m.role != leading || m.paused {
		return
	}
	if len(m.sweep) == 0 {
		m.sweep = m.worn()
	}
	if len(m.sweep) > 0 {
		path := m.sweep[0]
		m.sweep = m.sweep[1:]
		m.process(&request{from: m, op: jute.OpDeleteContainer, path: path})
	}
	if len(m.sweep) > 0 {
		m.containerAlarm.at(m.e.now() + sweepPause)
		return
	}
	m.setContainerAlarm()
}

// worn lists the containers that had children and have none.
func (m *Member) worn() []string {
	var paths []string
	for _, path := range sortedKeys(m.tree.containers) {
		if n := m.tree.containers[path]; len(n.children) == 0 && n.creates > 0 {
			paths = append(paths, path)
		}
	}
	return paths
}
