package queue

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

// The model of several requests that are granted together searches every order in which a few
// clients may act in two or three directories. The model in model_test.go has the wait in one
// directory; here a wait is only what a client finds in a directory, as of what its server has
// received. The subject is what the directories have to do with each other: that there is no circle
// of waiters, that a turn that has come in one directory still counts when the last one comes, and
// that the nodes are deleted together.

const (
	togetherDirs    = 3
	togetherClients = 3
	togetherLog     = 14
)

// A want is what a client asks for in each directory.
type want [togetherDirs]struct {
	mode  Mode
	nodes uint8 // 0: nothing
}

func (w want) dirs() (mask uint8) {
	for d, one := range w {
		if one.nodes > 0 {
			mask |= 1 << d
		}
	}
	return mask
}

type togetherConfig struct {
	wants     []want
	permits   [togetherDirs]uint8 // at first, for Permit
	rounds    uint8               // how often a client asks; 0 is 1
	thefts    uint8               // nodes that another program deletes
	crashes   uint8
	cancels   uint8
	lost      uint8 // replies to a create that are lost
	downgrade bool  // holders for writing become readers
	resizes   uint8 // to one permit less
}

// togetherBug is what a wrong implementation would do.
type togetherBug struct {
	oneByOne       bool // creates the nodes in one directory after the other
	unconfirmed    bool // holds when the last turn has come
	confirmsLast   bool // checks the node in the last directory only
	limitForgotten bool // does not check the number of permits again
	leavesOne      bool // leaves one of the nodes behind when it is canceled
	searchesFirst  bool // after a lost reply searches the first directory only
	keepsOthers    bool // a hold that has lost one node does not delete the others
}

// An entry is one transaction, in the order of the zxids.
type entry struct {
	what   entryKind
	client uint8
	round  uint8
	dirs   uint8 // a mask
}

type entryKind uint8

const (
	noEntry entryKind = iota
	created
	deleted
	downgraded // in one directory
	resized    // the number of permits in a directory is one less
)

// togetherState is small and without pointers, so that it is its own key.
type togetherState struct {
	log     [togetherLog]entry
	logged  uint8
	clients [togetherClients]togetherClient
	left    struct{ thefts, crashes, cancels, lost, resizes uint8 }
}

type togetherClient struct {
	phase togetherPhase
	round uint8
	heard uint8 // how much of the log it has received
	turn  uint8 // directories in which its turn has come
	made  uint8 // directories in which it has created its nodes, see oneByOne
	final bool  // it does not come again
}

type togetherPhase uint8

const (
	togetherOutside togetherPhase = iota
	togetherUnknown               // its create has no answer
	togetherWaits
	togetherHolds
	togetherLeaves // its nodes are about to be deleted
)

type togetherModel struct {
	togetherConfig
	bug togetherBug
}

var (
	errTogetherEvidence = errors.New("a client holds although it has heard that a node of its own is gone")
	errTogetherTurn     = errors.New("a client holds although it is not its turn")
	errTogetherBoth     = errors.New("two hold that exclude each other")
	errTogetherCircle   = errors.New("a client waits, and none does anything")
	errTogetherOrphan   = errors.New("a node has no owner")
)

// exists returns whether the nodes of a client's round exist in a directory as of a prefix of the
// log, in which mode, and where they were created.
func (s *togetherState) exists(prefix uint8, client, round uint8, d int, mode Mode) (live bool, now Mode, at int) {
	for i, e := range s.log[:prefix] {
		if e.client != client || e.round != round || e.dirs>>d&1 == 0 {
			continue
		}
		switch e.what {
		case created:
			live, now, at = true, mode, i
		case deleted:
			live = false
		case downgraded:
			now = Read
		}
	}
	return live, now, at
}

func (m *togetherModel) permitsAt(s *togetherState, prefix uint8, d int) uint8 {
	n := m.permits[d]
	for _, e := range s.log[:prefix] {
		if e.what == resized && e.dirs>>d&1 != 0 {
			n--
		}
	}
	return n
}

// myTurn reports whether, as of a prefix of the log, it is a client's turn in a directory.
func (m *togetherModel) myTurn(s *togetherState, prefix uint8, c uint8, d int) bool {
	mine := m.wants[c][d]
	_, mode, at := s.exists(prefix, c, s.clients[c].round, d, mine.mode)
	ahead := uint8(0)
	for o := range uint8(len(m.wants)) {
		for round := range s.clients[o].round + 1 {
			live, theirs, before := s.exists(prefix, o, round, d, m.wants[o][d].mode)
			if live && before < at && slices.Contains(modes[mode].waitsFor, theirs) {
				ahead += m.wants[o][d].nodes
			}
		}
	}
	if mine.mode == Permit {
		return ahead+mine.nodes <= m.permitsAt(s, prefix, d)
	}
	return ahead == 0
}

