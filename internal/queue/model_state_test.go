package queue

import (
	"fmt"
	"math/bits"
	"strings"

	"github.com/zklocks/zklocks/internal/znode"
)

// The limits of a model. They keep a state small and free of pointers, so that it can be copied and
// hashed.
const (
	maxMembers = 4
	maxNodes   = 16 // over all rounds
	maxLog     = 14 // transactions that some member has not received yet
	maxLine    = 12 // nodes that some member still knows
)

// modelConfig is one situation to search: the members, and how often each fault may occur.
type modelConfig struct {
	members []memberSpec
	permits int
	// resized is the number of permits after a Resize, which may happen once; 0: never.
	resized int
	rounds  int // how often a member queues; 0 is 1
	// others are children of other programs. No member waits for them, and they fill the room in
	// the reply to a create.
	others int

	expiries, cancels, crashes int
	losses                     int // holds declared lost whose node exists
	thefts                     int // nodes that another program deletes
}

// memberSpec is what a member wants.
type memberSpec struct {
	kind  znode.Kind
	nodes int
	// downgrade lets a writer that holds become a reader.
	downgrade bool
}

// members makes members of words: l for a mutex, w for a writer, d for a writer that downgrades, r
// for a reader, p2 for two permits.
func members(words string) (all []memberSpec) {
	for word := range strings.FieldsSeq(words) {
		spec := memberSpec{nodes: 1}
		switch word[0] {
		case 'd':
			spec.kind, spec.downgrade = znode.Write, true
		case 'p':
			spec.kind, spec.nodes = znode.Permit, int(word[1]-'0')
		default:
			spec.kind = kindOf[word[0]]
		}
		all = append(all, spec)
	}
	return all
}

// nodeNo is one of all the nodes that may ever exist. Each round of a member has nodes of its own,
// and so has a downgrade.
type nodeNo uint8

// nodeSet is a set of nodes.
type nodeSet uint16

func (s nodeSet) has(n nodeNo) bool         { return s>>n&1 != 0 }
func (s *nodeSet) add(n nodeNo)             { *s |= 1 << n }
func (s nodeSet) all(of nodeSet) bool       { return s&of == of }
func (s nodeSet) any(of nodeSet) bool       { return s&of != 0 }
func (s nodeSet) without(o nodeSet) nodeSet { return s &^ o }

// nodes calls yield for each node of the set.
func (s nodeSet) nodes(yield func(nodeNo) bool) {
	for s != 0 {
		n := nodeNo(bits.TrailingZeros16(uint16(s)))
		s &= s - 1
		if !yield(n) {
			return
		}
	}
}

// modelState is a state of the model. The log begins with the first transaction that some member
// has not received.
type modelState struct {
	isResized bool
	live      nodeSet        // the nodes that exist, as of the end of the log
	log       [maxLog]txn    // what happened, in order
	logged    uint8          // how many of log are used
	line      [maxLine]uint8 // the places in order of their numbers: node+1; 0 ends it
	left      faults
	member    [maxMembers]modelClient
}

// faults counts what may still go wrong.
type faults struct{ expiries, cancels, crashes, losses, thefts uint8 }

// modelClient is a member and its connection. Its server lags: heard is how much of the log the
// client has received, seen are the nodes that exist at that point of the log, and the server
// answers reads as of that point. The only state of a watch is that it was set: it has fired once
// the client has received the deletion.
type modelClient struct {
	seen    nodeSet // nodes that exist, according to what the client has received
	listed  nodeSet // its last listing
	pending nodeSet // nodes that it must still watch
	watched nodeSet // nodes whose watches it waits for, fired or not
	changed nodeSet // of watched, the nodes that were downgraded: their watches report a change
	marked  nodeSet // of watched, the nodes that were released with their mark
	missing nodeSet // nodes that did not exist when it tried to watch them
	deaf    nodeSet // only with a bug: watches of the last session, which never fire
	phase   phase
	round   uint8
	heard   uint8
	is      flags
}

type phase uint8

const (
	inOutside  phase = iota // not in line, about to come
	inMade                  // its nodes exist, and the reply says that it may be its turn
	inSurveys               // lists the line
	inDecides               // has listed, and it is its turn
	inWatches               // sets watches on the nearest blockers, then waits
	inHolds                 // believes that it holds
	inLeaves                // its nodes are about to be deleted
	inCrashed               // its process has ended, its session has not
	inFinished              // will never come back
)

type flags uint8

