package contract

import (
	"fmt"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/queue"
	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/proxy"
)

var data = []scenario{
	{"data that another program stored in the directory stay", dataStay, 0},
	{"data that come after the first use stay", dataComeLater, 0},
	{"data of a node that was made again stay", dataOfAnotherNode, inMemory},
	{"data that come and go while readers hold", dataComeAndGo, 0},
	{"a lock on a semaphore's path fails and keeps the number", semaphoresPath, single},
	{"the first use of a directory costs a read, unless the lock makes it", firstUse, 0},
}

// config is what another program has stored in the lock's directory.
const config = "retention.ms=604800000"

// store makes the lock's directories with the other program's data.
func (s *scene) store() {
	s.Helper()
	s.makeDir(zk.WorldACL(zk.PermAll))
	s.set(config)
}

// set writes the data of the lock's directories, as another program does.
func (s *scene) set(data string) {
	s.Helper()
	for _, dir := range s.dirs() {
		_, err := s.Witness.Client().Set(dir, []byte(data), -1)
		s.Must(err)
	}
}

// stored asserts that nobody has written the directories since the other program did.
func (s *scene) stored(versions int32) {
	s.Helper()
	for _, dir := range s.dirs() {
		data, stat, err := s.Witness.Client().Get(dir)
		s.Must(err)
		if string(data) != config || stat.Version != versions {
			s.Errorf("%s holds %q, in version %d, want %q in version %d", dir, data, stat.Version, config, versions)
		}
	}
}

// versions returns how often the directory was written.
func (s *scene) versions() int32 {
	s.Helper()
	_, stat, err := s.Witness.Client().Exists(s.Dir)
	s.Must(err)
	return stat.Version
}

// used makes every kind of call: with and without waiting, held by another caller and free.
func (s *scene) used(a, b *client) {
	s.Helper()
	for range 3 {
		h := a.block()
		_, err := b.TryLock(s.Ctx)
		s.Is(err, zklocks.ErrBusy)
		first := b.wait(2)
		second := a.again().wait(3)
		b.waits(first)
		s.Must(h.Verify(s.Ctx))
		s.release(h)
		got := first.Granted()
		s.grows(h, got)
		if !s.r.Shared {
			second.Waits()
		}
		s.release(got)
		s.release(second.Granted())
		h, err = b.TryLock(s.Ctx)
		s.Must(err)
		s.release(h)
	}
}

func dataStay(s *scene) {
	s.store()
	s.used(s.client(), s.behind())
	s.stored(1)
}

// A lock value that has seen the directory without data must not rely on that.
func dataComeLater(s *scene) {
	s.makeDir(zk.WorldACL(zk.PermAll))
	a, b := s.client(), s.client()
	for range 3 {
		s.release(a.lock())
	}
	s.release(b.lock())
	s.set(config)
	versions := s.versions()
	s.release(a.lock())
	s.release(b.block())
	h, err := a.TryLock(s.Ctx)
	s.Must(err)
	s.release(h)
	s.stored(versions)
	s.Pass(time.Minute)
	s.used(a, b)
	s.stored(versions)
}

// The server deletes an idle lock's container. Another program may then use the path.
func dataOfAnotherNode(s *scene) {
	a := s.client()
	for cycles := range int32(4) {
		for range cycles {
			s.release(a.block())
		}
		test.Eventually(s, soon, "the directory is gone", func() bool {
			exists, _, err := s.Witness.Client().Exists(s.Dir)
			return err == nil && !exists
		})
		for _, dir := range s.dirs() {
			_ = s.Witness.Client().Delete(dir, -1) // the other lock's may still be there
		}
		if s.Dir != s.Path {
			_ = s.Witness.Client().Delete(s.Path, -1)
		}
		time.Sleep(queue.FirstRecheck) // virtual: the versions of both nodes may be the same
		s.store()
		s.release(a.lock())
		s.release(a.block())
		s.stored(1)
		s.used(a, s.client())
		s.stored(1)
		s.wipe(s.dirs()...)
		if s.Dir != s.Path {
			s.wipe(s.Path)
		}
	}
}

// Whoever waits in a directory with data waits in the same queue as before and after.
func dataComeAndGo(s *scene) {
	s.makeDir(zk.WorldACL(zk.PermAll))
	a, b, c := s.client(), s.client(), s.client()
	for range 3 { // so that readers know that there is no writer
		s.release(a.lock())
	}
	for i := range 6 {
		h := a.lock()
		s.set([]string{config, ""}[i%2])
		first := b.waitToBlock(2)
		b.waits(first)
		second := c.wait(3)
		s.set([]string{"", config}[i%2])
		c.waits(second)
		s.release(h)
		got := first.Granted()
		if s.r.Block != "" || !s.r.Shared {
			second.Waits()
			_, err := a.TryLock(s.Ctx)
			s.Is(err, zklocks.ErrBusy)
		}
		s.release(got)
		s.release(second.Granted())
	}
}

func semaphoresPath(s *scene) {
	if s.Dir != s.Path {
		return // it is a semaphore itself
	}
	const number = "12"
	_, err := s.Witness.Client().Create(s.Path, []byte(number), zk.FlagPersistent, zk.WorldACL(zk.PermAll))
	s.Must(err)
	c := s.client()
	for range 2 {
		for _, call := range []lockFunc{c.Lock, c.TryLock, c.Block, s.client().TryLock, s.client().Lock} {
			err := c.begin(call).Failed()
			if says := fmt.Sprint(err); !strings.Contains(says, s.Path) || !strings.Contains(says, "bytes of data: 2") || !strings.Contains(says, "another kind") {
				s.Errorf("error %q", says)
			}
		}
	}
	data, stat, err := s.Witness.Client().Get(s.Path)
	s.Must(err)
	if string(data) != number || stat.Version != 0 || stat.NumChildren != 0 {
		s.Errorf("%q in version %d, with %d children", data, stat.Version, stat.NumChildren)
	}
	_, err = s.Witness.Client().Set(s.Path, nil, -1)
	s.Must(err)
	s.release(c.lock()) // the value is as good as before
}

// firstUse counts the requests of the first two cycles of lock values. Their connection has been
// used before, so it knows how to read the token from a reply.
func firstUse(s *scene) {
	conn, p := s.BehindFor(quietSession)
	cycles := func() (counts [2]int64) {
		s.Helper()
		c := s.with(conn, p)
		for i := range counts {
			before := p.Seen(proxy.AnyOp)
			s.release(c.block())
			counts[i] = p.Seen(proxy.AnyOp) - before
		}
		return counts
	}
	dirs := int64(len(s.dirs()))
	made := cycles()
	s.wipe(s.dirs()...)
	if s.Dir != s.Path {
		s.wipe(s.Path)
	}
	s.makeDir(zk.WorldACL(zk.PermAll))
	exists := cycles()
	s.set(config)
	kept := cycles()
	second := [3]int64{made[1], exists[1], kept[1]}
	if want := [3]int64{2, 2, 2*dirs + 1}; second != want { // with data, the reply does not show the queue, so the lock lists
		s.Errorf("second use: %d requests, want %d", second, want)
	}
	first := [3]int64{made[0], exists[0], kept[0]}
	want := [3]int64{2 + 2*dirs, 2 + dirs, 3*dirs + 1} // exists, container, create, delete
	if s.Dir != s.Path {
		first, want = [3]int64{exists[0]}, [3]int64{2 + 3} // a semaphore reads its directory together with the number
	}
	if first != want {
		s.Errorf("first use: %d requests, want %d", first, want)
	}
}
