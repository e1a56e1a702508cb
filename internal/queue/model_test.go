package queue

import (
	"errors"
	"os"
	"sync"
	"testing"
)

// The model searches every order of the steps of a few members, their servers and faults.
// model_state_test.go has the states, model_steps_test.go the steps, and model_check_test.go the
// properties.
//
// What it shows: with the real rule, blockers and order of nodes (conflict.go, internal/znode), no
// order of creates, deletions, late events, cancellations, crashes, expiries, losses, downgrades
// and a Resize breaks a property. TestModelFindsWhatIsBroken shows that each property can fail.
//
// What it cannot show: that acquire.go, watch.go and shortcut.go do the steps in this order,
// because the model has its own copy of the steps. The contract (internal/test/contract) shows that
// step by step, and the explorer (internal/test/explore) at random. The model has one directory, no
// reconnect within a session, no lost reply, no request to release, and readers that share no node.
//
// With MODEL=full TestModel searches larger situations, too, 61 million states in all. That takes
// about six minutes and several GB of memory; do not use -race:
//
//	MODEL=full go test -run TestModel -v -timeout 60m ./internal/queue

type situation struct {
	name string
	modelConfig
}

var situations = []situation{
	{"two exclusive, everything goes wrong once", modelConfig{members: members("l l"), rounds: 2, expiries: 1, cancels: 1, losses: 1, thefts: 1, crashes: 1}},
	{"three exclusive, an expiry and a cancel", modelConfig{members: members("l l l"), rounds: 2, expiries: 1, cancels: 1}},
	{"three exclusive beside a foreign child, a theft and a loss", modelConfig{members: members("l l l"), rounds: 2, others: 1, losses: 1, thefts: 1}},
	{"four exclusive, a cancel", modelConfig{members: members("l l l l"), cancels: 1}},
	{"writer that downgrades, writer, reader, a cancel", modelConfig{members: members("d w r"), cancels: 1}},
	{"writer that downgrades, writer, reader, an expiry", modelConfig{members: members("d w r"), rounds: 2, expiries: 1}},
	{"a writer, a reader, a writer, a cancel, a crash and an expiry", modelConfig{members: members("w r w"), cancels: 1, crashes: 1, expiries: 1}},
	{"two readers, a writer, an expiry and a theft", modelConfig{members: members("r r w"), expiries: 1, thefts: 1}},
	{"two writers, a reader, a crash and a theft", modelConfig{members: members("w w r"), crashes: 1, thefts: 1}},
	{"2 permits: 1, 1 and 2, an expiry", modelConfig{members: members("p1 p1 p2"), permits: 2, rounds: 2, expiries: 1}},
	{"2 permits: 1, 1 and 2, a cancel and a theft", modelConfig{members: members("p1 p1 p2"), permits: 2, rounds: 2, cancels: 1, thefts: 1}},
	{"3 permits: 1, 1, 1 and 2", modelConfig{members: members("p1 p1 p1 p2"), permits: 3}},
	{"2 permits, one far from its turn: 2, 2, 1 and 1", modelConfig{members: members("p2 p2 p1 p1"), permits: 2}},
	{"2 permits, then 1: 1, 1, 1 and 1", modelConfig{members: members("p1 p1 p1 p1"), permits: 2, resized: 1}},
	{"1 permit, then 3: 1, 1, 1 and 1", modelConfig{members: members("p1 p1 p1 p1"), permits: 1, resized: 3}},
	{"3 permits, then 2: 3, 1 and 1, a crash", modelConfig{members: members("p3 p1 p1"), permits: 3, resized: 2, crashes: 1}},
}

var larger = []situation{
	{"four exclusive, an expiry", modelConfig{members: members("l l l l"), expiries: 1}},
	{"two writers, two readers, a cancel", modelConfig{members: members("w w r r"), cancels: 1}},
	{"two readers, a writer, everything goes wrong once", modelConfig{members: members("r r w"), cancels: 1, crashes: 1, expiries: 1, losses: 1, thefts: 1}},
	{"three readers, a writer, an expiry and a cancel", modelConfig{members: members("r r r w"), expiries: 1, cancels: 1}},
	{"three exclusive, everything goes wrong once", modelConfig{members: members("l l l"), rounds: 2, expiries: 1, cancels: 1, losses: 1, thefts: 1, crashes: 1}},
	{"four exclusive, an expiry and a cancel", modelConfig{members: members("l l l l"), rounds: 2, expiries: 1, cancels: 1}},
	{"writer that downgrades, writer, reader, an expiry, a cancel and a loss", modelConfig{members: members("d w r"), rounds: 2, expiries: 1, cancels: 1, losses: 1}},
	{"writer that downgrades, writer, two readers, an expiry", modelConfig{members: members("d w r r"), rounds: 2, expiries: 1}},
	{"two writers that downgrade, two readers, a cancel", modelConfig{members: members("d d r r"), cancels: 1}},
	{"2 permits: 1, 1 and 2, an expiry, a cancel and a theft", modelConfig{members: members("p1 p1 p2"), permits: 2, rounds: 2, expiries: 1, cancels: 1, thefts: 1}},
	{"2 permits: 1, 1, 1 and 1, an expiry", modelConfig{members: members("p1 p1 p1 p1"), permits: 2, rounds: 2, expiries: 1}},
	{"3 permits: 1, 1, 1 and 2, an expiry", modelConfig{members: members("p1 p1 p1 p2"), permits: 3, expiries: 1}},
	{"3 permits: 1, 1, 1 and 2, a cancel", modelConfig{members: members("p1 p1 p1 p2"), permits: 3, cancels: 1}},
	{"2 permits, one far from its turn: 2, 2, 1 and 1, a cancel", modelConfig{members: members("p2 p2 p1 p1"), permits: 2, cancels: 1}},
	{"2 permits, one far from its turn: 2, 2, 1 and 1, a crash", modelConfig{members: members("p2 p2 p1 p1"), permits: 2, crashes: 1}},
	{"3 permits, then 2: 3, 1 and 1, a crash and a cancel", modelConfig{members: members("p3 p1 p1"), permits: 3, resized: 2, crashes: 1, cancels: 1}},
	{"1 permit, then 3: 1, 1, 1 and 1, a cancel", modelConfig{members: members("p1 p1 p1 p1"), permits: 1, resized: 3, cancels: 1}},
}