// ownNodes are the directories in which the nodes of a client's round exist as of a prefix.
func (m *togetherModel) ownNodes(s *togetherState, prefix uint8, c uint8) (mask uint8) {
	for d := range togetherDirs {
		if live, _, _ := s.exists(prefix, c, s.clients[c].round, d, 0); live {
			mask |= 1 << d
		}
	}
	return mask
}

// A togetherStep leads to another state.
type togetherStep struct {
	name string
	next togetherState
	idle bool // no client may rely on this step
}

// write appends a transaction.
func (s *togetherState) write(e entry) bool {
	if s.logged == togetherLog || e.dirs == 0 && e.what != resized {
		return false
	}
	s.log[s.logged] = e
	s.logged++
	return true
}

// next are all that may happen in a state.
func (m *togetherModel) next(s *togetherState) (steps []togetherStep) {
	add := func(name string, idle bool, change func(n *togetherState) bool) {
		n := *s
		if change(&n) {
			steps = append(steps, togetherStep{name, n, idle})
		}
	}
	for i := range m.wants {
		c := uint8(i)
		me := s.clients[c]
		all := m.wants[c].dirs()
		name := func(what string) string { return fmt.Sprintf("client %d %s", c, what) }
		own := func(n *togetherState) *togetherClient { return &n.clients[c] }
		if me.heard < s.logged && me.phase != togetherOutside {
			add(name("hears"), false, func(n *togetherState) bool { own(n).heard++; return true })
		}
		switch me.phase {
		case togetherOutside:
			if me.final {
				continue
			}
			create := func(n *togetherState, dirs uint8) bool {
				own(n).heard = n.logged + 1
				return n.write(entry{created, c, me.round, dirs})
			}
			dirs := all
			if m.bug.oneByOne {
				rest := all &^ me.made
				dirs = rest & -rest
			}
			add(name("creates"), me.made == 0, func(n *togetherState) bool {
				own(n).made |= dirs
				if own(n).made == all {
					own(n).phase, own(n).turn = togetherWaits, 0
				}
				return create(n, dirs)
			})
			if s.left.lost > 0 && !m.bug.oneByOne {
				add(name("creates, and the reply is lost"), true, func(n *togetherState) bool {
					n.left.lost--
					own(n).phase, own(n).turn, own(n).made = togetherUnknown, 0, all
					return create(n, dirs)
				})
				add(name("sends a create, which is lost"), true, func(n *togetherState) bool {
					n.left.lost--
					own(n).phase, own(n).turn = togetherUnknown, 0
					return true
				})
			}
		case togetherUnknown:
			add(name("searches"), false, func(n *togetherState) bool {
				own(n).heard = n.logged // behind a barrier
				found := m.ownNodes(n, n.logged, c)
				first := all & -all
				switch {
				case found == all, m.bug.searchesFirst && found&first != 0:
					own(n).phase = togetherWaits
				case found == 0:
					own(n).phase, own(n).made = togetherOutside, 0
				case m.bug.searchesFirst:
					own(n).phase, own(n).made = togetherOutside, 0
				default:
					own(n).phase = togetherLeaves
				}
				return true
			})
		case togetherWaits:
			if m.ownNodes(s, me.heard, c) != all && m.lists(s, c) {
				add(name("misses a node of its own"), false, func(n *togetherState) bool { own(n).phase = togetherLeaves; return true })
			}
			for d := range togetherDirs {
				if bit := uint8(1) << d; all&^me.turn&bit != 0 && m.ownNodes(s, me.heard, c)&bit != 0 && m.myTurn(s, me.heard, c, d) {
					add(name(fmt.Sprintf("finds that it is its turn in %d", d)), false, func(n *togetherState) bool { own(n).turn |= bit; return true })
				}
			}
			if me.turn == all {
				add(name("confirms"), false, func(n *togetherState) bool { m.confirm(n, c); return true })
			}
			if s.left.cancels > 0 {
				add(name("gives up"), true, func(n *togetherState) bool {
					n.left.cancels--
					own(n).phase, own(n).final = togetherLeaves, true
					return true
				})
			}
		case togetherHolds:
			add(name("releases"), false, func(n *togetherState) bool {
				m.leave(n, c, m.ownNodes(n, n.logged, c))
				return true
			})
			if m.ownNodes(s, me.heard, c) != all {
				add(name("hears that it has lost"), false, func(n *togetherState) bool {
					if m.bug.keepsOthers {
						m.leave(n, c, 0)
					} else {
						own(n).phase = togetherLeaves
					}
					return true
				})
			}
			for d := range togetherDirs {
				if live, now, _ := s.exists(s.logged, c, me.round, d, m.wants[c][d].mode); m.downgrade && live && now == Write {
					add(name(fmt.Sprintf("downgrades %d", d)), true, func(n *togetherState) bool {
						return n.write(entry{downgraded, c, me.round, 1 << d})
					})
				}
			}
		case togetherLeaves:
			add(name("deletes its nodes"), false, func(n *togetherState) bool {
				left := m.ownNodes(n, n.logged, c)
				if m.bug.leavesOne {
					left &= left - 1
				}
				m.leave(n, c, left)
				return true
			})
		}
		if live := m.ownNodes(s, s.logged, c); live != 0 {
			if s.left.crashes > 0 {
				add(name("crashes, and its session ends"), true, func(n *togetherState) bool {
					n.left.crashes--
					own(n).final = true
					m.leave(n, c, live)
					return true
				})
			}
			for d := range togetherDirs {
				if s.left.thefts > 0 && live>>d&1 != 0 {
					add(fmt.Sprintf("another program deletes the node of client %d in %d", c, d), true, func(n *togetherState) bool {
						n.left.thefts--
						return n.write(entry{deleted, c, me.round, 1 << d})
					})
				}
			}
		}
	}
	if s.left.resizes > 0 {
		for d, n := range m.permits {
			if n > 1 && m.permitsAt(s, s.logged, d) > 1 {
				add(fmt.Sprintf("a permit less in %d", d), true, func(n *togetherState) bool {
					n.left.resizes--
					return n.write(entry{resized, noClient, 0, 1 << d})
				})
			}
		}
	}
	return steps
}

