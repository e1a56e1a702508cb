package queue

import (
	"errors"
	"fmt"
	"hash/maphash"
	"strings"

	"github.com/zklocks/zklocks/internal/znode"
)

// The properties.
var (
	// errSafe: of the members that believe that they hold and whose nodes exist, no two conflict. A
	// member whose nodes were deleted may be granted, or believe that it holds, until it receives
	// the event; a member that has received the end of its nodes or its session is granted nothing.
	errSafe = errors.New("P-safe")
	// errFIFO: no member is granted while a conflicting member exists that came before; and what
	// the granted member has received shows that it is its turn.
	errFIFO = errors.New("P-fifo")
	// errWake: no member sleeps whose turn it is.
	errWake = errors.New("P-wake")
	// errHerd: a deletion wakes a member only if the node was among the nearest allowed+1 nodes
	// that block the member, or if the member waits for at most as many deletions as there are
	// permits. So a deletion wakes at most one member that wants the lock exclusively.
	errHerd = errors.New("P-herd")
	// errOrphan: when nothing is left to happen, the queue is empty.
	errOrphan = errors.New("P-orphan")
	// errToken: a granted member has a greater czxid than each conflicting member that was granted
	// before and still believes that it holds. For other members this follows from errFIFO: the
	// nodes of the members that came before were deleted by then. If such a member is granted late,
	// the tokens protect against it.
	errToken = errors.New("P-token")
)

// opCounts counts the steps of a search, by their kind.
type opCounts [opResize + 1]int

// blocks is the naive definition, written independently of the rules.
func (m *model) blocks(ahead, mine znode.Kind) bool {
	return mine != znode.Read || ahead == znode.Write
}

// nearer counts the nodes in exist that stand behind a place and block member i.
func (m *model) nearer(s *modelState, i int, exist nodeSet, place int) int {
	own := m.own(s, i)
	count := 0
	for seq, p := range s.line {
		if p == 0 {
			panic("own node not in line")
		}
		if own.any(m.at(nodeNo(p - 1))) {
			return count
		}
		if seq <= place {
			continue
		}
		for x := range (exist & m.at(nodeNo(p-1))).nodes {
			if m.blocks(m.kind[x], m.members[i].kind) {
				count++
			}
		}
	}
	panic("own node not in line")
}

// at returns the nodes that can stand at a place.
func (m *model) at(place nodeNo) nodeSet {
	at := nodeSet(1) << place
	if place+1 < maxNodes && m.place[place+1] == place {
		at.add(place + 1)
	}
	return at
}

// mayGo recomputes from scratch whether it is member i's turn if only the nodes in exist exist.
func (m *model) mayGo(s *modelState, i int, exist nodeSet) bool {
	return m.nearer(s, i, exist, -1) <= m.room(i, s.member[i].is.has(isToldResized|isResized))
}

// room is how many nodes may be ahead of member i.
func (m *model) room(i int, resized bool) int {
	switch {
	case m.members[i].kind != znode.Permit:
		return 0
	case resized:
		return m.resized - m.members[i].nodes
	}
	return m.permits - m.members[i].nodes
}

// grant makes member i a holder, and checks that it may be one.
func (m *model) grant(s *modelState, i int, how op) {
	me := &s.member[i]
	m.granted[how]++
	own := m.own(s, i)
	alive := s.live.all(own)
	switch {
	case how == opMistake:
		m.wrong = fmt.Errorf("%w: %s takes the lock although it was told that its session is over", errSafe, m.name(i))
	case (me.is.has(isGuarded) || how == opEvent || how == opMarked || how == opSettle) && !me.seen.all(own):
		m.wrong = fmt.Errorf("%w: %s takes the lock although it was told that its own node is gone", errSafe, m.name(i))
	case how != opShortcut && !m.mayGo(s, i, me.seen):
		m.wrong = fmt.Errorf("%w: %s takes the lock, but has been told of nothing that makes it its turn", errFIFO, m.name(i))
	case alive && !m.mayGo(s, i, s.live):
		m.wrong = fmt.Errorf("%w: %s takes the lock while a node exists that came before", errFIFO, m.name(i))
	}
	token := m.token(s, i)
	for j := range m.members {
		if j != i && s.member[j].phase == inHolds && m.conflict(s, i, j) && alive && m.token(s, j) > token && m.wrong == nil {
			m.wrong = fmt.Errorf("%w: %s takes the lock after %s, with a smaller token", errToken, m.name(i), m.name(j))
		}
	}
	*me = modelClient{phase: inHolds, round: me.round, is: me.is & isOver}
	m.checkHolders(s)
}

