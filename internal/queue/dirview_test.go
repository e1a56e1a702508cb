package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/internal/test/venue"
	"github.com/zklocks/zklocks/internal/zkclient"
	"github.com/zklocks/zklocks/internal/znode"
)

// shares has a waiter create its node, which other readers may share.
func (x *testQueue) shares() *waiter {
	x.Helper()
	m := x.enter()
	m.request.Kind = m.nodes[0].Kind
	m.request.shared = &sharedNode{queue: x.queue}
	return m
}

// other creates a node of another client.
func (x *testQueue) other(kind znode.Kind) (path string) {
	x.Helper()
	path, err := x.witness.Client().Create(x.queue.dir+"/"+znode.Prefix(znode.NewID(), kind), nil, zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
	x.must(nil, err)
	return path
}

// shared is a queue that has readers and writers; its waiters are readers.
func shared(t *testing.T, v venue.Venue) *testQueue {
	x := newTestQueue(t, v, 10*time.Second)
	x.kind = znode.Read
	x.queue = newQueue(t, x.conn, x.queue.dir, with(Default(), rwNames))
	return x
}

// reads acquires and releases a read lock, as another lock value of the process does.
func (x *testQueue) reads() error {
	ctx, cancel := context.WithTimeout(x.Context(), time.Minute)
	defer cancel()
	g, err := x.queue.Join(ctx, Request{Kind: znode.Read, Nodes: 1, shared: &sharedNode{queue: x.queue}}, true)
	if err == nil {
		err = g.GiveUp(ctx)
	}
	return err
}

func (x *testQueue) looks(m *waiter) {
	x.Helper()
	x.queue.view.quiet.Store(true)
	if _, err := m.list(x.Context()); err != nil {
		x.Fatal(err)
	}
}

// writerIsTold waits until the watch for writers has fired.
func (x *testQueue) writerIsTold() {
	x.Helper()
	writers := x.queue.view.now.Load().writers
	x.until("it is told", func() bool { _, fired := writers.Fired(); return fired })
}

func (x *testQueue) reconnects(sess int64) {
	x.Helper()
	before := x.queue.client.Epoch()
	x.proxy.Cut()
	x.until("it is up again", func() bool {
		now := x.queue.client.Epoch()
		return now != before && x.queue.client.Up(sess)
	})
}

// Whatever may mean that a writer is queued behind the node ends the sharing. A reader needs no
// listing while an earlier one showed no writer, ahead or behind, and its watch has not fired.
func TestWhatAListingIsWorth(t *testing.T) {
	comes := func(x *testQueue) { x.must(x.witness.Client().Set(x.queue.dir, nil, -1)) }
	// listed has the waiter list, and another client act before the listing is recorded.
	listed := func(x *testQueue, m *waiter, meanwhile func(), watches bool) {
		m.epoch = x.queue.client.Epoch()
		line, dir, err := x.queue.list(x.Context(), m.sess)
		x.must(nil, err)
		meanwhile()
		var watch *zkclient.Watch
		if watches {
			watch = x.queue.watchWriters(x.Context(), m.sess)
		}
		x.queue.view.listed(m, line, dir, watch)
	}
	nothing := func() {}
	for name, c := range map[string]struct {
		happen func(*testQueue, *waiter)
		joins  bool // another reader may join the node
		none   bool // no writer is queued
	}{
		"before the first listing": {func(*testQueue, *waiter) {}, true, false},
		"after a listing":          {(*testQueue).looks, true, true},
		"a reader comes":           {func(x *testQueue, m *waiter) { x.looks(m); x.other(znode.Read) }, true, true},
		"a writer is ahead": {func(x *testQueue, m *waiter) {
			x.other(znode.Write)
			m.nodes = x.enter().nodes
			x.looks(m)
		}, true, false},
		"a writer comes":             {func(x *testQueue, m *waiter) { x.looks(m); comes(x); x.writerIsTold() }, false, false},
		"a writer is behind already": {func(x *testQueue, m *waiter) { x.other(znode.Write); x.looks(m) }, false, false},
		"a writer came between the listing and the watch": {func(x *testQueue, m *waiter) {
			listed(x, m, func() { x.other(znode.Write); comes(x) }, true)
		}, false, false},
		"there is no watch": {func(x *testQueue, m *waiter) { listed(x, m, nothing, false) }, false, false},
		"there is a watch of another listing": {func(x *testQueue, m *waiter) {
			x.looks(x.shares())
			listed(x, m, nothing, false)
		}, true, true},
		// The watch that is left does not fire. The create of a reader fails, see view.check.
		"there is a watch of a listing before a writer came of which no event tells": {func(x *testQueue, m *waiter) {
			x.looks(x.shares())
			x.must(x.witness.Client().SetACL(x.queue.dir, zk.WorldACL(zk.PermAll&^zk.PermRead), -1))
			comes(x)
			x.must(x.witness.Client().SetACL(x.queue.dir, zk.WorldACL(zk.PermAll), -1))
			listed(x, m, nothing, false)
		}, true, true},
		"there is no connection": {func(x *testQueue, m *waiter) {
			x.looks(m)
			x.proxy.Refuse()
			x.until("it is told", func() bool { return x.conn.State() != zk.StateHasSession })
		}, false, false},
		"the connection is another": {func(x *testQueue, m *waiter) { x.looks(m); x.reconnects(m.sess) }, false, false},
		"a listing on another connection": {func(x *testQueue, m *waiter) {
			x.queue.watchWriters(x.Context(), m.sess)
			x.reconnects(m.sess)
			x.looks(m)
		}, true, true},
		"the session ends": {func(x *testQueue, m *waiter) {
			x.looks(m)
			x.venue.Expire(x, x.conn)
			x.until("another session", func() bool { id := x.conn.Session(); return id != 0 && id != m.sess })
		}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			venue.InMemory(t, func(t *testing.T, v venue.Venue) {
				x := shared(t, v)
				m := x.shares()
				c.happen(x, m)
				if joins, none := m.request.shared.may() == yes, x.queue.view.noWriter() != nil; joins != c.joins || none != c.none {
					t.Errorf("another reader may join: %v, want %v; no writer: %v, want %v", joins, c.joins, none, c.none)
				}
				if v := x.queue.view.now.Load(); v != nil && v.writers != nil && v.writers.Stat.Mzxid != v.mzxid {
					t.Error("listing and watch have seen different versions")
				}
			})
		})
	}
}

