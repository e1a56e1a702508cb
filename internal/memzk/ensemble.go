package memzk

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/zklocks/zklocks/internal/jute"
)

// LongestTick is the longest tick for which the protocol can express 20 ticks as a session timeout.
const LongestTick = math.MaxInt32 / 20 * time.Millisecond

// Config configures an ensemble. The zero Config is a standalone server with ZooKeeper's sample
// configuration.
type Config struct {
	Members int           // 0 or 1: standalone
	Tick    time.Duration // 0: 2 s

	MinSession, MaxSession time.Duration // limits of session timeouts; 0: 2 and 20 ticks

	ContainerCheck time.Duration // how often empty containers are deleted; 0: a minute

	// Version is the ZooKeeper version to imitate, as in "3.8.0" (which means Debian's, with
	// patches) or "3.9.3". Empty: the newest known version.
	Version string

	// SASL is the mechanism by which clients authenticate; nil: none, as without a JAAS
	// configuration.
	SASL *SASL

	// SyncLimit is the number of ticks without a packet after which members drop each other; 0: 5.
	SyncLimit int

	// Phase is how much of a tick has passed at the start. Sessions expire at the ends of ticks;
	// the leader's pings are not aligned with them.
	Phase time.Duration

	// Random is the seed of passwords and of random choices: the order in which a session's nodes
	// are deleted, and which of equal members is elected. Only Start uses it. Nil: seeded by the
	// system.
	Random *rand.Rand

	// Number distinguishes ensembles of one program that start at the same instant: up to 16 of
	// them have different session ids, and reject each other's sessions.
	Number int

	// Describe, if not nil, returns the text of /zookeeper/config: of a configuration with these
	// members and this version. If it is nil, the node is empty.
	Describe func(members []int, version int64) string

	// Log, if not nil, is called with a text for each event of members and sessions, by many
	// goroutines.
	Log func(string)
}

// Ensemble is a set of servers with one log.
type Ensemble struct {
	cfg      Config
	behavior behavior
	start    time.Time
	secret   uint64
	members  []*Member

	running sync.WaitGroup // goroutines, and alarms that are set

	// mu guards all fields below, and the state of members and connections. See lock and unlock.
	mu        sync.Mutex
	random    *rand.Rand
	epoch     int64
	log       []entry
	base      int // index of log[0]
	stopped   bool
	listeners map[net.Listener]struct{}
	accepted  int64 // connections so far
	toClose   []net.Conn
	calls     []func() // calls of Config.Log to make after unlock
	scratch   []byte

	electAlarm alarm
}

// entry is a transaction, and the request that caused it. The client may no longer wait for the
// answer.
type entry struct {
	x *txn
	r *request
}

// Start starts an ensemble, which has a leader at once. To use an ensemble in a synctest bubble,
// call Start in that bubble, because the timers belong to it.
func Start(cfg Config) *Ensemble {
	if cfg.Members < 0 || cfg.Tick < 0 {
		panic(fmt.Sprintf("memzk: a Config with %d members and a tick of %v", cfg.Members, cfg.Tick))
	}
	cfg.Members = max(cfg.Members, 1)
	cfg.Tick = cmp.Or(cfg.Tick, 2*time.Second)
	cfg.MinSession = cmp.Or(cfg.MinSession, 2*cfg.Tick)
	cfg.MaxSession = cmp.Or(cfg.MaxSession, 20*cfg.Tick)
	cfg.ContainerCheck = cmp.Or(cfg.ContainerCheck, time.Minute)
	cfg.SyncLimit = cmp.Or(cfg.SyncLimit, 5)
	cfg.Version = cmp.Or(cfg.Version, newest)
	if cfg.MinSession > cfg.MaxSession {
		panic(fmt.Sprintf("memzk: MinSession %v is above MaxSession %v", cfg.MinSession, cfg.MaxSession))
	}
	e := &Ensemble{
		cfg: cfg, behavior: behaviorOf(cfg.Version), start: time.Now().Add(-cfg.Phase),
		listeners: map[net.Listener]struct{}{},
	}
	seed := rand.Uint64
	if cfg.Random != nil {
		seed = cfg.Random.Uint64
	}
	// The caller's generator may be in use elsewhere, without mu.
	e.random = rand.New(rand.NewPCG(seed(), seed()))
	e.secret = e.random.Uint64() + uint64(cfg.Number)
	e.electAlarm = e.newAlarm(e.elect)
	for id := range cfg.Members {
		e.members = append(e.members, e.newMember(id+1))
	}
	e.lock()
	defer e.unlock()
	for _, m := range e.members {
		m.tree.nodes[configPath].data = e.config(0)
	}
	last := len(e.members) - 1
	e.lead(e.members[last], e.members[:last])
	return e
}