// token returns the number of the granted node, in place of its czxid: both grow with each create.
func (m *model) token(s *modelState, i int) int {
	for n := range m.first[i][s.member[i].round].nodes {
		return m.number(s, n)
	}
	panic("a member without nodes")
}

// conflict reports whether two members can not hold at the same time. Any number of members can
// hold permits at the same time; checkHolders counts the permits.
func (m *model) conflict(s *modelState, i, j int) bool {
	shares := func(i int) bool {
		return m.members[i].kind == znode.Read || m.members[i].kind == znode.Permit || s.member[i].is.has(isLowered)
	}
	return !shares(i) || !shares(j)
}

// checkHolders finds holders in conflict.
func (m *model) checkHolders(s *modelState) {
	permits := 0
	for i := range m.members {
		if s.member[i].phase != inHolds || !s.live.all(m.own(s, i)) {
			continue
		}
		permits += m.members[i].nodes
		for j := range i {
			if s.member[j].phase == inHolds && s.live.all(m.own(s, j)) && m.conflict(s, i, j) {
				m.wrong = fmt.Errorf("%w: %s and %s hold at the same time", errSafe, m.name(j), m.name(i))
			}
		}
	}
	most := m.permits
	if s.isResized {
		most = max(most, m.resized)
	}
	if m.permits > 0 && permits > most {
		m.wrong = fmt.Errorf("%w: %d permits of %d are held", errSafe, permits, most)
	}
}

// checkHerd checks which members the last transaction wakes.
func (m *model) checkHerd(s *modelState, before nodeSet) {
	deleted := before.without(s.live)
	if deleted == 0 {
		return
	}
	woken := 0
	for i := range m.members {
		me := &s.member[i]
		hits := me.watched & deleted &^ me.deaf
		if me.phase != inWatches || hits == 0 || !s.live.all(m.own(s, i)) {
			continue
		}
		if m.members[i].kind == znode.Lock || m.members[i].kind == znode.Write {
			woken++
		}
		for n := range hits.nodes {
			room := m.room(i, me.is.has(isResized))
			near := m.nearer(s, i, before, -1)-room <= room+m.members[i].nodes // then the member watches all
			if !near && m.nearer(s, i, before, m.number(s, n)) > room {
				m.wrong = fmt.Errorf("%w: %s is woken by a node that is not among the nearest that block it", errHerd, m.name(i))
			}
		}
	}
	if woken > 1 {
		m.wrong = fmt.Errorf("%w: one deletion wakes %d who want the lock for themselves", errHerd, woken)
	}
}

// checkSleep finds a member that waits although it is its turn.
func (m *model) checkSleep(s *modelState) error {
	for i := range m.members {
		me := &s.member[i]
		if !m.waiting(s, i) || me.heard < s.logged || me.is.has(isOver|isCut) || !s.live.all(m.own(s, i)) ||
			me.watched.without(me.seen|me.deaf) != 0 || m.resizedSince(s, i) && !m.bug.noResizeEvent {
			continue
		}
		if m.mayGo(s, i, s.live) {
			return fmt.Errorf("%w: %s sleeps though it is its turn", errWake, m.name(i))
		}
	}
	return nil
}

