package queue

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/zklocks/zklocks/internal/znode"
)

// The rules of reentrant, rwlock and semaphore.
var (
	rwNames     = Names{{znode.Read, Read}, {znode.Write, Write}}
	lockNames   = Names{{znode.Lock, Mutex}}
	permitNames = Names{{znode.Permit, Permit}}

	lockRule  = rule{names: lockNames, mode: Mutex, nodes: 1}
	writeRule = rule{names: rwNames, mode: Write, nodes: 1}
	readRule  = rule{names: rwNames, mode: Read, nodes: 1}
)

func permitRule(n, permits int) rule { return rule{permitNames, Permit, permits - n, n} }

var kindOf = map[byte]znode.Kind{'r': znode.Read, 'w': znode.Write, 'l': znode.Lock, 'p': znode.Permit}

// inLine makes a line out of words such as "w3 r5": a kind and a number.
func inLine(t testing.TB, words string) []znode.Node {
	t.Helper()
	var names []string
	for word := range strings.FieldsSeq(words) {
		var seq int
		if _, err := fmt.Sscanf(word[1:], "%d", &seq); err != nil {
			t.Fatal(err)
		}
		names = append(names, fmt.Sprintf("%s%010d", znode.Prefix("0f8fad5b-d9cb-469f-a165-70867728950e", kindOf[word[0]]), seq))
	}
	line, err := znode.Sort(names, znode.Read, znode.Write, znode.Lock, znode.Permit)
	if err != nil {
		t.Fatal(err)
	}
	return line
}

func inWords(line []znode.Node) string {
	var words []string
	for _, n := range line {
		words = append(words, fmt.Sprintf("%c%d", n.Kind[0], n.Seq))
	}
	return strings.Join(words, " ")
}

func TestTurn(t *testing.T) {
	for _, c := range []struct {
		what  string
		rule  rule
		line  string
		first int64
		goes  bool
		watch string
	}{
		{"a mutex that is free", lockRule, "l7", 7, true, ""},
		{"a mutex: the one ahead is watched, not the holder", lockRule, "l3 l5 l7", 7, false, "l5"},
		{"a mutex: those behind do not count", lockRule, "l3 l5 l7", 3, true, ""},
		{"a line in which one does not stand (yet)", lockRule, "l3 l5", math.MaxInt64, false, "l5"},
		{"an empty line", lockRule, "", math.MaxInt64, true, ""},

		{"a writer behind a reader", writeRule, "r1 w2", 2, false, "r1"},
		{"a writer behind readers watches the nearest", writeRule, "r1 r2 r3 w4", 4, false, "r3"},
		{"a writer behind a writer behind readers watches the writer", writeRule, "r1 r2 w3 w4", 4, false, "w3"},
		{"a reader among readers", readRule, "r1 r2 r3", 3, true, ""},
		{"a reader behind a writer", readRule, "w1 r2", 2, false, "w1"},
		{"a reader watches the nearest writer, past readers", readRule, "w1 w2 r3 r4 r5", 5, false, "w2"},
		{"a reader in front of a writer", readRule, "r1 w2 r3", 1, true, ""},
		{"a reader does not overtake a writer that waits", readRule, "r1 w2 r3", 3, false, "w2"},

		{"one of 1 permits is a mutex", permitRule(1, 1), "p1 p2", 2, false, "p1"},
		{"the last of 3 permits", permitRule(1, 3), "p1 p2 p3", 3, true, ""},
		{"one too many for 3 permits watches all that hold", permitRule(1, 3), "p1 p2 p3 p4", 4, false, "p3 p2 p1"},
		{"3 of 3 permits to go: it watches all", permitRule(1, 3), "p1 p2 p3 p4 p5 p6", 6, false, "p5 p4 p3 p2 p1"},
		{"further behind it watches the nearest 3", permitRule(1, 3), "p1 p2 p3 p4 p5 p6 p7", 7, false, "p6 p5 p4"},
		{"2 of 3 permits, 4 to go: it watches the nearest 2", permitRule(2, 3), "p1 p2 p3 p4 p5 p6", 6, false, "p5 p4"},
		{"1 of so many permits that twice as many are no number", permitRule(1, math.MaxInt), "p1 p2", 2, true, ""},
		{"2 of 3 permits beside one", permitRule(2, 3), "p1 p2 p3", 2, true, ""},
		{"2 of 3 permits beside two: only its first node counts", permitRule(2, 3), "p1 p2 p3 p4", 3, false, "p2 p1"},
		{"all of 3 permits wait for all ahead", permitRule(3, 3), "p1 p2 p3 p4", 2, false, "p1"},
		{"more than there are", permitRule(4, 3), "p1", 1, false, ""},
		{"far more than there are, as Queue may list after a Resize", permitRule(4, 1), "p1 p2", 2, false, ""},
		{"two more than there are", permitRule(5, 3), "p1 p2", 2, false, "p1"},
	} {
		line := inLine(t, c.line)
		turn := c.rule.blockers(line, znode.Node{Seq: c.first})
		if turn.clear() != c.goes {
			t.Errorf("%s: may go %v", c.what, turn.clear())
		}
		if !c.goes && inWords(turn.watched) != c.watch {
			t.Errorf("%s: watches %q, want %q", c.what, inWords(turn.watched), c.watch)
		}
		if inWords(line) != c.line {
			t.Errorf("%s: the line was changed to %q", c.what, inWords(line))
		}
	}
}