// While the client may not read the directory, the server withholds the events of writers. So a
// watch that has not fired is not evidence that no writer has come.
func TestNoReaderBesideAWriterOfWhichNoEventTells(t *testing.T) {
	t.Parallel()
	for name, forever := range map[string]bool{"for a moment": false, "from then on": true} {
		t.Run(name, func(t *testing.T) {
			venue.InMemory(t, func(t *testing.T, v venue.Venue) {
				x := shared(t, v)
				for range 5 {
					x.must(nil, x.reads())
				}
				if lists := x.proxy.Seen(proxy.ListOp); lists != 3 {
					t.Fatalf("%d listings by five readers: it means nothing", lists)
				}
				x.must(x.witness.Client().SetACL(x.queue.dir, zk.WorldACL(zk.PermAll&^zk.PermRead), -1))
				x.other(znode.Write)
				x.must(x.witness.Client().Set(x.queue.dir, nil, -1))
				want := zk.ErrNoAuth
				if !forever {
					x.must(x.witness.Client().SetACL(x.queue.dir, zk.WorldACL(zk.PermAll), -1))
					want = context.DeadlineExceeded
				}
				for range 2 {
					if err := x.reads(); !errors.Is(err, want) {
						t.Errorf("beside a writer: %v, want %v", err, want)
					}
				}
				if forever {
					return
				}
				line, _, err := x.witness.Client().Children(x.queue.dir)
				x.must(nil, err)
				writer := slices.IndexFunc(line, func(name string) bool { return strings.Contains(name, "-write-") })
				x.must(nil, x.witness.Client().Delete(x.queue.dir+"/"+line[writer], -1)) // the node of a canceled reader may still exist
				before := x.proxy.Seen(proxy.ListOp)
				for range 3 {
					x.must(nil, x.reads())
				}
				if lists := x.proxy.Seen(proxy.ListOp) - before; lists != 1 {
					t.Errorf("%d listings by three readers after the writer", lists)
				}
			})
		})
	}
}

// The directory is deleted, and no event tells: the next reader makes it.
func TestAReaderMakesADirectoryOfWhoseDeletionNoEventTells(t *testing.T) {
	t.Parallel()
	venue.InMemory(t, func(t *testing.T, v venue.Venue) {
		x := shared(t, v)
		for range 3 {
			x.must(nil, x.reads())
		}
		if x.queue.view.noWriter() == nil {
			t.Fatal("each reader lists, so there is nothing to see")
		}
		x.blind(x.queue.dir, func() { x.must(nil, x.witness.Client().Delete(x.queue.dir, -1)) })
		v.Latency(time.Millisecond)
		before := x.proxy.Seen(proxy.CreateOp)
		if err := x.reads(); err != nil || x.proxy.Seen(proxy.CreateOp)-before > 3 {
			t.Errorf("%v, after %d creates", err, x.proxy.Seen(proxy.CreateOp)-before)
		}
	})
}

