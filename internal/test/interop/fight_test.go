package interop

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/history"
	"github.com/zklocks/zklocks/internal/wire"
)

const (
	fighters = 3  // of each side
	cycles   = 30 // of each fighter
	// crowd is how often the lock must pass from one side to the other. If it passes less often,
	// the fight shows nothing. In the order of arrival the lock passes nearly each time.
	crowd = 2 * fighters * cycles / 8
)

// pace is how many holds in a second a fight has at least, also on a busy machine. Where a server
// does not answer one of a peer's requests, each hold takes seconds.
const pace = 5

// fought has all sessions of two sides acquire the lock a number of times, for the kinds in turn. A
// writer adds one to the counter, a node that it reads and writes in two steps, ignoring its
// version. A reader checks that the counter does not change. The lock must pass from one side to
// the other at least so many times. fought returns the violations.
func (s *story) fought(a side, kinds []string, b side, kinds2 []string, least int) []string {
	s.Helper()
	counter := s.counter()
	a.open(fighters)
	b.open(fighters)
	ended := a.fight(counter, kinds)
	ended2 := b.fight(counter, kinds2)
	holds := slices.Concat(ended(), ended2())
	s.Empty()
	side := func(who string) string { return who[:strings.LastIndex(who, "-")] }
	if n := history.Crossings(holds, side); n < least {
		s.Errorf("of %d holds only %d came after one of the other side", len(holds), n)
	}
	return s.judge(counter, holds)
}

func (s *story) counter() string {
	s.Helper()
	path, err := s.Witness.Client().Create(test.Path(s), []byte("0"), zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
	s.Must(err)
	return path
}

// judge returns the violations of a fight, and asserts its pace.
func (s *story) judge(counter string, holds []history.Hold) (wrong []string) {
	s.Helper()
	report := history.Check(history.Rules{}, holds)
	if !report.OK() {
		wrong = append(wrong, report.String())
	}
	first, last := holds[0].Acquired, int64(0)
	for _, h := range holds {
		first, last = min(first, h.Acquired), max(last, h.Ended)
	}
	took := time.Duration(last - first)
	s.Logf("%s, %d holds in %v", report.Summary(), len(holds), took.Round(time.Millisecond))
	if most := time.Duration(len(holds)) * time.Second / pace; took > most {
		s.Errorf("the fight took %v, want at most %v", took, most)
	}
	writes := slices.DeleteFunc(holds, func(h history.Hold) bool { return h.Kind != history.Exclusive })
	data, _, err := s.Witness.Client().Get(counter)
	s.Must(err)
	if string(data) != strconv.Itoa(len(writes)) {
		wrong = append(wrong, fmt.Sprintf("%d writes have counted to %s", len(writes), data))
	}
	return wrong
}

// fights asserts that a fight has no violations.
func (s *story) fights(a side, kinds []string, b side, kinds2 []string, least int) {
	s.Helper()
	for _, text := range s.fought(a, kinds, b, kinds2, least) {
		s.Error(text)
	}
}

// If two sides use different paths, the fight has violations.
func TestAFightShowsWhoDoesNotExclude(t *testing.T) {
	onEach(t, func(s *story) {
		t := s.T
		ours := ourMutex(s.Stage)
		elsewhere := &local{Stage: s.Stage, name: "elsewhere", on: func(conn *wire.Conn, path string) locker {
			return ours.on(conn, path+"-elsewhere")
		}}
		wrong := s.fought(ours, []string{mutex}, elsewhere, []string{mutex}, crowd)
		if len(wrong) != 2 {
			t.Errorf("both the record and the counter should show it: %q", wrong)
		}
	})
}