const (
	isOver        flags = 1 << iota // its session is over, and it has not noticed
	isCut                           // its server has noticed that, and answers nothing
	isNext                          // the next event may grant, so its own nodes must be watched
	isGuarded                       // its own nodes are watched
	isLowered                       // has downgraded
	isMarking                       // waits for a mark
	isToldResized                   // has received the Resize
	isResized                       // its last listing, or its create, used the new number
)

func (f flags) has(g flags) bool { return f&g != 0 }

// txn is a transaction: what happened, and to whom.
type txn uint8

type change uint8

const (
	txCreates change = iota << 5
	txDeletes
	txCloses // a session: deletes all its nodes
	txLowers // puts a read node in the place of a write node
	txSteals // deletes one node
	txMarks  // deletes, and says that it is a release
	txResizes
)

// model is what does not change from state to state.
type model struct {
	modelConfig
	bug   bug
	first [maxMembers][2]nodeSet // the nodes that a member makes in a round
	lower [maxMembers][2]nodeSet // the nodes that it downgrades to
	every [maxMembers]nodeSet
	owner [maxNodes]uint8
	kind  [maxNodes]znode.Kind
	place [maxNodes]nodeNo              // the node in whose place it stands: itself, unless a downgrade has made it
	names [maxNodes][maxLine]znode.Node // by node and by its number in line
	rules [maxMembers][2]rule           // by the first number of permits, and after a Resize

	taken, granted opCounts
	wrong          error // what the step that was taken last has broken
}

func newModel(c modelConfig, b bug) *model {
	m := &model{modelConfig: c, bug: b}
	if m.rounds == 0 {
		m.rounds = 1
	}
	next := nodeNo(0)
	add := func(i int, kind znode.Kind, id, place nodeNo) nodeSet {
		n := next
		next++
		m.owner[n], m.kind[n], m.place[n] = uint8(i), kind, place
		for seq := range maxLine {
			name := znode.Prefix(fmt.Sprintf("%08x-0000-4000-8000-000000000000", id), kind) + fmt.Sprintf("%010d", seq)
			parsed, ok := znode.Parse(name, kind)
			if !ok {
				panic("not a member's name: " + name)
			}
			m.names[n][seq] = parsed
		}
		m.every[i].add(n)
		return 1 << n
	}
	for i, s := range c.members {
		m.rules[i] = [2]rule{m.bug.rule(s.rule(c.permits)), m.bug.rule(s.rule(c.resized))}
		for round := range m.rounds {
			start := next
			for range s.nodes {
				m.first[i][round] |= add(i, s.kind, start, next)
			}
			if s.downgrade {
				m.lower[i][round] = add(i, znode.Read, start, start)
			}
		}
	}
	return m
}

// rule returns the rule of rwlock, reentrant and semaphore.
func (s memberSpec) rule(permits int) rule {
	switch s.kind {
	case znode.Write:
		return writeRule
	case znode.Read:
		return readRule
	case znode.Permit:
		return permitRule(s.nodes, permits)
	}
	return lockRule
}

func (m *model) start() modelState {
	return modelState{left: faults{
		expiries: uint8(m.expiries), cancels: uint8(m.cancels), crashes: uint8(m.crashes),
		losses: uint8(m.losses), thefts: uint8(m.thefts),
	}}
}

// own returns the nodes with which member i stands in line.
func (m *model) own(s *modelState, i int) nodeSet {
	me := &s.member[i]
	if me.is.has(isLowered) {
		return m.lower[i][me.round]
	}
	return m.first[i][me.round]
}

// rule returns the rule by which member i counts.
func (m *model) rule(s *modelState, i int) rule {
	if s.member[i].is.has(isResized) {
		return m.rules[i][1]
	}
	return m.rules[i][0]
}

// number returns the sequence number of a node.
func (m *model) number(s *modelState, n nodeNo) int {
	place := uint8(m.place[n]) + 1
	for seq, p := range s.line {
		if p == place {
			return seq
		}
	}
	panic("a node without a number")
}

// named returns nodes in the order of their numbers.
func (m *model) named(s *modelState, nodes nodeSet) []znode.Node {
	line := make([]znode.Node, 0, maxLine)
	for seq, p := range s.line {
		if p == 0 {
			break
		}
		for n := range nodes.nodes {
			if m.place[n] == nodeNo(p-1) {
				line = append(line, m.names[n][seq])
			}
		}
	}
	return line
}

// find returns the node that named has named.
func (m *model) find(s *modelState, named znode.Node) nodeNo {
	for n := nodeNo(s.line[named.Seq] - 1); ; n++ {
		if m.names[n][named.Seq].Name == named.Name {
			return n
		}
	}
}