// checkEnd is for a state after which nothing has to happen any more.
func (m *model) checkEnd(s *modelState) error {
	for i := range m.members {
		if s.member[i].phase != inFinished && s.live.any(m.own(s, i)) {
			return fmt.Errorf("%w: %s waits forever", errWake, m.name(i))
		}
	}
	for i := range m.members {
		if s.member[i].phase != inFinished {
			return fmt.Errorf("%w: %s never comes to an end", errWake, m.name(i))
		}
	}
	if s.live != 0 {
		return fmt.Errorf("%w: a node is left that no member will delete", errOrphan)
	}
	return nil
}

// outcome is what a search came to.
type outcome struct {
	states         int
	taken, granted opCounts    // steps, and grants by the step that led there
	wrong          error       // the first property found broken
	trace          []modelStep // a shortest way there
}

// explore visits every state that can be reached, those that take the fewest steps first, and stops
// at the first that breaks a property. explore keeps 128 bits of each state. The chance that it
// takes two states for the same state is less than 1 in 2^80.
func (m *model) explore() outcome {
	m.taken, m.granted = opCounts{}, opCounts{}
	seeds := [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}
	type print [2]uint64
	of := func(s *modelState) print {
		return print{maphash.Comparable(seeds[0], *s), maphash.Comparable(seeds[1], *s)}
	}
	type arrival struct {
		from int32
		by   modelStep
	}
	first := m.start()
	visited := map[print]struct{}{of(&first): {}}
	arrivals := []arrival{{}}
	way := func(to int32, last ...modelStep) []modelStep {
		for ; to != 0; to = arrivals[to].from {
			last = append([]modelStep{arrivals[to].by}, last...)
		}
		return last
	}

	front, offset := []modelState{first}, 0
	for len(front) > 0 {
		var behind []modelState
		for k := range front {
			s := &front[k]
			here := int32(offset + k)
			wrong := m.checkSleep(s)
			var last []modelStep
			moves := false
			m.next(s, func(by modelStep, after *modelState) {
				m.taken[by.op]++
				moves = moves || !by.op.mayNeverHappen()
				if wrong != nil {
					return
				}
				if m.wrong != nil {
					wrong, last = m.wrong, []modelStep{by}
					return
				}
				p := of(after)
				if _, ok := visited[p]; ok {
					return
				}
				visited[p] = struct{}{}
				arrivals = append(arrivals, arrival{here, by})
				behind = append(behind, *after)
			})
			if wrong == nil && !moves {
				wrong = m.checkEnd(s)
			}
			if wrong != nil {
				return outcome{len(visited), m.taken, m.granted, wrong, way(here, last...)}
			}
		}
		offset += len(front)
		front = behind
	}
	return outcome{len(visited), m.taken, m.granted, nil, nil}
}

// name is what a member is called in a trace.
func (m *model) name(i int) string { return string(rune('A' + i)) }

// label is what a node is called in a trace. The numbers go up with the rounds of its member.
func (m *model) label(n nodeNo) string {
	return fmt.Sprintf("%s-%s%d", m.name(int(m.owner[n])), m.kind[n], n)
}

// tell describes a trace: the steps, and which nodes exist after each.
func (m *model) tell(trace []modelStep) string {
	var b strings.Builder
	s := m.start()
	for k, want := range trace {
		before := s
		m.next(&before, func(by modelStep, after *modelState) {
			if by == want {
				s = *after
			}
		})
		fmt.Fprintf(&b, "%2d. %s %s", k+1, m.name(int(want.who)), opWords[want.op])
		if want.op.hasNode() {
			b.WriteString(" " + m.label(want.node))
		}
		if s.member[want.who].phase == inHolds && before.member[want.who].phase != inHolds {
			b.WriteString(", and HOLDS")
		}
		b.WriteString("; nodes:")
		for n := range s.live.nodes {
			b.WriteString(" " + m.label(n))
		}
		b.WriteString("\n")
	}
	return b.String()
}