// now is the time since the start.
func (e *Ensemble) now() time.Duration { return time.Since(e.start) }

func (e *Ensemble) lock() { e.mu.Lock() }

// unlock releases mu, and then does what must not be done under it: I/O and calls of foreign code.
func (e *Ensemble) unlock() {
	conns, calls := e.toClose, e.calls
	e.toClose, e.calls = nil, nil
	e.mu.Unlock()
	for _, nc := range conns {
		nc.Close()
	}
	for _, call := range calls {
		call()
	}
}

func (e *Ensemble) note(format string, args ...any) {
	if e.cfg.Log != nil {
		text := fmt.Sprintf(format, args...)
		e.calls = append(e.calls, func() { e.cfg.Log(text) })
	}
}

func (e *Ensemble) quorum() int                { return len(e.voters())/2 + 1 }
func (e *Ensemble) syncTimeout() time.Duration { return time.Duration(e.cfg.SyncLimit) * e.cfg.Tick }

// end returns the index after the last entry of the log.
func (e *Ensemble) end() int { return e.base + len(e.log) }

func (e *Ensemble) sorted(set map[*Member]bool) []*Member {
	list := make([]*Member, 0, len(set))
	for m := range set {
		list = append(list, m)
	}
	slices.SortFunc(list, func(a, b *Member) int { return a.id - b.id })
	return list
}

func sortConns(list []*conn) {
	slices.SortFunc(list, func(a, b *conn) int { return cmp.Compare(a.number, b.number) })
}

// commit appends a transaction to the log, on a leader that reaches a majority. All reachable
// followers receive the transaction, and apply it now or when their lag has passed.
func (m *Member) commit(x *txn, r *request) {
	e := m.e
	m.zxid++
	x.zxid, x.time = m.zxid, time.Now().UnixMilli()
	if len(e.members) == 1 {
		m.apply(x, r)
		return
	}
	m.contact = e.now()
	e.log = append(e.log, entry{x, r})
	m.received = e.end()
	m.apply(x, r)
	for _, f := range e.members {
		if f != m && f.leader == m && f.linked() {
			f.receive()
		}
	}
	e.trim()
}

// apply applies a transaction to the member's state, and sends the events to its clients.
func (m *Member) apply(x *txn, r *request) {
	res := m.tree.apply(x)
	m.applied++
	switch x.kind {
	case jute.OpCreateSession:
		if m.role == following { // each follower reports the new session with its next answer to a ping
			m.touched[x.session] = time.Duration(x.timeout) * time.Millisecond
			m.setPingAlarm()
		}
	case jute.OpCloseSession:
		if m.role == leading {
			delete(m.tracker.sessions, x.session)
		}
		delete(m.touched, x.session)
		if c := m.bySession[x.session]; c != nil && (r == nil || r.c != c) {
			c.shut()
		}
	case jute.OpCreateContainer, jute.OpMulti:
		m.setContainerAlarm()
	}
	if r != nil && r.from == m {
		r.finish(res)
	}
	if len(m.syncs) > 0 {
		m.finishSyncs()
	}
}

// receive receives the rest of the log. Without a lag it also applies it.
func (m *Member) receive() {
	e := m.e
	for m.received < e.end() {
		m.received++
		if m.lag == 0 && len(m.due) == 0 {
			m.applyNext()
			continue
		}
		m.due = append(m.due, e.now()+m.lag)
	}
	if len(m.due) > 0 {
		m.applyAlarm.before(m.due[0])
	}
}

func (m *Member) applyNext() {
	en := m.e.log[m.applied-m.e.base]
	m.apply(en.x, en.r)
}

func (m *Member) applyDue() {
	if !m.alive || m.paused {
		return
	}
	now := m.e.now()
	for len(m.due) > 0 && m.due[0] <= now {
		m.due = m.due[1:]
		m.applyNext()
	}
	if len(m.due) > 0 {
		m.applyAlarm.before(m.due[0])
	}
}

