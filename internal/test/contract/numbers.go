package contract

import (
	"errors"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/internal/znode"
)

// What a server does with such numbers is shown by TestTheEndOfTheSequence of internal/memzk.
var numbers = []scenario{
	{"members in front of the last numbers are served, others fail", marginBegins, inMemory},
	{"a worn directory is given up when its queue is empty", wornIsGivenUp, inMemory},
}

// lastNumber is the number from which on no node queues, see znode.Node.Usable.
const lastNumber = 1<<31 - 1<<20

// worn makes directories whose next child has this number. A child named README keeps the directory
// when the queue is empty.
func (s *scene) worn(next int32) {
	s.Helper()
	s.makeDir(zk.WorldACL(zk.PermAll))
	all := map[string]int32{}
	for _, dir := range s.dirs() {
		_, err := s.Witness.Create(dir+"/README", nil, zk.FlagPersistent, zk.WorldACL(zk.PermAll))
		s.Must(err)
		all[dir] = next
	}
	server := s.Venue.Shared(s).(interface{ SetSequences(map[string]int32) error })
	s.Must(server.SetSequences(all))
}

// idle deletes the children that keep the directories.
func (s *scene) idle() {
	s.Helper()
	for _, dir := range s.dirs() {
		s.Must(s.Witness.Delete(dir+"/README", -1))
	}
}

// refused asserts that every way to take the lock fails at once with the reason, leaves no node,
// and sends few requests.
func (c *client) refused() {
	c.Helper()
	there := len(test.Children(c, c.Witness, c.Dir))
	for i, call := range []lockFunc{c.Lock, c.Block, c.TryLock} {
		before := c.proxy.Seen(proxy.AnyOp)
		a := c.begin(call)
		if err := a.Failed(); i < 2 || !errors.Is(err, zklocks.ErrBusy) { // TryLock may only list
			c.Is(err, znode.ErrSequence)
		}
		c.AtOnce("refusing", a.At.Sub(a.Began))
		if n := c.proxy.Seen(proxy.AnyOp) - before; n > few {
			c.Errorf("%d requests", n)
		}
		c.InLine(there)
	}
}

// renewed asserts that the first caller that is refused while the queue is empty has the directory
// deleted, and that the count begins again at 0.
func (c *client) renewed(refusals int) {
	c.Helper()
	for range refusals {
		_, err := c.Lock(c.Ctx)
		c.Is(err, znode.ErrSequence)
	}
	for _, dir := range c.dirs() {
		test.Eventually(c, soon, "the directory is given up", func() bool {
			exists, _, err := c.Witness.Exists(dir)
			return err == nil && !exists
		})
	}
	h := c.lock()
	if line := test.Children(c, c.Witness, c.Dir); len(line) != c.r.Nodes || !strings.Contains(strings.Join(line, " "), "-0000000000") {
		c.Errorf("in a new directory: %q", line)
	}
	c.unlock(h)
}

// marginBegins: two members fit in front of the margin, the third does not, neither while the
// others wait nor when they have left.
func marginBegins(s *scene) {
	s.worn(lastNumber - int32(2*s.r.Nodes))
	c := s.behind()
	h := s.client().block()
	a := c.begin(c.Block)
	s.InLine(2*s.r.Nodes + 1)
	c.refused()
	a.Waits()
	s.unlock(h)
	got := a.Granted()
	s.grows(h, got)
	s.unlock(got)
	c.refused()
	s.idle()
	c.renewed(1)
}

// wornIsGivenUp: a directory is deleted when its queue is empty, long before its numbers run out.
func wornIsGivenUp(s *scene) {
	s.worn(1 << 30)
	c := s.behind()
	h := c.lock()
	s.idle()
	s.unlock(h)
	c.renewed(0)
}