func TestModel(t *testing.T) {
	all := situations
	if os.Getenv("MODEL") == "full" {
		all = append(all[:len(all):len(all)], larger...)
	}
	var mu sync.Mutex
	var ran int
	var taken, granted opCounts
	t.Cleanup(func() { // a model in which nothing happens would find nothing
		if ran < len(all) {
			return
		}
		for op, n := range taken {
			if n == 0 && op != int(opMistake) {
				t.Errorf("in no situation a member %s", opWords[op])
			}
		}
		for _, how := range []op{opShortcut, opTake, opEvent, opMarked, opSettle} {
			if granted[how] == 0 {
				t.Errorf("no grant when a member %s", opWords[how])
			}
		}
	})
	for _, s := range all {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			m := newModel(s.modelConfig, bug{})
			o := m.explore()
			if o.wrong != nil {
				t.Fatalf("%v\n%s", o.wrong, m.tell(o.trace))
			}
			t.Logf("%d states", o.states)
			mu.Lock()
			defer mu.Unlock()
			ran++
			for op := range taken {
				taken[op] += o.taken[op]
				granted[op] += o.granted[op]
			}
		})
	}
}

// Every one of these must be found, or the model would not find a real mistake
// either. Run with -v to read how each goes wrong.
func TestModelFindsWhatIsBroken(t *testing.T) {
	exclusive := modelConfig{members: members("l l l"), rounds: 2, expiries: 1, cancels: 1}
	lowering := modelConfig{members: members("d w r"), cancels: 1}
	permits := modelConfig{members: members("p1 p1 p1"), permits: 2, rounds: 1}
	far := modelConfig{members: members("p2 p2 p1 p1"), permits: 2}
	shrunk := modelConfig{members: members("p1 p1 p1"), permits: 2, resized: 1}
	grown := modelConfig{members: members("p1 p1"), permits: 1, resized: 2}
	thefts := modelConfig{members: members("p2 p2"), permits: 3, rounds: 2, thefts: 1}
	losses := modelConfig{members: members("l l"), losses: 1}

	for _, c := range []struct {
		name string
		bug  bug
		modelConfig
		want error
	}{
		{"one watch too few for permits", bug{oneWatchTooFew: true}, permits, errWake},
		{"one watch too few, far from its turn", bug{oneWatchTooFew: true}, far, errWake},
		{"far from its turn, no new listing after a strike-out", bug{neverListsAgain: true}, far, errWake},
		{"no look at the number of permits before a grant", bug{noResizeLook: true}, shrunk, errFIFO},
		{"more permits are not waited for", bug{noResizeEvent: true}, grown, errWake},
		{"the first are watched, not the nearest", bug{watchesFirst: true}, exclusive, errHerd},
		{"one more is tolerated", bug{toleratesOneMore: true}, permits, errFIFO},
		{"those that are watched are taken for all", bug{countsWatched: true}, modelConfig{members: members("w r w"), cancels: 1}, errFIFO},
		{"a writer takes the downgrade of the node that it watches for its deletion", bug{strikesChanged: true}, lowering, errSafe},
		{"a writer strikes out a write node that it found gone", bug{strikesMissing: true}, lowering, errSafe},
		{"no new listing after a strike-out", bug{neverListsAgain: true}, lowering, errWake},
		{"a strike-out without a watch on the own node", bug{strikesUnguarded: true}, modelConfig{members: members("l l"), thefts: 1}, errSafe},
		{"a mark without a watch on the own node", bug{marksUnguarded: true}, modelConfig{members: members("l l l"), thefts: 1}, errSafe},
		{"one who has only waited leaves with a mark", bug{marksWaiters: true}, exclusive, errFIFO},
		{"a reader leaves with a mark", bug{marksReaders: true}, modelConfig{members: members("w r r w")}, errFIFO},
		{"no look at the own watch before a grant", bug{noLook: true}, exclusive, errSafe},
		{"EventNotWatching is taken for a deletion", bug{notWatchingIsGone: true, noLook: true, noSessionLook: true}, exclusive, errSafe},
		{"a watch of the last session is used in the next", bug{oldWatches: true}, exclusive, errWake},
		{"a shortcut although there is no room", bug{room: 1}, exclusive, errFIFO},
		{"a shortcut for permits although there is no room", bug{room: 1}, permits, errFIFO},
		{"the node of a lost hold is left", bug{keepsLost: true}, losses, errOrphan},
		{"the node of a canceled waiter is left", bug{keepsCanceled: true}, exclusive, errOrphan},
		{"what is left of the nodes is not deleted before queuing again", bug{requeuesWithout: true}, thefts, errOrphan},
		{"a reader waits for later writers", bug{laterWritersBlock: true}, lowering, errWake},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			m := newModel(c.modelConfig, c.bug)
			o := m.explore()
			if o.wrong == nil {
				t.Fatalf("nothing found in %d states", o.states)
			}
			if !errors.Is(o.wrong, c.want) {
				t.Errorf("found %v, want %v", o.wrong, c.want)
			}
			t.Logf("%v, after %d steps (%d states):\n%s", o.wrong, len(o.trace), o.states, m.tell(o.trace))
		})
	}
}
