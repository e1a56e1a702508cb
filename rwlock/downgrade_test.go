package rwlock_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/contract"
	"github.com/zklocks/zklocks/internal/test/locks"
	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/observe"
	"github.com/zklocks/zklocks/reentrant"
	"github.com/zklocks/zklocks/rwlock"
	"github.com/zklocks/zklocks/semaphore"
)

func TestDowngradeLetsReadersInAndNoWriter(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		c, r, w, late := direct(s), direct(s), direct(s), direct(s)
		h := c.write()
		lost, ctx, token, guard := h.Lost(), h.Context(s.Ctx), h.Token(), h.Guard()
		reader := r.waitRead(2)
		writer := w.waitWrite(3)
		last := late.waitRead(4)

		s.Must(c.Downgrade(s.Ctx, h))
		got := reader.Granted()
		for _, c := range []*client{w, late} {
			s.CatchUp(c.conn)
		}
		writer.Waits()
		last.Waits()
		if !h.Held() || contract.Closed(lost) || ctx.Err() != nil || h.Token() != token {
			s.Errorf("downgraded: held %v, lost %v, context %v, token %d after %d", h.Held(), contract.Closed(lost), ctx.Err(), h.Token(), token)
		}
		s.Must(h.Verify(s.Ctx))
		_, err := s.Witness.Client().Multi(guard...)
		s.Is(err, zk.ErrNoNode) // the guard of the write lock
		guard = h.Guard()
		_, err = s.Witness.Client().Multi(guard...)
		s.Must(err)
		q, err := c.Queue(s.Ctx)
		s.Must(err)
		if len(q) != 4 || q[0].Kind != observe.KindRead || q[2].Kind != observe.KindWrite || !q[0].Holding || !q[1].Holding || q[2].Holding || q[3].Holding {
			s.Fatalf("queue %+v", q)
		}
		// The hold keeps its token; the member has the token of the new node.
		if q[0].Token <= token || q[0].Token <= q[3].Token {
			s.Errorf("downgraded: the hold's token is %d, the queue shows %+v", token, q)
		}

		release(s, got)
		s.CatchUp(w.conn)
		writer.Waits() // waits for the reader that was a writer
		release(s, h)
		_, err = s.Witness.Client().Multi(guard...)
		s.Is(err, zk.ErrNoNode)
		wrote := writer.Granted()
		s.CatchUp(late.conn)
		last.Waits()
		release(s, wrote)
		release(s, last.Granted())
	})
}

// The holder downgrades between the writer's listing and its watch: the node to watch is gone, and
// another node has replaced it.
func TestDowngradeBeforeTheNextWriterWatches(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		c, w := direct(s), behind(s)
		h := c.write()
		ahead := s.Dir + "/" + test.Children(s, s.Witness.Client(), s.Dir)[0]
		watch := w.proxy.Where(func(r proxy.Request) bool {
			return r.Is(proxy.ReadOp) && slices.Contains(r.Paths, ahead)
		}, 1, proxy.HoldRequest)
		writer := w.waitWrite(2)
		s.Fired(watch)
		s.Must(c.Downgrade(s.Ctx, h))
		watch.Release()
		s.CatchUp(w.conn)
		writer.Waits()
		s.Must(h.Verify(s.Ctx))
		release(s, h)
		release(s, writer.Granted())
	})
}

func TestDowngradeOfWhatIsNotAWriteLock(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		c := direct(s)
		h := c.write()
		func() {
			defer func() {
				if recover() == nil {
					s.Error("no panic for a nil context")
				}
			}()
			var none context.Context
			_ = c.Downgrade(none, h)
		}()
		release(s, h)

		h = c.read()
		err := c.Downgrade(s.Ctx, h)
		if err == nil || !strings.HasPrefix(err.Error(), "rwlock: downgrade "+s.Path+": ") {
			s.Errorf("a read lock was downgraded: %v", err)
		}
		s.Must(h.Verify(s.Ctx))
		release(s, h)
		s.Is(c.Downgrade(s.Ctx, h), zklocks.ErrReleased)
	})
}

