package queue

import (
	"errors"
	"os"
	"testing"
)

// The model searches every order of the steps of a few members, their servers and faults. It uses
// the real rule and blockers; acquire.go and watch.go are modeled step by step. model_state_test.go
// has the states, model_steps_test.go the steps, and model_check_test.go the properties. The model
// has no reconnect within a session and no lost reply: those are tested against real servers.
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
	{"two exclusive, everything goes wrong once", modelConfig{
		members: []memberSpec{aLocker, aLocker}, rounds: 2, expiries: 1, cancels: 1, losses: 1, thefts: 1, crashes: 1}},
	{"three exclusive, an expiry and a cancel", modelConfig{
		members: []memberSpec{aLocker, aLocker, aLocker}, rounds: 2, expiries: 1, cancels: 1}},
	{"three exclusive beside a foreign child, a theft and a loss", modelConfig{
		members: []memberSpec{aLocker, aLocker, aLocker}, rounds: 2, others: 1, losses: 1, thefts: 1}},
	{"four exclusive, a cancel", modelConfig{
		members: []memberSpec{aLocker, aLocker, aLocker, aLocker}, cancels: 1}},
	{"writer that downgrades, writer, reader, a cancel", modelConfig{
		members: []memberSpec{aDowngrader, aWriter, aReader}, cancels: 1}},
	{"writer that downgrades, writer, reader, an expiry", modelConfig{
		members: []memberSpec{aDowngrader, aWriter, aReader}, rounds: 2, expiries: 1}},
	{"a writer, a reader, a writer, a cancel, a crash and an expiry", modelConfig{
		members: []memberSpec{aWriter, aReader, aWriter}, cancels: 1, crashes: 1, expiries: 1}},
	{"two readers, a writer, an expiry and a theft", modelConfig{
		members: []memberSpec{aReader, aReader, aWriter}, expiries: 1, thefts: 1}},
	{"two writers, a reader, a crash and a theft", modelConfig{
		members: []memberSpec{aWriter, aWriter, aReader}, crashes: 1, thefts: 1}},
	{"2 permits: 1, 1 and 2, an expiry", modelConfig{
		members: []memberSpec{permit(1), permit(1), permit(2)}, permits: 2, rounds: 2, expiries: 1}},
	{"2 permits: 1, 1 and 2, a cancel and a theft", modelConfig{
		members: []memberSpec{permit(1), permit(1), permit(2)}, permits: 2, rounds: 2, cancels: 1, thefts: 1}},
	{"3 permits: 1, 1, 1 and 2", modelConfig{
		members: []memberSpec{permit(1), permit(1), permit(1), permit(2)}, permits: 3}},
	{"2 permits, one far from its turn: 2, 2, 1 and 1", modelConfig{
		members: []memberSpec{permit(2), permit(2), permit(1), permit(1)}, permits: 2}},
	{"2 permits, then 1: 1, 1, 1 and 1", modelConfig{
		members: []memberSpec{permit(1), permit(1), permit(1), permit(1)}, permits: 2, resized: 1}},
	{"1 permit, then 3: 1, 1, 1 and 1", modelConfig{
		members: []memberSpec{permit(1), permit(1), permit(1), permit(1)}, permits: 1, resized: 3}},
	{"3 permits, then 2: 3, 1 and 1, a crash", modelConfig{
		members: []memberSpec{permit(3), permit(1), permit(1)}, permits: 3, resized: 2, crashes: 1}},
}