// after returns which nodes exist after the transaction t, if the given nodes exist before it.
func (m *model) after(t txn, nodes nodeSet) nodeSet {
	arg := int(t & 31)
	who, round := arg>>1, arg&1
	switch change(t &^ 31) {
	case txCreates:
		return nodes | m.first[who][round]
	case txDeletes, txMarks:
		return nodes.without(m.first[who][round] | m.lower[who][round])
	case txCloses:
		return nodes.without(m.every[who])
	case txLowers:
		return nodes.without(m.first[who][round]) | m.lower[who][round]
	case txResizes:
		return nodes
	default:
		return nodes.without(1 << arg)
	}
}

// happen appends a transaction of member i (for steals: about a node) to the log.
func (m *model) happen(s *modelState, c change, arg int) {
	if c != txSteals && c != txResizes {
		arg = arg<<1 | int(s.member[arg].round)
	}
	if int(s.logged) == maxLog {
		panic("the model's log is too short")
	}
	t := txn(c) | txn(arg)
	before := s.live
	s.live = m.after(t, s.live)
	s.log[s.logged] = t
	s.logged++
	m.checkHerd(s, before)
	switch c {
	case txCreates:
		m.enqueue(s, m.first[arg>>1][arg&1])
	case txCloses:
		s.member[arg>>1].is |= isOver
	}
}

// enqueue gives nodes the next numbers.
func (m *model) enqueue(s *modelState, nodes nodeSet) {
	for seq := range s.line {
		if s.line[seq] == 0 {
			for n := range nodes.nodes {
				s.line[seq] = uint8(n) + 1
				seq++
			}
			return
		}
	}
	panic("the model's line is too short")
}

// hear has member i's client receive the next transaction.
func (m *model) hear(s *modelState, i int) {
	me := &s.member[i]
	t := s.log[me.heard]
	after := m.after(t, me.seen)
	if change(t&^31) == txLowers {
		me.changed |= me.watched & me.seen.without(after)
	}
	if change(t&^31) == txMarks && me.is.has(isMarking) {
		me.marked |= me.watched & me.seen.without(after)
	}
	me.seen = after
	me.heard++
	if change(t&^31) == txResizes {
		me.is |= isToldResized
	}
	if change(t&^31) == txCloses && int(t&31)>>1 == i {
		me.is |= isCut
	}
}

// reads reports whether it matters how much a member has received.
func (p phase) reads() bool { return p == inSurveys || p == inDecides || p == inWatches }

// waiting reports whether a member has set all its watches and sleeps until one fires.
func (m *model) waiting(s *modelState, i int) bool {
	me := &s.member[i]
	return me.phase == inWatches && me.pending == 0 && me.missing == 0 && me.is&(isNext|isGuarded) != isNext
}

// tidy brings a state into a normal form. States between which no member can notice a difference
// have the same normal form.
func (m *model) tidy(s *modelState) {
	oldest := s.logged
	known := s.live
	for i := range m.members {
		me := &s.member[i]
		if !me.phase.reads() {
			me.heard, me.seen = s.logged, 0
			me.is &^= isToldResized
			if me.phase != inOutside && me.phase != inFinished && me.phase != inCrashed {
				known |= m.own(s, i)
			}
			continue
		}
		if m.waiting(s, i) {
			// The member sleeps, and does not notice transactions that do not wake it.
			for me.heard < s.logged && !me.is.has(isCut) {
				next := m.after(s.log[me.heard], me.seen)
				if me.seen.without(next).any(me.watched|m.own(s, i)) || s.log[me.heard] == txn(txResizes) || s.log[me.heard] == txn(txCloses)|txn(i<<1)|txn(me.round) {
					break
				}
				me.seen = next
				me.heard++
			}
		}
		known |= me.seen | me.listed | me.pending | me.watched | me.missing | m.own(s, i)
		if !me.is.has(isCut) {
			oldest = min(oldest, me.heard)
		}
	}
	if oldest > 0 {
		n := copy(s.log[:], s.log[oldest:s.logged])
		clear(s.log[n:])
		s.logged -= oldest
		for i := range m.members {
			// A client that was cut off receives nothing.
			s.member[i].heard -= min(oldest, s.member[i].heard)
		}
	}
	for i := range m.members {
		if me := &s.member[i]; me.is.has(isCut) {
			me.heard = 0
		}
		known |= s.member[i].deaf
	}
	for _, t := range s.log[:s.logged] {
		known |= m.after(t, 0) // what is created later than a member has received
	}
	var places nodeSet
	for n := range known.nodes {
		places.add(m.place[n])
	}
	kept := 0
	for _, p := range s.line {
		if p != 0 && places.has(nodeNo(p-1)) {
			s.line[kept] = p
			kept++
		}
	}
	clear(s.line[kept:])
}
