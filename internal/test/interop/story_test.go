package interop

import (
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/contract"
	"github.com/zklocks/zklocks/internal/test/history"
	"github.com/zklocks/zklocks/internal/test/realzk"
	"github.com/zklocks/zklocks/internal/test/venue"
	"github.com/zklocks/zklocks/zktest"
)

const soon = 30 * time.Second

// The kinds of locks that a party may acquire. A peer may have more.
const (
	mutex     = "mutex"
	read      = "read"
	write     = "write"
	downgrade = "downgrade" // in a fight: acquire for writing, and then downgrade
	elected   = "leader"
	latch     = "latch"  // with the names of LeaderLatch
	permit    = "permit" // the only permit of a peer's semaphore
)

// side is a library at work on a path.
type side interface {
	// party opens a session.
	party(who string) party
	// open opens sessions for a fight.
	open(sessions int)
	// fight begins to acquire in all of them; the returned function waits for the end.
	fight(counter string, kinds []string) (ended func() []history.Hold)
	// part closes all sessions.
	part()
}

// party takes locks, one at a time.
type party interface {
	take(kind string) // begins to acquire, and returns
	holds() bool      // as the party reports
	await()           // waits until it holds
	give()
	downgrade()
}

// story is a sequence of steps of several parties on one path.
type story struct {
	*contract.Stage
	word func(string) (string, error) // asks the server
}

// onEach tells a story on the installed server, and on the kit's.
func onEach(t *testing.T, tell func(*story)) {
	t.Run("server", func(t *testing.T) {
		word := realzk.Shared(t).Word
		tell(&story{contract.NewStage(t, venue.Real(), ""), word})
	})
	t.Run("kit", func(t *testing.T) {
		server := zktest.NewServer(t)
		// Without a delay our fighters have ended before a peer has begun.
		host := server.Host("all")
		host.Delay(time.Millisecond)
		k := kit{venue.Real(), host.ListenTCP(t)[0], server.ListenTCP(t)[0]}
		tell(&story{contract.NewStage(t, k, ""), k.word})
	})
}

// kit is the server in memory, at real ports: one with a delay, and one for four letter words.
type kit struct {
	venue.Venue
	addr, words string
}

func (k kit) Servers(testing.TB) []string { return []string{k.addr} }

func (k kit) Watched(tb testing.TB, session int64) []string {
	answer, err := k.word("wchc")
	if err != nil {
		tb.Fatal(err)
	}
	return test.WatchedBy(answer, session)
}

func (k kit) word(word string) (string, error) {
	conn, err := net.Dial("tcp", k.words)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, word); err != nil {
		return "", err
	}
	answer, err := io.ReadAll(conn)
	return string(answer), err
}

// asks makes a party request the lock, and returns its node.
func (s *story) asks(p party, kind string) (node string) {
	s.Helper()
	before := test.Children(s, s.Witness.Client(), s.Path)
	p.take(kind)
	return s.another(before)
}

// another waits for a child that is not in before.
func (s *story) another(before []string) (node string) {
	s.Helper()
	test.Eventually(s, soon, "a node in line", func() bool {
		for _, name := range test.Children(s, s.Witness.Client(), s.Path) {
			if !slices.Contains(before, name) {
				node = name
			}
		}
		return node != ""
	})
	return node
}

// takes makes a party acquire the lock, which is free for it.
func (s *story) takes(p party, kind string) (node string) {
	s.Helper()
	node = s.asks(p, kind)
	p.await()
	return node
}

// waits asserts that a party waits for the node of another: the server reports that a session that
// is not its owner watches the node, and the party does not report that it holds.
func (s *story) waits(p party, node string) {
	s.Helper()
	_, stat, err := s.Witness.Client().Get(s.Path + "/" + node)
	s.Must(err)
	owner := fmt.Sprintf("0x%x", uint64(stat.EphemeralOwner))
	test.Eventually(s, soon, "there is a waiter for "+node, func() bool {
		answer, err := s.word("wchp")
		s.Must(err)
		_, watchers, _ := strings.Cut(answer, s.Path+"/"+node+"\n") // a line for each session, then the next path
		for session := range strings.Lines(watchers) {
			if !strings.HasPrefix(session, "\t") {
				break
			}
			if strings.TrimSpace(session) != owner {
				return true
			}
		}
		return p.holds()
	})
	if p.holds() {
		s.Fatalf("holds the lock beside %s, in line are %q", node, test.Children(s, s.Witness.Client(), s.Path))
	}
}

// excludes asserts that second waits while first holds.
func (s *story) excludes(first party, kind string, second party, other string) {
	s.Helper()
	node := s.takes(first, kind)
	s.asks(second, other)
	s.waits(second, node)
	first.give()
	second.await()
	second.give()
	s.Empty()
}

// mutexes asserts that two exclusive locks exclude each other.
func (s *story) mutexes(ours, theirs side) {
	s.Helper()
	a, b := ours.party("a"), theirs.party("b")
	s.excludes(a, mutex, b, mutex)
	s.excludes(b, mutex, a, mutex)
	s.fights(ours, []string{mutex}, theirs, []string{mutex}, crowd)
	theirs.part()
}

// writersAndReaders asserts that only readers can hold at the same time.
func (s *story) writersAndReaders(a, b party) {
	s.Helper()
	for _, order := range [][2]party{{a, b}, {b, a}} {
		first, second := order[0], order[1]
		s.excludes(first, write, second, write)
		s.excludes(first, write, second, read)
		s.excludes(first, read, second, write)
		s.takes(first, read)
		s.takes(second, read)
		first.give()
		second.give()
		s.Empty()
	}
}

// queues asserts that a reader behind a waiting writer of the other side waits, and that a reader
// ahead of the writer does not wait.
func (s *story) queues(first, writer, late party) {
	s.Helper()
	ahead := s.takes(first, read)
	node := s.asks(writer, write)
	s.waits(writer, ahead)
	s.asks(late, read)
	s.waits(late, node)
	first.give()
	writer.await()
	if late.holds() {
		s.Error("a reader beside a writer")
	}
	writer.give()
	late.await()
	late.give()
	s.Empty()
}

// downgrades asserts that after a downgrade the party holds for reading, a waiting reader is
// granted the lock, and a writer waits: in line since before the downgrade, or since the grant.
func (s *story) downgrades(first, writer, reader party, before bool) {
	s.Helper()
	node := s.takes(first, write)
	behind := s.asks(reader, read)
	s.waits(reader, node)
	if before {
		s.asks(writer, write)
		s.waits(writer, behind)
	}
	inLine := test.Children(s, s.Witness.Client(), s.Path)
	first.downgrade()
	mine := s.another(inLine)
	reader.await()
	if before && writer.holds() {
		s.Error("a writer beside readers")
	}
	reader.give()
	if !before {
		s.asks(writer, write)
	}
	s.waits(writer, mine)
	first.give()
	writer.await()
	writer.give()
	s.Empty()
}
