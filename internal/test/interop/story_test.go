package interop

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/contract"
	"github.com/zklocks/zklocks/internal/test/realzk"
	"github.com/zklocks/zklocks/internal/test/venue"
)

const soon = 30 * time.Second

// story is a sequence of steps on one path, in which the parties take turns.
type story struct {
	*contract.Stage
	server *realzk.Server
}

func newStory(t *testing.T) *story {
	t.Helper()
	server := realzk.Shared(t)
	return &story{contract.NewStage(t, venue.Real(), ""), server}
}

// asks makes a party ask for the lock, and returns its node.
func (s *story) asks(p party, kind string) (node string) {
	s.Helper()
	before := test.Children(s, s.Witness, s.Path)
	p.take(kind)
	return s.another(before)
}

// another waits for one more child than these.
func (s *story) another(before []string) (node string) {
	s.Helper()
	test.Eventually(s, soon, "a node in line", func() bool {
		for _, name := range test.Children(s, s.Witness, s.Path) {
			if !slices.Contains(before, name) {
				node = name
			}
		}
		return node != ""
	})
	return node
}

// takes makes a party take the lock, which is free for it.
func (s *story) takes(p party, kind string) (node string) {
	s.Helper()
	node = s.asks(p, kind)
	p.await()
	return node
}

// waits asserts that a party that has asked for the lock waits for another party's node: it watches
// the node, as the server says, and does not say that it holds.
func (s *story) waits(p party, node string) {
	s.Helper()
	_, stat, err := s.Witness.Get(s.Path + "/" + node)
	s.Must(err)
	test.Eventually(s, soon, "there is a waiter for "+node, func() bool {
		return p.holds() || slices.ContainsFunc(s.watchers(node), func(session string) bool {
			return session != hex(stat.EphemeralOwner)
		})
	})
	if p.holds() {
		s.Fatalf("holds the lock beside %s, in line are %q", node, test.Children(s, s.Witness, s.Path))
	}
}

// watchers are the sessions that watch a node.
func (s *story) watchers(node string) []string {
	s.Helper()
	answer, err := s.server.Word("wchp")
	s.Must(err)
	_, list, found := strings.Cut(answer, s.Path+"/"+node+"\n")
	if !found {
		return nil
	}
	var sessions []string
	for line := range strings.Lines(list) {
		session, is := strings.CutPrefix(line, "\t0x")
		if !is {
			break
		}
		sessions = append(sessions, strings.TrimSpace(session))
	}
	return sessions
}

// excludes: while first holds, second waits.
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

// together: both read.
func (s *story) together(first, second party) {
	s.Helper()
	s.takes(first, read)
	s.takes(second, read)
	first.give()
	second.give()
	s.Empty()
}

// queues: a reader that comes behind a waiting writer of the other side waits for it, and readers
// ahead of it do not.
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

// downgrades: one party goes on reading, a writer that waits goes on waiting, and a reader that
// waits is granted the lock.
func (s *story) downgrades(first, writer, reader party) {
	s.Helper()
	node := s.takes(first, write)
	behind := s.asks(reader, read)
	s.waits(reader, node)
	s.asks(writer, write)
	s.waits(writer, behind)
	before := test.Children(s, s.Witness, s.Path)
	first.downgrade()
	mine := s.another(before)
	reader.await()
	if writer.holds() {
		s.Error("a writer beside readers")
	}
	reader.give()
	s.waits(writer, mine)
	first.give()
	writer.await()
	writer.give()
	s.Empty()
}

// downgradesAlone is that without a writer that waits: the one here comes later.
func (s *story) downgradesAlone(first, writer, reader party) {
	s.Helper()
	node := s.takes(first, write)
	s.asks(reader, read)
	s.waits(reader, node)
	before := test.Children(s, s.Witness, s.Path)
	first.downgrade()
	mine := s.another(before)
	reader.await()
	reader.give()
	s.asks(writer, write)
	s.waits(writer, mine)
	first.give()
	writer.await()
	writer.give()
	s.Empty()
}

// hex is a session as the server writes it.
func hex(session int64) string { return strconv.FormatUint(uint64(session), 16) }
