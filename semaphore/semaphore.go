package semaphore

import (
	"context"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/queue"
	"github.com/zklocks/zklocks/internal/slot"
	"github.com/zklocks/zklocks/internal/zkclient"
	"github.com/zklocks/zklocks/internal/znode"
)

// Semaphore is a number of permits for the whole cluster. It may be used by many
// goroutines at once; each call of Acquire stands in line by itself. It stays
// usable after any error. It must not be copied.
type Semaphore struct {
	path  string
	queue *queue.Queue
	count *permitCount
	err   error // what is wrong with the arguments of New
}

// New returns the semaphore at path. It does no I/O: bad arguments are reported
// by the first call.
//
// The node at path holds the number of permits and stays; the permits that are
// held or waited for are nodes in path/queue. Whoever comes first stores the
// number, everybody else must ask for the same one or gets [ErrMismatch].
// With permits == 0 the stored number is used, whatever it is, and there must be one; see also [WithStoredPermits].
// Once a Semaphore has agreed with the stored number it follows [Semaphore.Resize].
func New(conn *zklocks.Conn, path string, permits int, opts ...Option) *Semaphore {
	s := &Semaphore{path: path}
	if conn == nil {
		s.err = slot.ErrNoConn
		return s
	}
	cfg := config{Config: slot.Defaults(conn)}
	for _, opt := range opts {
		switch set := opt.(type) {
		case slot.Common:
			set(&cfg.Config)
		case option:
			set(&cfg)
		}
	}
	if s.err = znode.ValidatePath(path); s.err != nil {
		return s
	}
	if permits < 0 {
		s.err = fmt.Errorf("%d permits: the number must be at least 1, or 0 for the stored one", permits)
		return s
	}
	full := slot.Path(conn, path)
	s.count = &permitCount{path: full, queue: full + "/queue", acl: cfg.ACL, wanted: permits, agreed: cfg.stored}
	cfg.Path, cfg.Names, cfg.MakeDir = path, queue.Names{{Kind: znode.Permit, Mode: queue.Permit}}, s.count.makeQueue
	if s.queue, s.err = queue.New(slot.Client(conn), full+"/queue", cfg.Config); s.err == nil {
		s.count.client = s.queue.Client()
	}
	return s
}

// Acquire takes n permits, all or none. It waits for its turn, in the order of
// arrival, as long as ctx lives; ctx bounds the wait only, never the hold. A
// caller that asks for many is not overtaken by later ones that ask for few. The
// wait goes on through lost connections, and through an expiry of the session,
// after which it queues again at the tail.
//
// On failure nothing is held and nothing is left in line. The error matches
// ctx's error; [ErrMismatch]; zk.ErrClosing when the connection was closed;
// zk.ErrNoAuth when a right is missing; or says what is wrong: with the arguments
// of New; n < 1; [ErrTooMany] when n is greater than the number of permits, also when that shrinks
// below n during the wait; or that the sequence numbers of the queue are used up.
func (s *Semaphore) Acquire(ctx context.Context, n int) (*zklocks.Hold, error) {
	return s.take(ctx, "acquire", (*queue.Queue).Wait, n)
}

// TryAcquire is Acquire for those who do not want to wait: when fewer than n
// permits are free, or others stand in line for them, the error matches
// [zklocks.ErrBusy]. It looks before it writes, and what it sees may be as old as the
// server it asks is behind the others.
func (s *Semaphore) TryAcquire(ctx context.Context, n int) (*zklocks.Hold, error) {
	return s.take(ctx, "try acquire", (*queue.Queue).Try, n)
}

// Locker returns n permits as a [zklocks.Locker]: its Lock is Acquire, its TryLock is TryAcquire.
func (s *Semaphore) Locker(n int) zklocks.Locker { return locker{s, n} }

type locker struct {
	s *Semaphore
	n int
}

func (l locker) Lock(ctx context.Context) (*zklocks.Hold, error)    { return l.s.Acquire(ctx, l.n) }
func (l locker) TryLock(ctx context.Context) (*zklocks.Hold, error) { return l.s.TryAcquire(ctx, l.n) }

type acquire func(*queue.Queue, context.Context, queue.Request) (*queue.Grant, error)

func (s *Semaphore) take(ctx context.Context, op string, how acquire, n int) (*zklocks.Hold, error) {
	if s.err != nil {
		return nil, s.wrap(op, s.err)
	}
	if n < 1 {
		return nil, s.wrap(op, fmt.Errorf("n is %d, it must be at least 1", n))
	}
	if err := s.count.fits(n); err != nil {
		return nil, s.wrap(op, err)
	}
	events := s.queue.NewEvents()
	grant, err := how(s.queue, ctx, queue.Request{
		Kind: znode.Permit, Nodes: n,
		Limit: func(ctx context.Context, sess int64) (queue.Limit, error) { return s.limit(ctx, sess, n) },
	})
	if err != nil {
		return nil, s.wrap(op, err)
	}
	events.Granted(grant)
	h := &held{Grant: grant, semaphore: s, events: events}
	slot.Put(&h.public, h)
	return &h.public, nil
}

// limit lets at most permits-n nodes be ahead, of any callers. The n nodes of one call are created in one transaction and have
// numbers in a row, and the last may go when the first may: all or nothing, first come, first served. So two callers never
// starve each other with half of what they need. After the ZooKeeper recipes and Curator's InterProcessSemaphoreV2, which takes
// several leases one by one.
func (s *Semaphore) limit(ctx context.Context, sess int64, n int) (queue.Limit, error) {
	count, err := s.count.read(ctx, sess)
	if err != nil {
		return queue.Limit{}, err
	}
	if n > count.permits {
		return queue.Limit{}, tooMany(n, count.permits)
	}
	return queue.Limit{
		AllowedAhead: count.permits - n,
		Check:        &zk.CheckVersionRequest{Path: s.count.path, Version: count.version},
		Changed:      count.watch,
		Dir:          count.queue,
		Forget:       func() { s.count.forget(count) },
	}, nil
}

func tooMany(n, permits int) error {
	return fmt.Errorf("%w: n is %d, but there are only %d permits", ErrTooMany, n, permits)
}

// Resize stores another number of permits, at least 1. Those who wait notice.
// Holders keep what they have; so when the number shrinks, more may be held than
// there are permits, until those leave who were entitled before. A waiter that
// asks for more than there are now gets an error.
//
// The errors are ctx's; [ErrMismatch] if the node at path holds something that
// is no number of permits; zk.ErrClosing; zk.ErrNoAuth.
func (s *Semaphore) Resize(ctx context.Context, permits int) error {
	if s.err != nil {
		return s.wrap("resize", s.err)
	}
	if permits < 1 {
		return s.wrap("resize", fmt.Errorf("%d permits: the number must be at least 1", permits))
	}
	if err := zkclient.Ended(ctx); err != nil {
		return s.wrap("resize", err)
	}
	return s.wrap("resize", s.count.write(ctx, permits))
}

// wrap puts the package, the operation and the path in front of an error.
func (s *Semaphore) wrap(op string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("semaphore: %s %s: %w", op, s.path, err)
}
