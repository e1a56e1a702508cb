package contract

import (
	"fmt"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/internal/znode"
)

var data = []scenario{
	{"data that another program stored in the directory stay", dataStay, 0},
	{"data that come and go after the first use", dataComeAndGo, 0},
	{"a lock on a semaphore's path fails and keeps the number", semaphoresPath, single},
	{"the first use of a directory costs a read", firstUse, inMemory}, // a real server may delete the container between two cycles
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

// ours reports whether no other library uses the names of the recipe's nodes: then the recipe
// accepts no directory with data.
func (s *scene) ours() bool {
	s.Helper()
	return znode.Kind(s.word()[1:]).Ours()
}

func dataStay(s *scene) {
	ours := s.ours()
	s.move(s.Path + "-stored") // the server may be about to delete the directory
	s.store()
	if !ours {
		s.used(s.client(), s.behind())
		s.stored(1)
		return
	}
	c := s.client()
	for range 2 {
		for _, call := range []lockFunc{c.Lock, c.TryLock, c.Block, s.client().TryLock, s.client().Lock} {
			err := c.begin(call).Failed()
			if says := fmt.Sprint(err); !strings.Contains(says, s.Dir+" is in use by another program") || !strings.Contains(says, fmt.Sprint("bytes of data: ", len(config))) {
				s.Errorf("error %q", says)
			}
		}
	}
	for _, dir := range s.dirs() {
		if _, stat, err := s.Witness.Client().Exists(dir); err != nil || stat.Cversion != 0 {
			s.Errorf("%s had children: %+v, %v", dir, stat, err)
		}
	}
	s.stored(1)
	for _, dir := range s.dirs() {
		_, err := s.Witness.Client().Set(dir, nil, -1)
		s.Must(err)
	}
	s.release(c.lock()) // the value is as good as before
}

// dataComeAndGo: values that have used the directory without data go on to exclude each other,
// whatever another program stores there.
func dataComeAndGo(s *scene) {
	s.makeDir(zk.WorldACL(zk.PermAll))
	a, b, c := s.client(), s.client(), s.client()
	for range 3 { // so that readers know that there is no writer
		for _, c := range []*client{a, b, c} {
			s.release(c.lock())
		}
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
	s.set(config)
	s.used(a, b)
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
	ours := s.ours()
	s.wipe(s.dirs()...)
	if s.Dir != s.Path {
		s.wipe(s.Path)
	}
	made := cycles()
	s.wipe(s.dirs()...)
	if s.Dir != s.Path {
		s.wipe(s.Path)
	}
	s.makeDir(zk.WorldACL(zk.PermAll))
	exists := cycles()
	want := [2]int64{2 + dirs, 2 + dirs} // exists, create, delete: the create makes the directory, too
	if s.Dir != s.Path {
		// A semaphore reads the number twice, and its directory. What it makes it reads when it uses it again.
		want[1], made[1] = 2+3, made[1]-3
	}
	if made[1] != 2 || exists[1] != 2 {
		s.Errorf("second use: %d and %d requests, want 2", made[1], exists[1])
	}
	if first := [2]int64{made[0], exists[0]}; first != want {
		s.Errorf("first use: %d requests, want %d", first, want)
	}
	if ours {
		return
	}
	s.set(config)
	if kept, want := cycles(), [2]int64{3*dirs + 1, 2*dirs + 1}; kept != want { // the reply does not show the queue, so the lock lists
		s.Errorf("with data: %d requests, want %d", kept, want)
	}
}
