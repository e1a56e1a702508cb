package contract

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/internal/znode"
)

var surroundings = []scenario{
	{"a forged node that no client can delete does not keep the own one", forgedForGood, 0},
	{"behind nodes without a session a waiter waits and asks nothing", behindTheOwnerless, 0},
	{"a waiter still waits after writes into the nodes in line", writtenInto, 0},
	{"foreign children are ignored", strangers, 0},
	{"members in front of the last numbers are served, others fail", marginBegins, inMemory},
	{"a worn directory is given up when its queue is empty", wornIsGivenUp, inMemory},
}

// few is how many requests a waiter sends from its call to the end of its context: it queues,
// lists, watches, and leaves. While nothing happens it sends no request, however long that is.
const few = 20

// waitsQuietly makes a client wait for a second, in vain, and counts the client's requests.
func (c *client) waitsQuietly() {
	c.Helper()
	before := c.proxy.Seen(proxy.AnyOp)
	ctx, cancel := context.WithTimeout(c.Ctx, time.Second)
	defer cancel()
	a := Begin(c, ctx, c.Lock)
	c.Is(a.Failed(), context.DeadlineExceeded)
	c.catchUp() // ten questions
	if n := c.proxy.Seen(proxy.AnyOp) - before - 10; n > few {
		c.Errorf("%d requests of one who waits for a second, want at most %d", n, few)
	}
}

// forge loses the reply of a create, or the create itself, and has another client create a node of
// the same name before the victim searches for its own. The node has a number that is smaller than
// any other, and cannot be deleted, because it has a child.
func (c *client) forge(action proxy.Action) (a *attempt, path string) {
	c.Helper()
	f := c.proxy.Where(func(r proxy.Request) bool {
		if !r.Is(proxy.CreateOp) {
			return false
		}
		for _, p := range r.Paths {
			if strings.HasPrefix(p, c.Dir+"/_c_") && path == "" {
				path = p + "0000000000"
			}
		}
		return true
	}, 1, action)
	back := c.proxy.Next(proxy.ConnectOp, proxy.HoldRequest)
	a = c.begin(c.Lock)
	c.Fired(f)
	c.Fired(back)
	_, err := c.Witness.Client().Create(path, nil, zk.FlagPersistent, zk.WorldACL(zk.PermAll))
	c.Must(err)
	_, err = c.Witness.Client().Create(path+"/child", nil, zk.FlagPersistent, zk.WorldACL(zk.PermAll))
	c.Must(err)
	back.Release()
	return a, path
}

// The victim must not hold by the forged node, and must not leave its own node in the queue, where
// it would wait for itself.
func forgedForGood(s *scene) {
	s.makeDir(zk.WorldACL(zk.PermAll))
	c := s.behind()
	s.release(c.lock())
	for _, action := range cuts {
		h := s.client().block()
		a, path := c.forge(action)
		id := path[len(s.Dir+"/") : len(path)-10]
		again := func(name string) bool {
			_, stat, err := s.Witness.Client().Exists(s.Dir + "/" + name)
			return err == nil && stat.EphemeralOwner == c.conn.Session() && !strings.HasPrefix(name, id)
		}
		test.Eventually(s, soon, "it stands in line under another name", func() bool {
			return slices.ContainsFunc(test.Children(s, s.Witness.Client(), s.Dir), again)
		})
		c.waits(a)
		s.InLine(2*s.r.Nodes + 1)
		s.nodes(c.conn.Session())
		_, err := s.Witness.Client().Multi(&zk.DeleteRequest{Path: path + "/child", Version: -1}, &zk.DeleteRequest{Path: path, Version: -1})
		s.Must(err)
		s.release(h)
		s.release(a.Granted())
	}
}

// word returns the kind of a member's name, between its id and its number.
func (s *scene) word() string {
	s.Helper()
	h := s.client().block()
	name := test.Children(s, s.Witness.Client(), s.Dir)[0]
	s.release(h)
	return name[len("_c_")+36 : len(name)-10] // with the hyphens
}

func behindTheOwnerless(s *scene) { s.behindOwnerless(3) } // more nodes than there are permits

// behindOwnerless puts nodes into the queue that belong to no session, as an administrator or a
// restore may leave them. A node with a member's name counts. Then it deletes them from the front.
func (s *scene) behindOwnerless(members int) {
	const batch = 2000
	s.makeDir(zk.WorldACL(zk.PermAll))
	c := s.behind()
	word := s.word()
	var ops []any
	for i := range members {
		name := fmt.Sprintf("%s/_c_00000000-0000-4000-8000-%012d%s", s.Dir, i, word)
		ops = append(ops, &zk.CreateRequest{Path: name, Acl: zk.WorldACL(zk.PermAll), Flags: zk.FlagSequence})
	}
	for some := range slices.Chunk(ops, batch) {
		_, err := s.Witness.Client().Multi(some...)
		s.Must(err)
	}
	_, err := c.TryLock(s.Ctx)
	s.Is(err, zklocks.ErrBusy)
	c.waitsQuietly()
	s.InLine(members)
	before := c.requests()
	line := test.Children(s, s.Witness.Client(), s.Dir)
	a := c.begin(c.Lock)
	s.InLine(members + s.r.Nodes)
	c.waits(a)
	for some := range slices.Chunk(line, batch) {
		ops = ops[:0]
		for _, name := range some {
			ops = append(ops, &zk.DeleteRequest{Path: s.Dir + "/" + name, Version: -1})
		}
		_, err := s.Witness.Client().Multi(ops...)
		s.Must(err)
	}
	s.release(a.Granted())
	if n := c.requests() - before; n > 2*few {
		s.Errorf("%d requests until %d have gone", n, members)
	}
}

