package queue

import (
	"math"
	"slices"

	"github.com/zklocks/zklocks/internal/znode"
)

// modelStep is one thing that happens: to a member, and maybe about a node.
type modelStep struct {
	op   op
	who  uint8
	node nodeNo
}

type op uint8

const (
	opCreate   op = iota // the transaction that makes the nodes, and its reply
	opShortcut           // the reply says that there is room
	opList
	opGuard
	opTake // after the listing: recheck, then hold
	opWatch
	opSettle
	opEvent
	opMarked
	opOwnEvent
	opResized
	opNotice
	opMistake // only with a bug
	opHear
	opRemove
	opRelease
	opReap

	// The following steps may happen, but no member can rely on them.
	opDowngrade
	opExpire
	opCancel
	opCrash
	opLose
	opSteal
	opResize
)

func (o op) hasNode() bool {
	return o == opWatch || o == opEvent || o == opMarked || o == opMistake || o == opSteal
}

// opWords say what a member does, or what happens to it; the node follows if the step has one.
var opWords = [...]string{
	opCreate:    "queues",
	opShortcut:  "learns from the reply that there is room",
	opList:      "lists",
	opGuard:     "wants to watch its own nodes",
	opTake:      "finds in its listing that it is its turn",
	opWatch:     "wants to watch",
	opSettle:    "strikes out the nodes that it could not watch",
	opEvent:     "receives the deletion of",
	opMarked:    "receives the release, by its holder, of",
	opOwnEvent:  "receives the deletion of its own nodes",
	opResized:   "receives the Resize",
	opNotice:    "learns that its session is over",
	opMistake:   "takes the end of its session for the deletion of",
	opHear:      "is connected to a server that applies the next transaction",
	opRemove:    "has its nodes deleted",
	opRelease:   "releases",
	opReap:      "has its session ended by the servers",
	opDowngrade: "becomes a reader",
	opExpire:    "has its session expire without notice",
	opCancel:    "is canceled",
	opCrash:     "crashes",
	opLose:      "declares its hold lost, although its nodes exist",
	opSteal:     "suffers the deletion, by another program, of",
	opResize:    "is to get another number of permits",
}

func (o op) mayNeverHappen() bool { return o >= opDowngrade }

// A bug says how the core is broken on purpose. The zero value is the core without a bug.
type bug struct {
	oneWatchTooFew    bool // watches as many blockers as are allowed, not one more
	strikesChanged    bool // treats the change of a downgraded node as a deletion
	strikesMissing    bool // the same for a write node that was gone before it could be watched
	strikesUnguarded  bool // does not watch its own nodes, and takes the lock when a blocker is deleted
	noLook            bool // does not check its own watch before it takes the lock
	noSessionLook     bool // does not check the session
	notWatchingIsGone bool // treats EventNotWatching as a deletion
	countsWatched     bool // takes the lock when all that it watches are gone
	watchesFirst      bool // watches the first blockers, not the nearest
	room              int  // how many children more than the rule allows still count as room
	oldWatches        bool // uses the watches of the last session
	keepsLost         bool // leaves the nodes of a lost hold where they are
	keepsCanceled     bool // leaves the nodes of a canceled waiter where they are
	laterWritersBlock bool // a reader waits for writers behind it
	toleratesOneMore  bool // lets one more in than there is room for
	neverListsAgain   bool // does not list again, although blockers that it does not watch may be gone
	requeuesWithout   bool // queues again, and does not delete what is left of its nodes
	marksUnguarded    bool // does not watch its own nodes, and takes the lock by a mark
	marksWaiters      bool // marks the deletion of a waiter's node
	marksReaders      bool // marks the release of a reader, and its waiters wait for the mark
	noResizeLook      bool // does not check the number of permits before it takes them
	noResizeEvent     bool // does not wait for another number of permits
}

// rule returns the rule of a member, or what the bug makes of it.
func (b bug) rule(r rule) rule {
	if b.toleratesOneMore {
		r.allowed++
	}
	return r
}