// Downgrade fails without a request, and does not change the hold.
func TestDowngradeOfAHoldOfAnotherLock(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		c := behind(s)
		other := *s
		other.Path, other.Dir = s.Path+"-other", s.Path+"-other"
		elsewhere := behind(&other)
		for name, lock := range map[string]zklocks.Locker{
			"another path":                       elsewhere,
			"another path, for reading":          elsewhere.RLocker(),
			"another value, on the same path":    c.with(),
			"another value, for reading":         c.with().RLocker(),
			"a reentrant lock, on the same path": reentrant.New(locks.On(c.conn), s.Path),
			"a semaphore":                        semaphore.New(locks.On(c.conn), s.Path+"-permits", 1).Locker(1),
		} {
			h, err := lock.Lock(s.Ctx)
			s.Must(err)
			node, before := contract.NodeOf(h), requests(c)
			err = c.Downgrade(s.Ctx, h)
			asked := requests(c) - before // Held sends a request in the background
			if err == nil || !strings.HasPrefix(err.Error(), "rwlock: downgrade "+s.Path+": ") || !strings.Contains(err.Error(), "not one of this lock") {
				s.Errorf("a hold of %s: %v", name, err)
			}
			if errors.Is(err, zklocks.ErrLost) || errors.Is(err, zklocks.ErrReleased) || !h.Held() || contract.NodeOf(h) != node {
				s.Errorf("a hold of %s has ended, or has changed: %v", name, err)
			}
			if asked != 0 {
				s.Errorf("a hold of %s: %d requests", name, asked)
			}
			s.Must(h.Verify(s.Ctx))
			release(s, h)
			if c.Downgrade(s.Ctx, h) == nil {
				s.Errorf("a hold of %s, released: no error", name)
			}
		}
		s.Is(c.Downgrade(s.Ctx, new(zklocks.Hold)), zklocks.ErrLost)
		release(s, c.write())
	})
}

// A server has dropped the transaction. When it is sent again, the node that its guard checks is
// gone.
func TestATransactionThatADowngradeOvertakes(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		c := behind(s)
		h := c.write()
		node := contract.NodeOf(h)
		made := &zk.CreateRequest{Path: s.Path + "-made", Acl: zk.WorldACL(zk.PermAll), Flags: zk.FlagEphemeral}
		thrown := c.proxy.Where(func(r proxy.Request) bool { return slices.Equal(r.Paths, []string{node, made.Path}) }, 1, proxy.Answer(-127))
		a := contract.Begin(s, s.Ctx, func(ctx context.Context) ([]zk.MultiResponse, error) { return h.Multi(ctx, made) })
		s.Fired(thrown)
		s.Must(c.Downgrade(s.Ctx, h))
		if replies := a.Granted(); len(replies) != 1 || replies[0].String != made.Path {
			s.Errorf("%+v", replies)
		}
		if _, stat, err := s.Witness.Client().Exists(made.Path); err != nil || stat.EphemeralOwner != c.conn.Session() {
			s.Errorf("made by %+v, %v", stat, err)
		}
		s.Must(h.Verify(s.Ctx))
		_, err := h.Multi(s.Ctx, &zk.DeleteRequest{Path: made.Path, Version: -1})
		s.Must(err)
		release(s, h)
	})
}

// downgrading begins a downgrade, and returns when a fault has met its request.
func (c *client) downgrading(h *zklocks.Hold, action proxy.Action) (*proxy.Fault, *contract.Attempt[any]) {
	c.Helper()
	f := c.proxy.Next(proxy.MoveOp, action)
	down := contract.Begin(c, c.Ctx, func(ctx context.Context) (any, error) { return nil, c.Downgrade(ctx, h) })
	c.Fired(f)
	return f, down
}

func TestDowngradeContinuesAfterItsContextIsCanceled(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		c, r := behind(s), direct(s)
		h := c.write()
		reader := r.waitRead(2)
		f, down := c.downgrading(h, proxy.HoldRequest)
		down.Stop()
		s.Is(down.Err, context.Canceled)
		f.Release()
		release(s, reader.Granted())
		s.Must(h.Verify(s.Ctx))
		release(s, h)
	})
}

// The write to the old node that wakes the waiters must not double the size of the transaction.
func TestDowngradeWithAsMuchDataAsANodeMayHave(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		data := make([]byte, 512<<10)
		c := direct(s).with(zklocks.WithData(data))
		h := c.write()
		s.Must(c.Downgrade(s.Ctx, h))
		q, err := c.Queue(s.Ctx)
		s.Must(err)
		if len(q) != 1 || q[0].Kind != observe.KindRead || len(q[0].Data) != len(data) {
			s.Errorf("in the queue: %d", len(q))
		}
		release(s, h)
	})
}

// Release hands the grant on during Downgrade: the grant of the next writer must remain a write
// lock.
func TestADowngradeDoesNotTouchANodeThatWasHandedOn(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		c, other := direct(s).with(rwlock.WithHandoff(100)), direct(s)
		h := c.write()
		next, last := c.queued(2), (*zklocks.Hold)(nil)
		s.Is(c.Downgrade(&hookedContext{Context: s.Ctx, onErr: func() { release(s, h); last = next[0].Granted() }}, h), zklocks.ErrReleased)
		if _, err := other.TryRLock(s.Ctx); !errors.Is(err, zklocks.ErrBusy) {
			s.Errorf("a reader beside a writer: %v", err)
		}
		s.Must(last.Verify(s.Ctx))
		token := last.Token()
		release(s, last)
		last = next[1].Granted()
		if last.Token() != token {
			s.Error("the place was taken out of the row")
		}
		release(s, last)
	})
}

// hookedContext calls onErr at the first call of its Err method.
type hookedContext struct {
	context.Context
	once  sync.Once
	onErr func()
}

func (c *hookedContext) Err() error {
	c.once.Do(c.onErr)
	return c.Context.Err()
}