// noClient is the client of a transaction that no client makes.
const noClient = 255

// lists reports whether a waiter lists, and so checks its own nodes. A waiter whose turn has come
// in all directories only confirms.
func (m *togetherModel) lists(s *togetherState, c uint8) bool {
	return s.clients[c].turn != m.wants[c].dirs()
}

// confirm is step 5 for all.
func (m *togetherModel) confirm(n *togetherState, c uint8) {
	me := &n.clients[c]
	all := m.wants[c].dirs()
	own := m.ownNodes(n, me.heard, c)
	must := all
	switch {
	case m.bug.unconfirmed:
		must = 0
	case m.bug.confirmsLast:
		last := all
		for last&(last-1) != 0 {
			last &= last - 1
		}
		must = last
	}
	if own&must != must {
		me.phase = togetherLeaves
		return
	}
	for d := range togetherDirs {
		if all>>d&1 != 0 && m.wants[c][d].mode == Permit && !m.bug.limitForgotten && !m.bug.unconfirmed && !m.myTurn(n, me.heard, c, d) {
			me.turn &^= 1 << d // the number of permits has changed: it lists again
		}
	}
	if me.turn == all {
		me.phase = togetherHolds
	}
}

// leave deletes nodes of a client. If the client has rounds left, it comes again.
func (m *togetherModel) leave(n *togetherState, c uint8, dirs uint8) {
	n.write(entry{deleted, c, n.clients[c].round, dirs})
	me := &n.clients[c]
	rounds := max(1, m.rounds)
	*me = togetherClient{phase: togetherOutside, round: me.round, final: me.final || me.round+1 >= rounds}
	if !me.final {
		me.round++
	}
}