// catchUp applies the log up to an index, ignoring the lag.
func (m *Member) catchUp(index int) {
	m.due = nil
	m.applyAlarm.stop()
	for m.applied < index {
		m.applyNext()
	}
	m.received = max(m.received, m.applied)
}

const trimEvery = 1 << 12

// trim drops the entries that all members have applied.
func (e *Ensemble) trim() {
	if len(e.log)%trimEvery != 0 {
		return
	}
	least := e.end()
	for _, m := range e.members {
		least = min(least, m.applied)
	}
	e.log = slices.Clone(e.log[least-e.base:])
	e.base = least
}

// lead makes m the leader of others. Together they have received everything that was committed.
func (e *Ensemble) lead(m *Member, others []*Member) {
	e.electAlarm.stop()
	m.joinAlarm.stop()
	m.catchUp(e.end())
	m.role, m.leader = leading, m
	m.since = e.now()
	m.contact = m.since
	m.followers = map[*Member]bool{}
	m.zxid = m.tree.zxid
	if len(e.members) > 1 {
		e.epoch++
		m.epoch = e.epoch
		m.zxid = e.epoch << 32
		m.tree.zxid = m.zxid
		e.note("member %d leads, epoch %d", m.id, e.epoch)
	}
	m.startSessions()
	m.setContainerAlarm()
	for _, f := range others {
		f.join(m)
	}
}

// join makes m an up-to-date follower of leader.
func (m *Member) join(leader *Member) {
	m.joinAlarm.stop()
	m.catchUp(m.e.end())
	m.role, m.leader, m.epoch = following, leader, leader.epoch
	leader.followers[m] = true
	m.e.note("member %d follows member %d", m.id, leader.id)
	leader.watchQuorum()
}

// usableLeader returns the leader that members can join. That is never a leader that was deposed
// and has not detected it, even if the newest leader is unreachable, because a deposed leader lacks
// transactions.
func (e *Ensemble) usableLeader() *Member {
	for _, m := range e.members {
		if m.role == leading && m.epoch == e.epoch && m.usable() {
			return m
		}
	}
	return nil
}

// seek is called whenever members without a leader may have become able to join or elect a leader.
// It makes them do that.
func (e *Ensemble) seek() {
	if e.stopped || len(e.members) == 1 {
		return
	}
	l := e.usableLeader()
	for _, m := range e.members {
		if m.role == looking && m.usable() && !m.retired && l != nil && !m.joinAlarm.set {
			m.joinAlarm.at(e.now() + joinDelay)
		}
	}
	if l == nil && len(e.candidates()) >= e.quorum() {
		e.electAlarm.before(e.now() + electionDelay)
	}
}

func (e *Ensemble) candidates() []*Member {
	var list []*Member
	for _, m := range e.members {
		if m.role == looking && m.usable() && m.votes() {
			list = append(list, m)
		}
	}
	return list
}

func (m *Member) tryJoin() {
	if m.role != looking || !m.usable() {
		return
	}
	if l := m.e.usableLeader(); l != nil {
		m.join(l)
		return
	}
	m.e.seek()
}

// elect is the alarm of an election. It elects any member, which receives the rest from the others.
func (e *Ensemble) elect() {
	list := e.candidates()
	if len(list) < e.quorum() || e.usableLeader() != nil {
		e.seek()
		return
	}
	leader := list[e.random.IntN(len(list))]
	e.lead(leader, slices.DeleteFunc(list, func(m *Member) bool { return m == leader }))
	e.seek() // members without a vote join
}

func (e *Ensemble) linksDown() {
	for _, m := range e.members {
		m.linkDown()
	}
}

func (e *Ensemble) linksUp() {
	for _, m := range e.members {
		m.linkUp()
	}
	for _, m := range e.members {
		if m.role == leading {
			m.pump()
		}
	}
}

// Members returns all members, by number, also members that were removed.
func (e *Ensemble) Members() []*Member { return slices.Clone(e.members) }

// Leader returns the leader, or nil if there is none. A paused or isolated leader remains the
// leader until another is elected.
func (e *Ensemble) Leader() *Member {
	e.lock()
	defer e.unlock()
	return e.leader()
}

func (e *Ensemble) leader() *Member {
	var l *Member
	for _, m := range e.members {
		if m.alive && m.role == leading && (l == nil || m.epoch > l.epoch) {
			l = m
		}
	}
	return l
}