// next visits every state that may follow s.
func (m *model) next(s *modelState, visit func(modelStep, *modelState)) {
	for i := range m.members {
		me := &s.member[i]
		do := func(o op, n nodeNo, change func(s *modelState, me *modelClient)) {
			after := *s
			m.wrong = nil
			change(&after, &after.member[i])
			m.tidy(&after)
			visit(modelStep{o, uint8(i), n}, &after)
		}
		switch me.phase {
		case inOutside:
			if !me.is.has(isOver) && m.isNext(s, i) {
				do(opCreate, 0, func(s *modelState, me *modelClient) { m.create(s, me, i) })
			}
		case inMade:
			do(opShortcut, 0, func(s *modelState, me *modelClient) { m.grant(s, i, opShortcut) }) // the client may as well receive later transactions after this step
		case inSurveys:
			m.survey(s, i, do)
		case inDecides:
			do(opTake, 0, func(s *modelState, me *modelClient) {
				t := m.turn(s, i)
				m.decide(s, i, &t, opTake)
			})
		case inWatches:
			m.await(s, i, do)
		case inHolds:
			do(opRelease, 0, func(s *modelState, me *modelClient) { m.removeOwn(s, i, m.marks(s, i)) })
			if m.members[i].downgrade && !me.is.has(isLowered|isOver) && s.live.any(m.own(s, i)) {
				do(opDowngrade, 0, func(s *modelState, me *modelClient) { m.downgrade(s, i) })
			}
		case inLeaves:
			do(opRemove, 0, func(s *modelState, me *modelClient) { m.removeOwn(s, i, m.bug.marksWaiters) })
		case inCrashed:
			do(opReap, 0, func(s *modelState, me *modelClient) {
				m.happen(s, txCloses, i)
				*me = modelClient{phase: inFinished}
			})
		}
		if me.phase.reads() && !me.is.has(isCut) && me.heard < s.logged {
			do(opHear, 0, func(s *modelState, me *modelClient) { m.hear(s, i) })
		}
		if me.is.has(isOver) {
			m.learn(s, i, do)
		}
		m.fail(s, i, do)
	}
	if m.resized > 0 && !s.isResized {
		after := *s
		m.wrong = nil
		after.isResized = true
		m.happen(&after, txResizes, 0)
		m.tidy(&after)
		visit(modelStep{op: opResize}, &after)
	}
}

// isNext breaks the symmetry between members that want the same: they come in
// the order in which they are listed.
func (m *model) isNext(s *modelState, i int) bool {
	if s.member[i].round > 0 {
		return true
	}
	for j := range i {
		if m.members[j] == m.members[i] && s.member[j].phase == inOutside && s.member[j].round == 0 {
			return false
		}
	}
	return true
}

// create makes the transaction and its reply one step. The member can do nothing
// between the two, so no member can tell the difference.
func (m *model) create(s *modelState, me *modelClient, i int) {
	if s.isResized { // the transaction checks the number
		if m.members[i].nodes > m.resized {
			*me = modelClient{phase: inFinished}
			return
		}
		me.is |= isResized | isToldResized
	}
	m.happen(s, txCreates, i)
	me.seen, me.heard = s.live, s.logged
	nodes := m.members[i].nodes
	children := m.others
	for range s.live.nodes {
		children++
	}
	// As waiter.roomInReply does; readers do not touch the directory, so their reply does not show
	// it.
	if m.members[i].kind != znode.Read && children-nodes <= m.rule(s, i).allowed+m.bug.room {
		me.phase = inMade
		return
	}
	me.phase = inSurveys
}

type doer func(op, nodeNo, func(*modelState, *modelClient))