// wrong returns an error if the state s breaks an invariant. One step leads from the state "before"
// to s.
func (m *togetherModel) wrong(before, s *togetherState, steps []togetherStep) error {
	for c := range uint8(len(m.wants)) {
		me := s.clients[c]
		if me.phase == togetherOutside && me.made == 0 {
			for round := range me.round + 1 {
				for d := range togetherDirs {
					if live, _, _ := s.exists(s.logged, c, round, d, 0); live {
						return errTogetherOrphan
					}
				}
			}
		}
		if me.phase != togetherHolds || before.clients[c].phase == togetherHolds {
			continue
		}
		all := m.wants[c].dirs()
		if m.ownNodes(s, me.heard, c) != all {
			return errTogetherEvidence
		}
		for d := range togetherDirs {
			if all>>d&1 != 0 && !m.myTurn(s, me.heard, c, d) {
				return errTogetherTurn
			}
		}
	}
	for d := range togetherDirs {
		for a := range uint8(len(m.wants)) {
			for b := range a {
				if m.holdsIn(s, a, d) && m.holdsIn(s, b, d) && m.excludeEachOther(s, a, b, d) {
					return errTogetherBoth
				}
			}
		}
	}
	waits := slices.ContainsFunc(s.clients[:len(m.wants)], func(c togetherClient) bool { return c.phase == togetherWaits })
	if waits && !slices.ContainsFunc(steps, func(t togetherStep) bool { return !t.idle }) && s.logged < togetherLog-2 {
		return errTogetherCircle
	}
	return nil
}

// holdsIn reports whether a client holds, and its node in a directory exists.
func (m *togetherModel) holdsIn(s *togetherState, c uint8, d int) bool {
	live, _, _ := s.exists(s.logged, c, s.clients[c].round, d, 0)
	return live && s.clients[c].phase == togetherHolds
}

func (m *togetherModel) excludeEachOther(s *togetherState, a, b uint8, d int) bool {
	_, one, _ := s.exists(s.logged, a, s.clients[a].round, d, m.wants[a][d].mode)
	_, other, _ := s.exists(s.logged, b, s.clients[b].round, d, m.wants[b][d].mode)
	return one != Permit && (slices.Contains(modes[one].waitsFor, other) || slices.Contains(modes[other].waitsFor, one))
}

// explore searches all states. The trace leads to the first wrong one.
func (m *togetherModel) explore() (states, held int, trace []string, wrong error) {
	var first togetherState
	first.left.thefts, first.left.crashes, first.left.cancels = m.thefts, m.crashes, m.cancels
	first.left.lost, first.left.resizes = m.lost, m.resizes
	type came struct {
		from togetherState
		by   string
	}
	seen := map[togetherState]came{first: {}}
	back := func(s togetherState) (togetherState, string) { c := seen[s]; return c.from, c.by }
	for line := []togetherState{first}; len(line) > 0; {
		s := line[0]
		line = line[1:]
		steps := m.next(&s)
		if err := m.wrong(&s, &s, steps); err != nil {
			return len(seen), held, m.tell(first, s, back), err
		}
		for _, step := range steps {
			if _, ok := seen[step.next]; ok {
				continue
			}
			seen[step.next] = came{s, step.name}
			line = append(line, step.next)
			for c := range m.wants {
				if step.next.clients[c].phase == togetherHolds && s.clients[c].phase != togetherHolds {
					held++
				}
			}
			if err := m.wrong(&s, &step.next, m.next(&step.next)); err != nil {
				return len(seen), held, m.tell(first, step.next, back), err
			}
		}
	}
	return len(seen), held, nil, nil
}

func (m *togetherModel) tell(first, last togetherState, back func(togetherState) (togetherState, string)) (trace []string) {
	for s := last; s != first; {
		from, by := back(s)
		trace = append(trace, by)
		s = from
	}
	slices.Reverse(trace)
	return trace
}

// wanting is a want: a letter for each directory, w, r, m, p or P (two permits), or - for none.
func wanting(modesOf string) (w want) {
	for d, letter := range modesOf {
		switch letter {
		case 'w':
			w[d].mode, w[d].nodes = Write, 1
		case 'r':
			w[d].mode, w[d].nodes = Read, 1
		case 'm':
			w[d].mode, w[d].nodes = Mutex, 1
		case 'p':
			w[d].mode, w[d].nodes = Permit, 1
		case 'P':
			w[d].mode, w[d].nodes = Permit, 2
		}
	}
	return w
}

func wanted(all ...string) (wants []want) {
	for _, one := range all {
		wants = append(wants, wanting(one))
	}
	return wants
}

