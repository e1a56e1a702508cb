package interop

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/zktest"
	"github.com/zklocks/zklocks/internal/zktest/history"
)

// fight is what each side is told: so many sessions take the lock so often each,
// as the kinds in turn. Whoever writes adds one to the counter, a node that is
// read and written in two steps and whatever its version; whoever reads sees that
// it stays as it is.
type fight struct {
	counter string
	kinds   []string
	workers int
	cycles  int
}

// corner is a side and what it asks for.
type corner struct {
	side  side
	kinds []string
}

const (
	fighters = 3  // of each side
	cycles   = 30 // of each fighter
)

// fought has the two fight, and returns what is wrong with it.
func (s *story) fought(a, b corner) []string {
	s.Helper()
	counter, err := s.Witness.Create(zktest.Path(s), []byte("0"), zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
	s.Must(err)
	begin := func(c corner) func() []history.Hold {
		return c.side.fight(fight{counter: counter, kinds: c.kinds, workers: fighters, cycles: cycles})
	}
	ended, ended2 := begin(a), begin(b)
	holds := slices.Concat(ended(), ended2())
	s.Empty()

	var wrong []string
	report := history.Check(history.Rules{}, holds)
	s.Log(report.Summary())
	if !report.OK() {
		wrong = append(wrong, report.String())
	}
	writes := slices.DeleteFunc(holds, func(h history.Hold) bool { return h.Kind != history.Exclusive })
	data, _, err := s.Witness.Get(counter)
	s.Must(err)
	if string(data) != strconv.Itoa(len(writes)) {
		wrong = append(wrong, fmt.Sprintf("%d writes have counted to %s", len(writes), data))
	}
	// Without a crowd there is nothing to exclude.
	if n := crossings(writes); n < len(writes)/4 {
		s.Errorf("of %d writes only %d came after one of the other side", len(writes), n)
	}
	return wrong
}

// fights asserts that nothing is wrong.
func (s *story) fights(a, b corner) {
	s.Helper()
	for _, text := range s.fought(a, b) {
		s.Error(text)
	}
}

// crossings counts how often the lock went from one side to the other.
func crossings(writes []history.Hold) int {
	slices.SortFunc(writes, func(a, b history.Hold) int { return cmp.Compare(a.Acquired, b.Acquired) })
	side := func(h history.Hold) string { return h.Who[:strings.LastIndex(h.Who, "-")] }
	n := 0
	for i := 1; i < len(writes); i++ {
		if side(writes[i]) != side(writes[i-1]) {
			n++
		}
	}
	return n
}