var larger = []situation{
	{"four exclusive, an expiry", modelConfig{
		members: []memberSpec{aLocker, aLocker, aLocker, aLocker}, expiries: 1}},
	{"two writers, two readers, a cancel", modelConfig{
		members: []memberSpec{aWriter, aWriter, aReader, aReader}, cancels: 1}},
	{"two readers, a writer, everything goes wrong once", modelConfig{
		members: []memberSpec{aReader, aReader, aWriter}, cancels: 1, crashes: 1, expiries: 1, losses: 1, thefts: 1}},
	{"three readers, a writer, an expiry and a cancel", modelConfig{
		members: []memberSpec{aReader, aReader, aReader, aWriter}, expiries: 1, cancels: 1}},
	{"three exclusive, everything goes wrong once", modelConfig{
		members: []memberSpec{aLocker, aLocker, aLocker}, rounds: 2, expiries: 1, cancels: 1, losses: 1, thefts: 1, crashes: 1}},
	{"four exclusive, an expiry and a cancel", modelConfig{
		members: []memberSpec{aLocker, aLocker, aLocker, aLocker}, rounds: 2, expiries: 1, cancels: 1}},
	{"writer that downgrades, writer, reader, an expiry, a cancel and a loss", modelConfig{
		members: []memberSpec{aDowngrader, aWriter, aReader}, rounds: 2, expiries: 1, cancels: 1, losses: 1}},
	{"writer that downgrades, writer, two readers, an expiry", modelConfig{
		members: []memberSpec{aDowngrader, aWriter, aReader, aReader}, rounds: 2, expiries: 1}},
	{"two writers that downgrade, two readers, a cancel", modelConfig{
		members: []memberSpec{aDowngrader, aDowngrader, aReader, aReader}, cancels: 1}},
	{"2 permits: 1, 1 and 2, an expiry, a cancel and a theft", modelConfig{
		members: []memberSpec{permit(1), permit(1), permit(2)}, permits: 2, rounds: 2, expiries: 1, cancels: 1, thefts: 1}},
	{"2 permits: 1, 1, 1 and 1, an expiry", modelConfig{
		members: []memberSpec{permit(1), permit(1), permit(1), permit(1)}, permits: 2, rounds: 2, expiries: 1}},
	{"3 permits: 1, 1, 1 and 2, an expiry", modelConfig{
		members: []memberSpec{permit(1), permit(1), permit(1), permit(2)}, permits: 3, expiries: 1}},
	{"3 permits: 1, 1, 1 and 2, a cancel", modelConfig{
		members: []memberSpec{permit(1), permit(1), permit(1), permit(2)}, permits: 3, cancels: 1}},
	{"2 permits, one far from its turn: 2, 2, 1 and 1, a cancel", modelConfig{
		members: []memberSpec{permit(2), permit(2), permit(1), permit(1)}, permits: 2, cancels: 1}},
	{"2 permits, one far from its turn: 2, 2, 1 and 1, a crash", modelConfig{
		members: []memberSpec{permit(2), permit(2), permit(1), permit(1)}, permits: 2, crashes: 1}},
	{"3 permits, then 2: 3, 1 and 1, a crash and a cancel", modelConfig{
		members: []memberSpec{permit(3), permit(1), permit(1)}, permits: 3, resized: 2, crashes: 1, cancels: 1}},
	{"1 permit, then 3: 1, 1, 1 and 1, a cancel", modelConfig{
		members: []memberSpec{permit(1), permit(1), permit(1), permit(1)}, permits: 1, resized: 3, cancels: 1}},
}

func TestModel(t *testing.T) {
	all := situations
	if os.Getenv("MODEL") == "full" {
		all = append(all[:len(all):len(all)], larger...)
	}
	for _, s := range all {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			m := newModel(s.modelConfig, bug{})
			o := m.explore()
			if o.wrong != nil {
				t.Fatalf("%v\n%s", o.wrong, m.tell(o.trace))
			}
			t.Logf("%d states in %.1f s; %v", o.states, o.took.Seconds(), o.seen)
		})
	}
}