// While the client may not read the directory, it is deleted, as the server deletes an empty
// container, and created again. The new directory has the same version: as many writers have
// written its data. One of the writers is queued.
func TestNoReaderBesideAWriterInAnotherDirectoryOfWhichNoEventTells(t *testing.T) {
	t.Parallel()
	venue.InMemory(t, func(t *testing.T, v venue.Venue) {
		x := shared(t, v)
		x.must(x.witness.Client().Set(x.queue.dir, nil, -1)) // a writer that has gone
		for range 3 {
			x.must(nil, x.reads())
		}
		if x.queue.view.noWriter() == nil {
			t.Fatal("each reader lists, so there is nothing to see")
		}
		_, was, err := x.witness.Client().Get(x.queue.dir)
		x.must(nil, err)
		x.must(x.witness.Client().SetACL(x.queue.dir, zk.WorldACL(zk.PermAll&^zk.PermRead), -1))
		x.must(nil, x.witness.Client().Delete(x.queue.dir, -1))
		x.must(x.witness.Client().Create(x.queue.dir, nil, 0, zk.WorldACL(zk.PermAll)))
		x.other(znode.Write)
		for range was.Version {
			x.must(x.witness.Client().Set(x.queue.dir, nil, -1))
		}
		if err := x.reads(); !errors.Is(err, context.DeadlineExceeded) { // the check alone would pass, see view.check
			t.Errorf("beside a writer: %v, want %v", err, context.DeadlineExceeded)
		}
	})
}

// A reader that does not list needs evidence that the directory is still the same: as few
// transactions as the writers of another directory would take.
func TestAReaderListsAfterMoreTransactionsThanWriters(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ writers, others, lists int }{{0, 100, 0}, {8, 3, 0}, {8, 100, 1}} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			venue.InMemory(t, func(t *testing.T, v venue.Venue) {
				x := shared(t, v)
				for range c.writers {
					x.must(x.witness.Client().Set(x.queue.dir, nil, -1))
				}
				for range 4 {
					x.must(nil, x.reads())
				}
				for range c.others {
					x.must(x.witness.Client().Set("/", nil, -1))
				}
				before := x.proxy.Seen(proxy.ListOp)
				x.must(nil, x.reads())
				if lists := x.proxy.Seen(proxy.ListOp) - before; lists != int64(c.lists) {
					t.Errorf("%d listings, want %d", lists, c.lists)
				}
			})
		})
	}
}

// A writer comes and leaves while one reader lists, so its listing and its watch have seen
// different versions. The listing and the watch of another reader agree. The first listing must not
// replace the view of the second.
func TestAListingThatTellsNothingDoesNotEndTheSharing(t *testing.T) {
	for name, mixed := range map[string]bool{"listing and watch differ": true, "both are old": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			venue.InMemory(t, func(t *testing.T, v venue.Venue) {
				x := shared(t, v)
				slow, quick := x.shares(), x.shares()
				slow.epoch = x.queue.client.Epoch()
				line, dir, err := x.queue.list(x.Context(), slow.sess)
				x.must(nil, err)
				old := x.queue.watchWriters(x.Context(), slow.sess)
				x.must(x.witness.Client().Set(x.queue.dir, nil, -1))
				x.until("it is told", func() bool { _, fired := old.Fired(); return fired })
				x.looks(quick)
				if quick.request.shared.may() != yes {
					t.Fatal("nothing to see")
				}
				if mixed {
					old = x.queue.watchWriters(x.Context(), slow.sess)
				}
				x.queue.view.listed(slow, line, dir, old)
				if quick.request.shared.may() != yes {
					t.Error("no other reader joins the second reader's node, and no writer is there")
				}
			})
		})
	}
}

// A view by which readers join is dropped after FirstRecheck, and so is each later one.
func TestEachViewExpires(t *testing.T) {
	t.Parallel()
	venue.InMemory(t, func(t *testing.T, v venue.Venue) {
		x := shared(t, v)
		m := x.shares()
		for i := range 3 {
			x.looks(m)
			if m.request.shared.may() != yes {
				t.Fatalf("view %d: no reader joins, so there is nothing to see", i)
			}
			time.Sleep(FirstRecheck + time.Millisecond) // virtual
			if m.request.shared.may() == yes {
				t.Errorf("view %d: readers still join by it", i)
			}
		}
		// A view that replaces another before its time is over has a time of its own.
		for range 2 {
			x.looks(m)
			_ = m.request.shared.may()
			time.Sleep(FirstRecheck / 2) // virtual
		}
		time.Sleep(FirstRecheck / 2) // virtual: the time of the first is over
		_ = m.request.shared.may()
		time.Sleep(FirstRecheck + time.Millisecond) // virtual
		if m.request.shared.may() == yes {
			t.Error("readers still join by a view that has replaced another")
		}
	})
}