// recompute is the definition: it counts the blockers ahead.
func recompute(r rule, line []znode.Node, first int64) bool {
	blockers := 0
	for _, n := range line {
		if n.Seq < first && r.waitsFor(n) {
			blockers++
		}
	}
	return blockers <= r.allowed
}

// playRule removes the nodes of a queue in some order, and some writers by a downgrade, while a
// member gets the events of the nodes that it watches. Each byte of kinds is a node; each byte of
// order selects the next node.
func playRule(t *testing.T, recipe, wants uint8, kinds, order []byte) {
	kinds, order = kinds[:min(len(kinds), 40)], order[:min(len(order), 80)]
	rule, ours := lockRule, "l"
	switch recipe % 4 {
	case 1:
		rule, ours = writeRule, "rw"
	case 2:
		rule, ours = readRule, "rw"
	case 3:
		permits := int(wants>>4) + 1
		rule, ours = permitRule(int(wants&15)%permits+1, permits), "p"
	}
	var words []string
	seq := 0
	for _, k := range kinds {
		seq += int(k>>1&3) + 1
		words = append(words, fmt.Sprintf("%c%d", ours[int(k&1)%len(ours)], seq))
	}
	line := inLine(t, strings.Join(words, " "))
	first := int64(seq + 1)
	if len(kinds) > 0 && kinds[0]&8 != 0 {
		first = int64(seq/2 + 1) // some stand behind
		line = slices.DeleteFunc(line, func(n znode.Node) bool { return n.Seq == first })
	}
	me := znode.Node{Seq: first}

	watching := rule.blockers(line, me)
	for k := 0; ; k++ {
		want := recompute(rule, line, first)
		if watching.clear() != want {
			t.Fatalf("line %q, member %d watches %q: may go %v", inWords(line), first, inWords(watching.watched), !want)
		}
		if want {
			return
		}
		watched := watching.watched
		for _, n := range watched {
			if !slices.Contains(line, n) {
				t.Fatalf("line %q: watches %s, which is gone", inWords(line), inWords([]znode.Node{n}))
			}
		}
		most := rule.allowed + 1
		if permits := rule.allowed + rule.nodes; watching.left-rule.allowed <= permits {
			most = watching.left // it is near
		}
		if len(watched) != most {
			t.Fatalf("watches %q, want %d of %d", inWords(watched), most, watching.left)
		}
		if k == len(order) || len(line) == 0 {
			return
		}
		at := int(order[k]&63) % len(line)
		gone := line[at]
		if gone.Kind == znode.Write && order[k]&64 != 0 {
			line[at] = gone.As(znode.Read)
		} else {
			line = slices.Delete(line, at, at+1)
		}
		replaced := slices.ContainsFunc(line, func(n znode.Node) bool { return n.Seq == gone.Seq })
		if slices.Contains(watched, gone) {
			watching.remove(slices.Index(watched, gone), !replaced)
			if !watching.clear() && !watching.wakes() {
				watching = rule.blockers(line, me)
			}
		} else if recompute(rule, line, first) {
			t.Fatalf("line %q: it is the turn of member %d, which watches %q, but %q has gone",
				inWords(line), first, inWords(watched), inWords([]znode.Node{gone}))
		}
	}
}