// survey lists the line, in the state that the member's server has at that moment.
func (m *model) survey(s *modelState, i int, do doer) {
	me := &s.member[i]
	if me.is.has(isCut) {
		return // no server answers
	}
	do(opList, 0, func(s *modelState, me *modelClient) {
		if me.is.has(isToldResized) {
			me.is |= isResized
			if m.members[i].nodes > m.resized { // it fails with an error
				*me = modelClient{phase: inLeaves, round: me.round, is: me.is & isOver}
				return
			}
		}
		me.listed = m.list(s, me.seen)
		if !me.listed.all(m.own(s, i)) {
			m.requeue(s, i)
			return
		}
		t := m.turn(s, i)
		if t.clear() {
			me.phase = inDecides // a step of its own, because more may be received before the recheck
			return
		}
		m.decide(s, i, &t, opTake)
	})
}

// list has znode read the names, which a server lists in no order.
func (m *model) list(s *modelState, nodes nodeSet) nodeSet {
	var names []string
	for n := range nodes.nodes {
		names = append(names, m.names[n][m.number(s, n)].Name)
	}
	line, err := znode.Sort(names, znode.Read, znode.Write, znode.Lock, znode.Permit)
	if err != nil {
		panic(err)
	}
	var listed nodeSet
	for k, n := range line {
		if k > 0 && line[k-1].Seq >= n.Seq {
			panic("the line is out of order")
		}
		listed.add(m.find(s, n))
	}
	return listed
}

// turn returns the result of the rule for the last listing.
func (m *model) turn(s *modelState, i int) blockers {
	first := m.named(s, m.own(s, i))[0]
	if m.bug.laterWritersBlock && first.Kind == znode.Read {
		first.Seq = math.MaxInt64
	}
	t := m.rule(s, i).blockers(m.named(s, s.member[i].listed), first)
	if m.bug.countsWatched {
		t.left = len(t.watched)
	}
	return t
}

// decide is step 3, after a listing and after an event.
func (m *model) decide(s *modelState, i int, t *blockers, how op) {
	me := &s.member[i]
	switch {
	case t.clear() && how != opTake && !me.is.has(isGuarded) && !m.bug.strikesUnguarded && !m.bug.marksUnguarded:
		m.again(s, i)
	case t.clear() && m.resizedSince(s, i) && !m.bug.noResizeLook:
		m.again(s, i)
	case t.clear():
		if !m.look(s, i) {
			m.requeue(s, i)
			return
		}
		m.grant(s, i, how)
	case how != opTake:
		m.again(s, i)
	default:
		me.phase = inWatches
		me.watched, me.changed, me.marked, me.missing = 0, 0, 0, 0
		me.pending = m.toWatch(s, i, t)
		me.is &^= isNext | isMarking
		switch {
		case t.allWatched():
			if !m.bug.strikesUnguarded {
				me.is |= isNext
			}
		case t.mayBeMarked(), m.bug.marksReaders && len(t.watched) > 0:
			me.is |= isMarking
			if !m.bug.marksUnguarded {
				me.is |= isNext
			}
		}
	}
}

// resizedSince reports whether member i has received another number of permits since it last
// listed.
func (m *model) resizedSince(s *modelState, i int) bool {
	return s.member[i].is&(isToldResized|isResized) == isToldResized
}

// again makes the member list the line once more.
func (m *model) again(s *modelState, i int) {
	me := &s.member[i]
	*me = modelClient{phase: inSurveys, seen: me.seen, heard: me.heard, round: me.round, deaf: me.deaf, is: me.is &^ (isNext | isGuarded | isMarking)}
}

// toWatch returns the nodes that a member must watch according to the rule.
func (m *model) toWatch(s *modelState, i int, t *blockers) nodeSet {
	nearest := slices.Clone(t.watched)
	if m.bug.watchesFirst {
		nearest = nil
		for _, n := range m.named(s, s.member[i].listed) {
			if len(nearest) < len(t.watched) && t.rule.waitsFor(n) {
				nearest = append(nearest, n)
			}
		}
	}
	if m.bug.oneWatchTooFew {
		nearest = nearest[:len(nearest)-1]
	}
	var nodes nodeSet
	for _, n := range nearest {
		nodes.add(m.find(s, n))
	}
	return nodes
}

