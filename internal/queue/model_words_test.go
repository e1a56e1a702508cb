package queue

import (
	"fmt"
	"strings"

	"github.com/zklocks/zklocks/internal/znode"
)

// name is what a member is called in a trace.
func (m *model) name(i int) string {
	letter := string(rune('A' + i))
	switch s := m.members[i]; s.kind {
	case znode.Write:
		return "writer " + letter
	case znode.Read:
		return "reader " + letter
	case znode.Permit:
		return fmt.Sprintf("%s (%d of %d permits)", letter, s.nodes, m.permits)
	default:
		return letter
	}
}

// label is what a node is called in a trace.
func (m *model) label(n nodeNo) string {
	i := int(m.owner[n])
	label := string(rune('A'+i)) + "'s"
	if m.first[i][1].has(n) || m.lower[i][1].has(n) {
		label += " second"
	}
	if m.place[n] != n {
		label += " read"
	}
	label += " node"
	if s := m.members[i]; s.nodes > 1 {
		label += fmt.Sprintf(" %d", int(n)%s.nodes)
	}
	return label
}

func (m *model) labels(s *modelState, nodes nodeSet) string {
	var all []string
	for _, n := range m.named(s, nodes) {
		all = append(all, m.label(m.find(s, n)))
	}
	if all == nil {
		return "nothing"
	}
	return strings.Join(all, ", ")
}

// tell describes a trace in sentences.
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
		fmt.Fprintf(&b, "%2d. %s\n", k+1, m.sentence(want, &before, &s))
	}
	return b.String()
}

func (m *model) sentence(by modelStep, before, after *modelState) string {
	i := int(by.who)
	who := m.name(i)
	then := "and looks again"
	switch after.member[i].phase {
	case inHolds:
		then = "and HOLDS"
	case inOutside:
		then = "and starts over"
	case inFinished:
		then = "and gives up"
	}
	switch by.op {
	case opCreate:
		room := ""
		if after.member[i].phase == inMade {
			room = ", and the reply says that there is room"
		}
		return fmt.Sprintf("%s queues; the line is now %s%s", who, m.labels(after, after.live), room)
	case opShortcut:
		return who + " HOLDS without a listing"
	case opList:
		return fmt.Sprintf("%s lists the line: %s", who, m.labels(before, before.member[i].seen))
	case opGuard:
		if after.member[i].phase == inOutside || after.member[i].phase == inFinished {
			return who + " wants to watch its own node, which is gone, " + then
		}
		return who + " watches its own node"
	case opTake:
		return who + " sees that it is its turn, " + then
	case opWatch:
		if after.member[i].missing.has(by.node) {
			return fmt.Sprintf("%s wants to watch %s, which is gone", who, m.label(by.node))
		}
		if after.member[i].deaf.has(by.node) {
			return fmt.Sprintf("%s has a watch on %s, of its last session", who, m.label(by.node))
		}
		return fmt.Sprintf("%s watches %s", who, m.label(by.node))
	case opSettle:
		return fmt.Sprintf("%s strikes out %s, %s", who, m.labels(before, before.member[i].missing), then)
	case opEvent:
		return fmt.Sprintf("%s hears that %s is deleted, strikes it out, %s", who, m.label(by.node), then)
	case opMarked:
		return fmt.Sprintf("%s hears that %s is released, %s", who, m.label(by.node), then)
	case opOwnEvent:
		return who + " hears that its own node is deleted, " + then
	case opNotice:
		return fmt.Sprintf("%s learns that its session is over", who)
	case opMistake:
		return fmt.Sprintf("%s learns that its session is over, and takes that for the deletion of %s, %s", who, m.label(by.node), then)
	case opHear:
		t := before.log[before.member[i].heard]
		return fmt.Sprintf("%s's server hears: %s", who, m.happened(before, t, before.member[i].seen))
	case opRemove:
		return fmt.Sprintf("%s's nodes are deleted", who)
	case opRelease:
		return who + " gives the lock back"
	case opReap:
		return fmt.Sprintf("the servers end the session of %s", who)
	case opDowngrade:
		return who + " becomes a reader"
	case opExpire:
		return fmt.Sprintf("%s's session expires; it does not know yet", who)
	case opCancel:
		return who + " is canceled; its delete is still to come"
	case opCrash:
		return who + "'s process dies; its session lives on for a while"
	case opLose:
		return who + " declares its hold lost, but its node lives"
	case opResize:
		return fmt.Sprintf("the number of permits is now %d", m.resized)
	case opResized:
		return who + " hears that the number of permits is another, " + then
	case opSteal:
		return "a stranger deletes " + m.label(by.node)
	}
	return fmt.Sprint(by)
}

func (m *model) happened(s *modelState, t txn, seen nodeSet) string {
	next := m.after(t, seen)
	var what []string
	if t == txn(txResizes) {
		what = append(what, "there is another number of permits")
	}
	if made := next.without(seen); made != 0 {
		what = append(what, m.labels(s, made)+" was made")
	}
	if gone := seen.without(next); gone != 0 {
		what = append(what, m.labels(s, gone)+" was deleted")
	}
	return strings.Join(what, "; ")
}
