package interop

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/history"
)

// fight is the order to each side: all its sessions acquire the lock a number of times, for the
// kinds in turn. A writer adds one to the counter, a node that it reads and writes in two steps,
// ignoring its version. A reader checks that the counter does not change.
type fight struct {
	counter string
	kinds   []string
	cycles  int
}

// corner is a side and the kinds that it acquires.
type corner struct {
	side  side
	kinds []string
}

const (
	fighters = 3  // of each side
	cycles   = 30 // of each fighter
	// crowd is how often the lock must pass from one side to the other. If it passes less often,
	// the fight shows nothing. In the order of arrival the lock passes nearly each time.
	crowd = 2 * fighters * cycles / 8
)

// fought runs a fight with at least so many crossings, and returns the violations.
func (s *story) fought(a, b corner, least int) []string {
	s.Helper()
	counter, err := s.Witness.Create(test.Path(s), []byte("0"), zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
	s.Must(err)
	a.side.open(fighters)
	b.side.open(fighters)
	ended := a.side.fight(fight{counter, a.kinds, cycles})
	ended2 := b.side.fight(fight{counter, b.kinds, cycles})
	holds := slices.Concat(ended(), ended2())
	s.Empty()

	var wrong []string
	report := history.Check(history.Rules{}, holds)
	s.Log(report.Summary())
	if !report.OK() {
		wrong = append(wrong, report.String())
	}
	side := func(who string) string { return who[:strings.LastIndex(who, "-")] }
	if n := history.Crossings(holds, side); n < least {
		s.Errorf("of %d holds only %d came after one of the other side", len(holds), n)
	}
	writes := slices.DeleteFunc(holds, func(h history.Hold) bool { return h.Kind != history.Exclusive })
	data, _, err := s.Witness.Get(counter)
	s.Must(err)
	if string(data) != strconv.Itoa(len(writes)) {
		wrong = append(wrong, fmt.Sprintf("%d writes have counted to %s", len(writes), data))
	}
	return wrong
}

// fights asserts that a fight has no violations.
func (s *story) fights(a, b corner, least int) {
	s.Helper()
	for _, text := range s.fought(a, b, least) {
		s.Error(text)
	}
}

// If two sides use different names, the fight has violations.
func TestAFightShowsWhoDoesNotExclude(t *testing.T) {
	s := newStory(t)
	wrong := s.fought(corner{ourMutex(s.Stage), []string{mutex}}, corner{ourRW(s.Stage), []string{write}}, crowd)
	if len(wrong) != 2 {
		t.Errorf("both the record and the counter should show it: %q", wrong)
	}
}
