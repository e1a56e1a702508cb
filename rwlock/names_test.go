package rwlock_test

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/contract"
	"github.com/zklocks/zklocks/internal/test/locks"
	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/observe"
	"github.com/zklocks/zklocks/rwlock"
)

func TestCuratorNames(t *testing.T) {
	foreignNames(t, rwlock.WithCuratorNames(), false, `^_c_[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}-__(READ|WRIT)__\d{10}$`)
}

func TestKazooNames(t *testing.T) {
	foreignNames(t, rwlock.WithKazooNames(), true, `^[0-9a-f]{32}__r?lock__\d{10}$`)
}

// foreignNames says whether the empty directory stays: a kazoo lock creates it once for each lock
// object.
func foreignNames(t *testing.T, names rwlock.Option, stays bool, pattern string) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		a, b := direct(s).with(names), direct(s).with(names)
		first, second := a.read(), a.read()
		s.InLine(2) // readers do not share a node
		writer := b.waitWrite(3)
		late := a.waitRead(4)
		for _, name := range test.Children(s, s.Witness.Client(), s.Dir) {
			if !regexp.MustCompile(pattern).MatchString(name) {
				s.Errorf("node %q", name)
			}
		}
		q, err := b.Queue(s.Ctx)
		s.Must(err)
		for i, want := range []struct {
			kind    observe.Kind
			holding bool
		}{{observe.KindRead, true}, {observe.KindRead, true}, {observe.KindWrite, false}, {observe.KindRead, false}} {
			if q[i].Kind != want.kind || q[i].Holding != want.holding {
				s.Errorf("member %d: %+v", i, q[i])
			}
		}
		release(s, first)
		release(s, second)
		h := writer.Granted()
		_, err = a.TryRLock(s.Ctx)
		s.Is(err, zklocks.ErrBusy)
		s.Must(b.Downgrade(s.Ctx, h))
		joined := late.Granted()
		_, err = b.TryLock(s.Ctx)
		s.Is(err, zklocks.ErrBusy)
		release(s, joined)
		release(s, h)
		release(s, a.write())
		s.Pass(time.Minute) // ten times as long as a container lives here
		if there, _, err := s.Witness.Client().Exists(s.Dir); there != stays || err != nil {
			s.Errorf("the directory exists: %v, %v", there, err)
		}
	})
}

// A create whose reply was lost is found by its name.
func TestKazooNamesAreFoundAgain(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		c := behind(s).with(rwlock.WithKazooNames())
		release(s, c.write()) // creates the directory
		lost := c.proxy.Next(proxy.CreateOp, proxy.CutAfterCommit)
		h := c.write()
		s.Fired(lost)
		s.InLine(1)
		s.Must(c.Downgrade(s.Ctx, h))
		release(s, h)
	})
}

func TestWrongOptions(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		for says, opts := range map[string][]rwlock.Option{
			"-1 is negative":           {rwlock.WithHandoff(-1)},
			"-1s is negative":          {rwlock.WithMaxIdle(-time.Second)},
			"WithKazooNames: Curator ": {rwlock.WithCuratorNames(), rwlock.WithKazooNames()},
		} {
			_, err := rwlock.New(locks.On(s.Witness), s.Path, opts...).Lock(s.Ctx)
			if err == nil || !strings.Contains(err.Error(), says) {
				s.Errorf("error %v, want one that says %q", err, says)
			}
		}
	})
}

// jvmWrites creates a write node like Curator, and its directory.
func jvmWrites(s *contract.Stage) (path string) {
	s.Helper()
	test.Eventually(s, soon, "a write node in a JVM", func() bool { // the server may delete the empty directory
		_, _ = s.Witness.Client().Create(s.Dir, nil, zk.FlagPersistent, zk.WorldACL(zk.PermAll))
		var err error
		path, err = s.Witness.Client().Create(s.Dir+"/_c_0b9a1f6e-7c1d-4b7e-9f57-1a2b3c4d5e6f-__WRIT__", nil, zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
		return err == nil
	})
	return path
}

// jvmReads creates a read node like Curator, with the number of another node.
func jvmReads(s *contract.Stage, node string) (path string) {
	s.Helper()
	path, err := s.Witness.Client().Create(s.Dir+"/_c_1b671a64-40d5-491e-99b0-da01ff1f3341-__READ__"+node[len(node)-10:],
		nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
	s.Must(err)
	return path
}

// Since 5.5.0 Curator creates the read node with the number of the write node, and deletes the
// write node in a second step.
func TestCuratorsDowngradeIsOneHolder(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		a, b := behind(s).with(rwlock.WithCuratorNames()), direct(s).with(rwlock.WithCuratorNames())
		theirs := jvmWrites(s)
		early := a.waitWrite(2)
		test.Eventually(s, soon, "it watches both", func() bool { return a.proxy.Seen(proxy.ReadOp) >= 2 })
		s.CatchUp(a.conn)
		read := jvmReads(s, theirs)

		_, err := b.TryRLock(s.Ctx)
		s.Is(err, zklocks.ErrBusy)
		late := b.waitWrite(4) // lists both
		q, err := b.Queue(s.Ctx)
		s.Must(err)
		if len(q) != 4 || !q[0].Holding || !q[1].Holding || q[2].Holding || q[3].Holding {
			s.Errorf("queue %+v", q)
		}
		s.CatchUp(a.conn)
		s.Must(s.Witness.Client().Delete(theirs, -1))
		s.CatchUp(a.conn)
		early.Waits()
		s.Must(s.Witness.Client().Delete(read, -1))
		release(s, early.Granted())
		release(s, late.Granted())
	})
}

func TestAnotherNodeWithTheSameNumberIsRefused(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		a := direct(s).with(rwlock.WithCuratorNames())
		theirs := jvmWrites(s)
		waiting := a.waitWrite(2)
		s.CatchUp(a.conn)
		var read string
		for _, name := range test.Children(s, s.Witness.Client(), s.Dir) {
			if s.Dir+"/"+name != theirs {
				read = jvmReads(s, name)
			}
		}
		s.Must(s.Witness.Client().Delete(theirs, -1))
		if err := waiting.Failed(); !strings.Contains(err.Error(), "two members have one sequence number") {
			s.Error(err)
		}
		s.Must(s.Witness.Client().Delete(read, -1))
		release(s, a.write())
	})
}