// writtenInto has another client write into all nodes of the queue, again and again: this must
// change nothing, and each write may cost a waiter at most one listing.
func writtenInto(s *scene) {
	const writes = 50
	c := s.behind()
	h := s.client().block()
	a := c.wait(2)
	c.catchUp()
	before := c.proxy.Seen(proxy.AnyOp)
	names := test.Children(s, s.Witness.Client(), s.Dir)
	for range writes {
		for _, name := range names {
			_, err := s.Witness.Client().Set(s.Dir+"/"+name, []byte("text"), -1)
			s.Must(err)
		}
	}
	c.waits(a)
	// A check is a listing, and a watch for each node that was written into.
	look := 2 + len(names)
	if n, most := c.proxy.Seen(proxy.AnyOp)-before, int64(writes*len(names)*look+few); n > most {
		s.Errorf("%d requests after %d writes into each of %d nodes, want at most %d", n, writes, len(names), most)
	}
	s.inLine(2)
	s.Must(h.Verify(s.Ctx))
	s.release(h)
	s.release(a.Granted())
}

// strange are names that belong to no member, of any recipe.
var strange = []string{
	"README", "_c_", "_c_x", "_c_-lock-0000000001", "x", "lock", "lock-", "read-", "write-", "permit-",
	"lock-12", "read-1", "write-000000001", "permit-123456789", "lock-00000000ab", "write-0000000000x",
	"lock-00000000001", "permit-99999999999999999999", "read--1", "0000000001", "-0000000001",
	"_c_9f86d081-884c-7d65-9a2f-eaa0c55ad015-lease-0000000000", "_c_not-a-uuid-write-0000000000",
	"_c_9f86d081-884c-7d65-9a2f-eaa0c55ad015-", "Lock-0000000000", "mylock-0000000000", "lock-0000000000.old",
	"zażółć", "锁-0000000000", "lock-０００００００００１",
}

func strangers(s *scene) {
	acl := zk.WorldACL(zk.PermAll)
	s.makeDir(acl)
	for _, name := range strange {
		_, err := s.Witness.Client().Create(s.Dir+"/"+name, nil, zk.FlagPersistent, acl)
		s.Must(err)
	}
	count := func() int { return len(test.Children(s, s.Witness.Client(), s.Dir)) - len(strange) }
	members := func(n int) {
		s.Helper()
		test.Eventually(s, soon, "members in line", func() bool { return count() == n*s.r.Nodes })
	}

	holder, c := s.client(), s.behind()
	h := holder.block()
	members(1)
	c.waitsQuietly()
	_, err := c.TryLock(s.Ctx)
	s.Is(err, zklocks.ErrBusy)
	a := c.begin(c.Lock)
	members(2)
	if q := c.queue(); len(q) != 2 || !q[0].Holding || q[1].Holding {
		s.Errorf("queue %+v", q)
	}
	s.release(h)
	s.release(a.Granted())
	h, err = c.TryLock(s.Ctx)
	s.Must(err)
	s.release(h)
	members(0)
	for _, name := range strange {
		s.Must(s.Witness.Client().Delete(s.Dir+"/"+name, -1)) // no lock has deleted it
	}
}

// lastNumber is the number from which on no node queues, see znode.Node.Usable. What a server does
// with such numbers is shown by TestTheEndOfTheSequence of internal/memzk.
const lastNumber = 1<<31 - 1<<20

// worn makes directories whose next child has this number. A child named README keeps the directory
// when the queue is empty.
func (s *scene) worn(next int32) {
	s.Helper()
	s.makeDir(zk.WorldACL(zk.PermAll))
	all := map[string]int32{}
	for _, dir := range s.dirs() {
		_, err := s.Witness.Client().Create(dir+"/README", nil, zk.FlagPersistent, zk.WorldACL(zk.PermAll))
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
		s.Must(s.Witness.Client().Delete(dir+"/README", -1))
	}
}

// refused asserts that every way to take the lock fails at once with the reason, leaves no node,
// and sends few requests.
func (c *client) refused() {
	c.Helper()
	there := len(test.Children(c, c.Witness.Client(), c.Dir))
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
			exists, _, err := c.Witness.Client().Exists(dir)
			return err == nil && !exists
		})
	}
	h := c.lock()
	if line := test.Children(c, c.Witness.Client(), c.Dir); len(line) != c.r.Nodes || !strings.Contains(strings.Join(line, " "), "-0000000000") {
		c.Errorf("in a new directory: %q", line)
	}
	c.release(h)
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
	s.release(h)
	got := a.Granted()
	s.grows(h, got)
	s.release(got)
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
	s.release(h)
	c.renewed(0)
}