// A model that finds nothing because nothing happens in it would be worthless.
func TestModelVisitsWhatItIsAbout(t *testing.T) {
	for _, c := range []struct {
		modelConfig
		states int
		seen   map[string]func(tally) int
	}{
		{modelConfig{members: []memberSpec{aLocker, aLocker, aLocker}, rounds: 2, expiries: 1, cancels: 1}, 30_000, map[string]func(tally) int{
			"grant by shortcut":              func(s tally) int { return s.granted[opShortcut] },
			"grant by listing":               func(s tally) int { return s.granted[opTake] },
			"grant by striking out":          func(s tally) int { return s.granted[opEvent] },
			"grant by a mark":                func(s tally) int { return s.granted[opMarked] },
			"grant by a missing node":        func(s tally) int { return s.granted[opSettle] },
			"grant to one who is gone":       func(s tally) int { return s.late },
			"relist":                         func(s tally) int { return s.relists },
			"look that keeps from taking it": func(s tally) int { return s.looks },
			"second try":                     func(s tally) int { return s.requeues },
			"expiry of one who waits":        func(s tally) int { return s.expiriesWaiting },
			"cancellation of one who waits":  func(s tally) int { return s.cancelsWaiting },
		}},
		{modelConfig{members: []memberSpec{aDowngrader, aWriter, aReader}, rounds: 1}, 500, map[string]func(tally) int{
			"downgrade with a waiting reader": func(s tally) int { return s.lowersBeforeReader },
			"downgrade with a waiting writer": func(s tally) int { return s.lowersBeforeWriter },
			"relist":                          func(s tally) int { return s.relists },
		}},
		{modelConfig{members: []memberSpec{permit(2), permit(2)}, permits: 2}, 20, map[string]func(tally) int{
			// NumChildren counts the own nodes: they must be subtracted.
			"grant of two permits by shortcut": func(s tally) int { return s.granted[opShortcut] },
		}},
		{modelConfig{members: []memberSpec{permit(1), permit(1), permit(1), permit(1)}, permits: 2}, 500, map[string]func(tally) int{
			"counting down": func(s tally) int { return s.counts },
			"grant by it":   func(s tally) int { return s.granted[opEvent] },
		}},
	} {
		m := newModel(c.modelConfig, bug{})
		o := m.explore()
		if o.wrong != nil || o.states < c.states {
			t.Errorf("%d states, want %d at least; %v", o.states, c.states, o.wrong)
		}
		for what, count := range c.seen {
			if count(o.seen) == 0 {
				t.Errorf("no %s", what)
			}
		}
	}
}

// Every one of these must be found, or the model would not find a real mistake
// either. Run with -v to read how each goes wrong.
func TestModelFindsWhatIsBroken(t *testing.T) {
	exclusive := modelConfig{members: []memberSpec{aLocker, aLocker, aLocker}, rounds: 2, expiries: 1, cancels: 1}
	lowering := modelConfig{members: []memberSpec{aDowngrader, aWriter, aReader}, cancels: 1}
	permits := modelConfig{members: []memberSpec{permit(1), permit(1), permit(1)}, permits: 2, rounds: 1}
	far := modelConfig{members: []memberSpec{permit(2), permit(2), permit(1), permit(1)}, permits: 2}
	shrunk := modelConfig{members: []memberSpec{permit(1), permit(1), permit(1)}, permits: 2, resized: 1}
	grown := modelConfig{members: []memberSpec{permit(1), permit(1)}, permits: 1, resized: 2}
	thefts := modelConfig{members: []memberSpec{permit(2), permit(2)}, permits: 3, rounds: 2, thefts: 1}
	losses := modelConfig{members: []memberSpec{aLocker, aLocker}, losses: 1}

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
		{"those that are watched are taken for all", bug{countsWatched: true}, modelConfig{members: []memberSpec{aWriter, aReader, aWriter}, cancels: 1}, errFIFO},
		{"a writer takes the downgrade of the node that it watches for its deletion", bug{strikesChanged: true}, lowering, errSafe},
		{"a writer strikes out a write node that it found gone", bug{strikesMissing: true}, lowering, errSafe},
		{"no new listing after a strike-out", bug{neverListsAgain: true}, lowering, errWake},
		{"a strike-out without a watch on the own node", bug{strikesUnguarded: true}, modelConfig{members: []memberSpec{aLocker, aLocker}, thefts: 1}, errSafe},
		{"a mark without a watch on the own node", bug{marksUnguarded: true}, modelConfig{members: []memberSpec{aLocker, aLocker, aLocker}, thefts: 1}, errSafe},
		{"one who has only waited leaves with a mark", bug{marksWaiters: true}, exclusive, errFIFO},
		{"a reader leaves with a mark", bug{marksReaders: true}, modelConfig{members: []memberSpec{aWriter, aReader, aReader, aWriter}}, errFIFO},
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

// Two checks before the grant protect against the same fault. To take EventNotWatching for a
// deletion does no harm as long as one of the two is left.
func TestModelHoldsWithOneOfTwoGuards(t *testing.T) {
	c := modelConfig{members: []memberSpec{aLocker, aLocker}, rounds: 2, expiries: 1, cancels: 1}
	for _, b := range []bug{{notWatchingIsGone: true}, {notWatchingIsGone: true, noSessionLook: true}} {
		m := newModel(c, b)
		if o := m.explore(); o.wrong != nil {
			t.Errorf("%+v: %v\n%s", b, o.wrong, m.tell(o.trace))
		}
	}
}
