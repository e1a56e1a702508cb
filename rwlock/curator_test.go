package rwlock_test

import (
	"regexp"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/zktest"
	"github.com/zklocks/zklocks/internal/zktest/contract"
	"github.com/zklocks/zklocks/rwlock"
)

var curatorName = regexp.MustCompile(`^_c_[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}-__(READ|WRIT)__\d{10}$`)

func TestCuratorNames(t *testing.T) {
	s := newStage(t)
	a, b := direct(s).with(rwlock.WithCuratorNames()), direct(s).with(rwlock.WithCuratorNames())
	first, second := a.read(), a.read()
	s.InLine(2) // reads are not shared
	writer := b.waitWrite(3)
	late := a.waitRead(4)
	for _, name := range zktest.Children(s, s.Witness, s.Dir) {
		if !curatorName.MatchString(name) {
			t.Errorf("node %q", name)
		}
	}
	q, err := b.Queue(s.Ctx)
	s.Must(err)
	for i, want := range []struct{ write, holding bool }{{false, true}, {false, true}, {true, false}, {false, false}} {
		if q[i].Write != want.write || q[i].Holding != want.holding {
			t.Errorf("member %d: %+v", i, q[i])
		}
	}
	unlock(s, first)
	unlock(s, second)
	h := writer.Granted()
	_, err = a.TryRLock(s.Ctx)
	s.Is(err, rwlock.ErrBusy)
	s.Must(h.Downgrade(s.Ctx))
	beside := late.Granted()
	_, err = b.TryLock(s.Ctx)
	s.Is(err, rwlock.ErrBusy)
	unlock(s, beside)
	unlock(s, h)
	unlock(s, a.write())
	s.Empty()
}

// A node of Curator's is waited for, one of ours is not: two names, two locks.
func TestCuratorNamesStandInALineOfTheirOwn(t *testing.T) {
	s := newStage(t)
	plain := direct(s)
	c := plain.with(rwlock.WithCuratorNames())
	h := plain.write()
	unlock(s, c.write())

	theirs, err := s.Witness.Create(s.Dir+"/_c_1b671a64-40d5-491e-99b0-da01ff1f3341-__READ__", nil, zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
	s.Must(err)
	unlock(s, h) // not before, for an empty directory may go at any time
	unlock(s, c.read())
	writer := c.waitWrite(2)
	unlock(s, plain.write())
	writer.Waits()
	s.Must(s.Witness.Delete(theirs, -1))
	unlock(s, writer.Granted())
	s.Empty()
}

func TestCuratorNamesDoNotGoTogetherWithLinger(t *testing.T) {
	s := newStage(t)
	c := direct(s).with(rwlock.WithCuratorNames(), rwlock.WithReadLinger(time.Second))
	if contract.Begin(t, s.Ctx, c.RLock).Failed() == nil {
		t.Error("no error")
	}
	s.EmptyNow()
}