// look is waiter.recheck: the watch on the own node has fired if the client has received the
// deletion.
func (m *model) look(s *modelState, i int) bool {
	me := &s.member[i]
	return m.bug.noLook || !me.is.has(isGuarded) || me.seen.all(m.own(s, i))
}

// await sets watches on the nearest blockers, in any order and each answered by
// itself, and then takes any event that is there.
func (m *model) await(s *modelState, i int, do doer) {
	me := &s.member[i]
	if me.pending != 0 || me.is.has(isNext) && !me.is.has(isGuarded) {
		if me.is.has(isCut) {
			return
		}
		if me.is.has(isNext) && !me.is.has(isGuarded) {
			do(opGuard, 0, func(s *modelState, me *modelClient) {
				if !me.seen.all(m.own(s, i)) {
					m.requeue(s, i)
					return
				}
				me.is |= isGuarded
			})
		}
		for n := range me.pending.nodes {
			do(opWatch, n, func(s *modelState, me *modelClient) {
				me.pending = me.pending.without(1 << n)
				if me.seen.has(n) || me.deaf.has(n) {
					me.watched.add(n)
				} else {
					me.missing.add(n)
				}
			})
		}
		return
	}
	if me.missing != 0 {
		do(opSettle, 0, func(s *modelState, me *modelClient) { m.strike(s, i, me.missing, opSettle) })
		return
	}
	if m.resizedSince(s, i) && !m.bug.noResizeEvent {
		do(opResized, 0, func(s *modelState, me *modelClient) { m.again(s, i) })
	}
	for n := range me.watched.without(me.seen | me.deaf).nodes {
		if me.marked.has(n) {
			do(opMarked, n, func(s *modelState, me *modelClient) {
				t := m.turn(s, i)
				t.releasedByHolder()
				m.decide(s, i, &t, opMarked)
			})
			continue
		}
		do(opEvent, n, func(s *modelState, me *modelClient) {
			if me.changed.has(n) && !m.bug.strikesChanged {
				m.again(s, i)
				return
			}
			m.strike(s, i, 1<<n, opEvent)
		})
	}
	if me.is.has(isGuarded) && !me.seen.all(m.own(s, i)) {
		do(opOwnEvent, 0, func(s *modelState, me *modelClient) { m.requeue(s, i) })
	}
}

// strike strikes nodes out of the listing, and decides.
func (m *model) strike(s *modelState, i int, gone nodeSet, how op) {
	t := m.turn(s, i)
	for n := range gone.nodes {
		m.remove(s, &t, n, how == opEvent || m.bug.strikesMissing)
	}
	if me := &s.member[i]; !t.clear() && (t.wakes() || m.bug.neverListsAgain) {
		me.listed, me.watched, me.missing = me.listed.without(gone), me.watched.without(gone), 0
		return
	}
	m.decide(s, i, &t, how)
}

// remove strikes one node out of the blockers.
func (m *model) remove(s *modelState, t *blockers, n nodeNo, seen bool) {
	name := m.names[n][m.number(s, n)].Name
	t.remove(slices.IndexFunc(t.watched, func(b znode.Node) bool { return b.Name == name }), seen)
}

// requeue deletes what is left of the nodes, and starts over at the tail.
func (m *model) requeue(s *modelState, i int) {
	me := &s.member[i]
	if !me.is.has(isOver) && s.live.any(m.own(s, i)) && !m.bug.requeuesWithout {
		m.happen(s, txDeletes, i)
	}
	if int(me.round)+1 == m.rounds {
		*me = modelClient{phase: inFinished}
		return
	}
	*me = modelClient{round: me.round + 1, is: me.is & isOver, deaf: me.deaf}
}

