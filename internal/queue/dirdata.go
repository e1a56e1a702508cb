package queue

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/zkclient"
	"github.com/zklocks/zklocks/internal/znode"
)

// dirData is what a lock value knows about the data of its directory.
//
// The transaction that creates a waiter's node writes the directory's data, which stay empty. No
// other operation has a reply with the number of children, or changes a version that readers can
// check. But the data may be another program's, and then no write is harmless: even a write of the
// data that were read before would undo what the program has written since. So in a directory with
// data a waiter writes nothing. It checks in the transaction that the data still have the version
// that it has seen, and lists. The check is for readers: in a directory without data they rely on
// the writes of writers (view.check).
//
// To know whether there are data takes a read, at the first use. Later the version is known from
// the replies to the own writes, and each write requires it: the write fails if another client has
// written the data, or has created the directory again. Then the waiter reads again. Where several
// clients lock, or several callers of one value at once, most of these writes would fail. So for
// FirstRecheck after a lock value has noticed the write of another client, or a write of its own
// has failed, its writes require no version. Data that a program stores in this time are lost
// (docs/reference/wire-format.md).
type dirData struct{ now atomic.Pointer[dirState] }

// dirState is the directory's data as they were at the last answer. It is immutable.
type dirState struct {
	mzxid    int64
	version  int32
	size     int32
	seen     time.Time // when the answer arrived
	shared   time.Time // when it was last noticed that writes come from several callers
	old      bool      // the version may be another since then
	examined bool      // the data are not a semaphore's number
}

// current reports whether a create may rely on the state. After a while it may not: the server
// deletes the container of an idle lock, another program may create a node with data in its place,
// and its version may be the same one day.
func (s *dirState) current() bool {
	return s != nil && !s.old && time.Since(s.seen) < FirstRecheck
}

// saw records an answer that shows the directory. own is 1 if the request itself has written the
// data, and 0 if it has only read.
func (d *dirData) saw(stat *zk.Stat, own int32, examined bool) {
	d.change(func(s *dirState) *dirState {
		now := &dirState{mzxid: stat.Mzxid, version: stat.Version, size: stat.DataLength, seen: time.Now(), examined: examined}
		switch {
		case s == nil:
		case stat.Mzxid < s.mzxid: // an answer to another caller was later
			return s
		case stat.Version == s.version+own:
			now.shared, now.examined = s.shared, examined || s.examined
		default:
			now.shared = now.seen
		}
		return now
	})
}

// forget has the next create read the data first.
func (d *dirData) forget() {
	d.change(func(s *dirState) *dirState {
		old := *s
		old.old = true
		return &old
	})
}

// contended records that a write has failed because another came first, perhaps by another caller
// of this lock value.
func (d *dirData) contended() {
	d.change(func(s *dirState) *dirState {
		now := *s
		now.shared = time.Now()
		return &now
	})
}

func (d *dirData) change(change func(*dirState) *dirState) {
	for s := d.now.Load(); !d.now.CompareAndSwap(s, change(s)); s = d.now.Load() {
	}
}

// claimed records the result of claim i, which writes or checks the data; made is nil if it failed.
func (d *dirData) claimed(claim zkclient.Claim, made []zkclient.Claimed, i int) {
	switch {
	case made != nil && made[i].Dir != nil:
		d.saw(made[i].Dir, 1, false)
	case made == nil || claim.Touch: // the version is unknown
		d.forget()
	}
}

// Saw records an answer that shows the directory. It returns an error if the data are the number of
// permits of a semaphore, with whose holders the lock would not exclude itself.
func (q *Queue) Saw(ctx context.Context, stat *zk.Stat) error {
	s := q.data.now.Load()
	number := 0 < stat.DataLength && int(stat.DataLength) <= znode.MaxPermits
	if number && (s == nil || s.mzxid != stat.Mzxid || !s.examined) {
		data, now, err := q.client.Get(ctx, q.dir)
		switch {
		case err == zk.ErrNoNode:
			return nil // so there is nothing to keep
		case err != nil:
			return Explain(err, "READ on "+q.dir)
		case znode.Permits(data) > 0:
			return fmt.Errorf("%s is in use by a lock of another kind: it has a semaphore's number of permits (bytes of data: %d)", q.dir, len(data))
		}
		stat = now
	}
	q.data.saw(stat, 0, number)
	return nil
}

// keepData has a claim write the data of the directory if there are none, and otherwise check that
// they are unchanged. If that is unknown, it reads the directory first, or creates it.
func (q *Queue) keepData(ctx context.Context, sess int64, claim *zkclient.Claim) error {
	for {
		s := q.data.now.Load()
		if s.current() {
			claim.Version = s.version
			switch {
			case s.size > 0:
				claim.Touch, claim.Keep = false, true
			case time.Since(s.shared) < FirstRecheck:
				claim.Version = -1
			}
			return nil
		}
		stat, err := q.client.Stat(ctx, sess, q.dir)
		switch err {
		case nil:
			err = q.Saw(ctx, stat)
		case zk.ErrNoNode:
			err = q.makeDir(ctx)
		default:
			err = Explain(err, "READ on "+q.dir)
		}
		if err != nil {
			return err
		}
	}
}