var togetherSituations = map[string]togetherConfig{
	"two of two writers, a theft, a crash and a cancel": {wants: wanted("ww", "ww"), thefts: 1, crashes: 1, cancels: 1},
	"two of two writers, who come twice":                {wants: wanted("ww", "ww"), rounds: 2, lost: 1, cancels: 1},
	"a circle of three, if there could be one":          {wants: wanted("mm-", "-mm", "m-m"), cancels: 1},
	"a circle of three, and a theft":                    {wants: wanted("mm-", "-mm", "m-m"), thefts: 1},
	"a circle of three, and a crash":                    {wants: wanted("mm-", "-mm", "m-m"), crashes: 1},
	"three directories, a lost reply and a theft":       {wants: wanted("mmm", "mmm"), lost: 1, thefts: 1},
	"beside plain locks":                                {wants: wanted("ww", "w-", "-r"), thefts: 1},
	"readers and writers":                               {wants: wanted("rw", "wr", "rr"), cancels: 1},
	"downgrades":                                        {wants: wanted("ww", "rw", "wr"), downgrade: true},
	"permits that shrink":                               {wants: wanted("pm", "pm", "p-"), permits: [togetherDirs]uint8{2}, resizes: 1},
	"two permits at once, and a theft":                  {wants: wanted("Pm", "pm", "p-"), permits: [togetherDirs]uint8{2}, thefts: 1},
}

// MODEL=full searches these, too.
var togetherLarger = map[string]togetherConfig{
	"two of two writers, who come twice, all goes wrong once": {wants: wanted("ww", "ww"), rounds: 2, thefts: 1, crashes: 1, cancels: 1, lost: 1},
	"a circle of three, all goes wrong once":                  {wants: wanted("mm-", "-mm", "m-m"), cancels: 1, thefts: 1, crashes: 1},
	"three directories, who come twice":                       {wants: wanted("mmm", "mmm"), rounds: 2, lost: 2, thefts: 1},
	"beside plain locks, with a cancel":                       {wants: wanted("ww", "w-", "-r"), thefts: 1, cancels: 1},
	"downgrades, a cancel and a crash":                        {wants: wanted("ww", "rw", "wr"), downgrade: true, cancels: 1, crashes: 1},
	"permits that shrink, a cancel and a theft":               {wants: wanted("pm", "pm", "p-"), permits: [togetherDirs]uint8{2}, resizes: 1, cancels: 1, thefts: 1},
}

func TestModelOfSeveralTogether(t *testing.T) {
	all := maps.Clone(togetherSituations)
	if os.Getenv("MODEL") == "full" {
		maps.Copy(all, togetherLarger)
	}
	for name, c := range all {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := &togetherModel{togetherConfig: c}
			states, held, trace, wrong := m.explore()
			if wrong != nil {
				t.Fatalf("%v\n%s", wrong, strings.Join(trace, "\n"))
			}
			if states < 1000 || held < 100 {
				t.Errorf("%d states, %d ways to a grant: too few to mean anything", states, held)
			}
			t.Logf("%d states, %d ways to a grant", states, held)
		})
	}
}

// The model must find these deliberate bugs: otherwise it would not find a real one.
func TestModelOfSeveralTogetherFindsWhatIsBroken(t *testing.T) {
	two := wanted("mm", "mm")
	for _, c := range []struct {
		name string
		bug  togetherBug
		togetherConfig
		want error
	}{
		{"one lock after the other", togetherBug{oneByOne: true}, togetherConfig{wants: two}, errTogetherCircle},
		{"the last turn grants", togetherBug{unconfirmed: true}, togetherConfig{wants: wanted("mm", "-m"), thefts: 1}, errTogetherEvidence},
		{"only the last node is looked at", togetherBug{confirmsLast: true}, togetherConfig{wants: wanted("mm", "-m"), thefts: 1}, errTogetherEvidence},
		{"the number of permits is not looked at again", togetherBug{limitForgotten: true},
			togetherConfig{wants: wanted("pm", "-m", "p-"), permits: [togetherDirs]uint8{2}, resizes: 1}, errTogetherTurn},
		{"a waiter leaves one of its nodes", togetherBug{leavesOne: true}, togetherConfig{wants: two, cancels: 1}, errTogetherOrphan},
		{"the search looks in one directory", togetherBug{searchesFirst: true}, togetherConfig{wants: two, lost: 1, thefts: 1}, errTogetherOrphan},
		{"a lost hold keeps its other nodes", togetherBug{keepsOthers: true}, togetherConfig{wants: two, thefts: 1}, errTogetherOrphan},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			m := &togetherModel{togetherConfig: c.togetherConfig, bug: c.bug}
			states, _, trace, wrong := m.explore()
			if !errors.Is(wrong, c.want) {
				t.Fatalf("found %v in %d states, want %v", wrong, states, c.want)
			}
			t.Logf("%v, after %d steps (%d states):\n%s", wrong, len(trace), states, strings.Join(trace, "\n"))
		})
	}
}