// learn makes the client detect that its session is over. All its watches yield EventNotWatching,
// and the connection has another session from then on.
func (m *model) learn(s *modelState, i int, do doer) {
	me := &s.member[i]
	switch me.phase {
	case inOutside:
		do(opNotice, 0, func(s *modelState, me *modelClient) { me.is &^= isOver | isCut })
	case inHolds:
		do(opNotice, 0, func(s *modelState, me *modelClient) { *me = modelClient{phase: inFinished} }) // its nodes are gone
	case inMade, inSurveys, inDecides, inWatches:
		do(opNotice, 0, func(s *modelState, me *modelClient) {
			if m.bug.oldWatches {
				me.deaf = me.watched & me.seen
			}
			m.requeue(s, i)
			me.is &^= isOver | isCut
		})
	}
	if me.phase == inWatches && m.bug.notWatchingIsGone {
		for n := range me.watched.nodes {
			do(opMistake, n, func(s *modelState, me *modelClient) {
				me.is &^= isOver | isCut
				t := m.turn(s, i)
				m.remove(s, &t, n, true)
				// Either of two checks would prevent the grant: the watch on the own node has
				// fired, too, and the session is another.
				if t.clear() && m.bug.noSessionLook && m.bug.noLook {
					m.grant(s, i, opMistake)
					return
				}
				m.requeue(s, i)
			})
		}
	}
}

// removeOwn deletes the nodes of a member that leaves. If its session is over, they are gone
// already.
func (m *model) removeOwn(s *modelState, i int, marked bool) {
	switch {
	case !s.live.any(m.own(s, i)):
	case marked:
		m.happen(s, txMarks, i)
	default:
		m.happen(s, txDeletes, i)
	}
	s.member[i] = modelClient{phase: inFinished}
}

// marks reports whether a release leaves a mark, as nodeRef.leavesMarker does.
func (m *model) marks(s *modelState, i int) bool {
	switch m.members[i].kind {
	case znode.Lock, znode.Write:
		return !s.member[i].is.has(isLowered)
	case znode.Read:
		return m.bug.marksReaders
	}
	return false
}

func (m *model) downgrade(s *modelState, i int) {
	m.happen(s, txLowers, i)
	s.member[i].is |= isLowered
}

// fail has the steps that may go wrong with a member.
func (m *model) fail(s *modelState, i int, do doer) {
	me := &s.member[i]
	inLine := me.phase != inOutside && me.phase != inCrashed && me.phase != inFinished
	waiting := inLine && me.phase != inHolds && me.phase != inLeaves
	if s.left.expiries > 0 && inLine && !me.is.has(isOver) {
		do(opExpire, 0, func(s *modelState, me *modelClient) {
			s.left.expiries--
			m.happen(s, txCloses, i)
		})
	}
	if s.left.cancels > 0 && waiting {
		do(opCancel, 0, func(s *modelState, me *modelClient) {
			s.left.cancels--
			*me = modelClient{phase: inLeaves, round: me.round, is: me.is & isOver}
			if m.bug.keepsCanceled {
				*me = modelClient{phase: inFinished}
			}
		})
	}
	if s.left.crashes > 0 && inLine {
		do(opCrash, 0, func(s *modelState, me *modelClient) {
			s.left.crashes--
			if me.is.has(isOver) {
				*me = modelClient{phase: inFinished}
			} else {
				*me = modelClient{phase: inCrashed, round: me.round}
			}
		})
	}
	if s.left.losses > 0 && me.phase == inHolds {
		do(opLose, 0, func(s *modelState, me *modelClient) {
			s.left.losses--
			*me = modelClient{phase: inLeaves, round: me.round, is: me.is & (isOver | isLowered)}
			if m.bug.keepsLost {
				*me = modelClient{phase: inFinished}
			}
		})
	}
	if s.left.thefts > 0 && inLine {
		for n := range (s.live & m.own(s, i)).nodes {
			do(opSteal, n, func(s *modelState, me *modelClient) {
				s.left.thefts--
				m.happen(s, txSteals, int(n))
			})
		}
	}
}