// In whatever order permits are released, a waiter lists at most twice: when it comes, and when it
// is near.
func TestAWaiterListsAtMostTwice(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		permits := random.IntN(12) + 1
		var line []znode.Node // of callers that want 1 permit, or any number
		var first []int       // by node, the index of its caller's first
		some := random.IntN(2) == 0
		for callers := random.IntN(5 * permits); callers > 0; callers-- {
			n := 1
			if some {
				n = random.IntN(permits) + 1
			}
			for at := len(line); n > 0; n-- {
				line, first = append(line, znode.Node{Name: fmt.Sprint(len(line)), Kind: znode.Permit, Seq: int64(len(line))}), append(first, at)
			}
		}
		me := znode.Node{Seq: int64(len(line))}
		rule := permitRule(random.IntN(permits)+1, permits)
		b, lists := rule.blockers(line, me), 1
		for !b.clear() {
			// One of the holders releases: the first callers hold, as many as fit.
			var holders []int64
			for i, n := range line {
				from := first[n.Seq]
				end := i
				for end < len(line) && first[line[end].Seq] == from {
					end++
				}
				if end > permits {
					break
				}
				holders = append(holders, int64(from))
			}
			gone := holders[random.IntN(len(holders))]
			line = slices.DeleteFunc(line, func(n znode.Node) bool { return first[n.Seq] == int(gone) })
			for i := len(b.watched) - 1; i >= 0; i-- {
				if first[b.watched[i].Seq] == int(gone) {
					b.remove(i, true)
				}
			}
			if !b.clear() && !b.wakes() {
				b = rule.blockers(line, me)
				lists++
			}
			if b.clear() != recompute(rule, line, me.Seq) {
				t.Fatalf("%d permits, %d wanted, line %q: may go %v", permits, rule.nodes, inWords(line), b.clear())
			}
		}
		if lists > 2 {
			t.Fatalf("%d permits, %d wanted: %d listings", permits, rule.nodes, lists)
		}
	}
}

func FuzzRule(f *testing.F) {
	for recipe := range uint8(4) {
		for _, wants := range []uint8{0x00, 0x10, 0x11, 0x21, 0x32, 0xff} {
			f.Add(recipe, wants, []byte{0, 1, 0, 1, 1, 0}, []byte{0, 0, 0, 0, 0, 0})
			f.Add(recipe, wants, []byte{1, 1, 2, 4, 7, 0, 1}, []byte{6, 5, 4, 3, 2, 1, 0})
			f.Add(recipe, wants, []byte{9, 1, 1, 0, 1, 1, 1, 0}, []byte{0x43, 0x41, 2, 0x40, 0x40, 0, 1, 0, 0, 0})
		}
	}
	f.Add(uint8(1), uint8(0), []byte{}, []byte{})
	f.Fuzz(playRule)
}

// with returns a configuration with the names of a queue.
func with(cfg Config, names Names) Config {
	cfg.Names = names
	return cfg
}