// Expire makes the leader end a session now, as its timer would; a paused leader ends it when it
// resumes. It returns false if there is no such session, or no leader.
func (e *Ensemble) Expire(session int64) bool {
	e.lock()
	defer e.unlock()
	l := e.leader()
	if l == nil || e.stopped {
		return false
	}
	s := l.tracker.sessions[session]
	if s == nil || s.closing {
		return false
	}
	e.note("session 0x%x is expired", uint64(session))
	s.closing = true
	if l.paused {
		l.toExpire = append(l.toExpire, session)
	} else {
		l.endSession(session)
	}
	return true
}

// Elect makes m the leader, as if the leader had died: connections are closed, and all sessions
// have their full timeout again. It returns false if m cannot lead, because it is dead, paused, or
// does not reach a majority.
func (e *Ensemble) Elect(m *Member) bool {
	e.lock()
	defer e.unlock()
	var others []*Member
	for _, o := range e.members {
		if o != m && o.usable() && o.votes() {
			others = append(others, o)
		}
	}
	if e.stopped || m.e != e || !m.alive || m.paused || m.removed || len(others)+1 < e.quorum() || len(others) > 0 && m.isolated {
		return false
	}
	old := e.leader()
	if old != nil && old.usable() {
		old.leave()
	}
	for _, o := range append(others, m) {
		if o.role != looking {
			o.leave()
		}
	}
	e.lead(m, others)
	return true
}

// Sessions returns all sessions that have started and not ended, sorted.
func (e *Ensemble) Sessions() []int64 {
	e.lock()
	defer e.unlock()
	return sortedKeys(e.newestTree().sessions)
}

// Nodes returns all nodes but the initial nodes of a server, with the sessions that own them.
func (e *Ensemble) Nodes() map[string]int64 {
	e.lock()
	defer e.unlock()
	return e.newestTree().owners()
}

// Czxid returns the czxid of the node at path, or 0 if there is none.
func (e *Ensemble) Czxid(path string) int64 {
	e.lock()
	defer e.unlock()
	if n := e.newestTree().nodes[path]; n != nil {
		return n.czxid
	}
	return 0
}

// Written returns the data and the mzxid of the node at path, or 0 if there is none.
func (e *Ensemble) Written(path string) (data string, mzxid int64) {
	e.lock()
	defer e.unlock()
	if n := e.newestTree().nodes[path]; n != nil {
		return string(n.data), n.mzxid
	}
	return "", 0
}

// Connected returns the member to which each session's client is connected.
func (e *Ensemble) Connected() map[int64]*Member {
	e.lock()
	defer e.unlock()
	at := map[int64]*Member{}
	for _, m := range e.members {
		for id, c := range m.bySession {
			if c.established {
				at[id] = m
			}
		}
	}
	return at
}

// newestTree returns the tree of the member that has applied the most.
func (e *Ensemble) newestTree() *tree {
	best := e.members[0]
	for _, m := range e.members {
		if m.applied > best.applied {
			best = m
		}
	}
	return best.tree
}

func (t *tree) owners() map[string]int64 {
	owners := map[string]int64{}
	for path, n := range t.nodes {
		switch path {
		case "", "/", "/zookeeper", "/zookeeper/quota", configPath:
		default:
			owners[path] = n.stat().owner
		}
	}
	return owners
}

// SetSequence sets the number of a directory's next sequential child, on all members, without two
// billion creates. It returns false if there is no such node.
func (e *Ensemble) SetSequence(dir string, next int32) bool {
	e.lock()
	defer e.unlock()
	found := false
	for _, m := range e.members {
		if n := m.tree.nodes[dir]; n != nil {
			n.creates, found = next, true
		}
	}
	return found
}

// Stop ends all connections, listeners and goroutines, and waits for them.
func (e *Ensemble) Stop() {
	e.lock()
	e.stopped = true
	for _, m := range e.members {
		m.open()
		m.dropClients()
		for _, a := range []*alarm{
			&m.sessionAlarm, &m.pingAlarm, &m.quorumAlarm, &m.containerAlarm,
			&m.applyAlarm, &m.silenceAlarm, &m.joinAlarm, &m.idleAlarm,
		} {
			a.stop()
		}
	}
	e.electAlarm.stop()
	listeners := make([]net.Listener, 0, len(e.listeners))
	for l := range e.listeners {
		listeners = append(listeners, l)
	}
	e.unlock()
	for _, l := range listeners {
		l.Close()
	}
	e.running.Wait()
}
