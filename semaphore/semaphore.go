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

// Semaphore is a number of permits for the whole cluster. It may be used by many goroutines at
// once; each call of Acquire queues separately. It remains usable after any error. It must not be
// copied. It has to be made by New: calls of the zero value return an error.
type Semaphore struct {
	_     slot.NoCopy
	queue *queue.Queue
	count *permitCount
}

// New returns the semaphore at path. It does no I/O: the first call reports bad arguments.
//
// The node at path has the number of permits; each permit that is held or waited for is a node in
// path/queue. The first caller stores the number. While the semaphore is in use, every later caller
// must give the same number; otherwise its calls fail with [ErrMismatch]. Some time after the last
// release the server deletes both nodes, like the directory of any lock. [WithStoredPermits] keeps
// the number. With permits == 0 any stored number is used, and there must be one. Once a Semaphore
// has read a stored number that it accepts, it follows [Semaphore.Resize].
func New(conn *zklocks.Conn, path string, permits int, opts ...Option) *Semaphore {
	cfg := config{Config: slot.Config(conn, "semaphore", path)}
	slot.Apply(opts, &cfg.Config, &cfg, option(nil))
	if cfg.Wrong = znode.ValidatePath(path); cfg.Wrong == nil && permits < 0 {
		cfg.Wrong = fmt.Errorf("%d permits: the number must be at least 1, or 0 for the stored one", permits)
	}
	count := &permitCount{path: cfg.Dir, queue: cfg.Dir + "/queue", acl: cfg.ACL, wanted: permits, agreed: cfg.stored, keep: cfg.stored}
	cfg.Dir, cfg.Names, cfg.Parent = count.queue, queue.Names{{Kind: znode.Permit, Mode: queue.Permit}}, count.made
	s := &Semaphore{queue: queue.New(cfg.Config), count: count}
	count.client, count.saw = s.queue.Client(), s.queue.Saw
	return s
}

// Acquire takes n permits, all or none. It queues in the order of arrival, and waits until ctx is
// canceled. ctx bounds only the wait, not the hold. Later callers never overtake it, even if they
// ask for fewer permits. The wait continues through lost connections. If the session expires, the
// caller queues again, at the tail.
//
// If Acquire fails, it holds no permit and deletes its nodes, in the background if ctx is canceled.
// If the client lacks the right DELETE, the nodes remain until the right is back or the session
// ends. The error
//   - matches ctx's error, zk.ErrClosing if the connection was closed, or zk.ErrNoAuth if a right
//     is missing;
//   - matches [ErrMismatch], or [ErrTooMany] if n is greater than the number of permits, also if
//     that number shrinks below n during the wait;
//   - or says what is wrong with n, the arguments of New, or the queue: its sequence numbers or a
//     quota are used up, or a lock of another kind uses it.
func (s *Semaphore) Acquire(ctx context.Context, n int) (*zklocks.Hold, error) {
	return s.take(ctx, "acquire", n, true)
}

// TryAcquire is Acquire without waiting: if fewer than n permits are free, or callers wait for
// them, the error matches [zklocks.ErrBusy]. TryAcquire reads before it writes, from one server,
// which may lag behind the others.
func (s *Semaphore) TryAcquire(ctx context.Context, n int) (*zklocks.Hold, error) {
	return s.take(ctx, "try acquire", n, false)
}

// Locker returns n permits as a [zklocks.Locker]: its Lock is Acquire, its TryLock is TryAcquire.
func (s *Semaphore) Locker(n int) zklocks.Locker {
	l := &locker{s: s.made(), n: n}
	slot.PutPart(&l.lockSlot, l, l.part)
	return l
}

type locker struct {
	lockSlot
	s *Semaphore
	n int
}

type lockSlot = slot.Lock

func (l *locker) Lock(ctx context.Context) (*zklocks.Hold, error)    { return l.s.Acquire(ctx, l.n) }
func (l *locker) TryLock(ctx context.Context) (*zklocks.Hold, error) { return l.s.TryAcquire(ctx, l.n) }

func (l *locker) part() queue.Part {
	request, err := l.s.request(l.n)
	return queue.Part{Queue: l.s.queue, Request: request, Ready: func(context.Context) error { return err }}
}

// made returns s. If New has not made it, it returns a value whose calls all fail.
func (s *Semaphore) made() *Semaphore {
	if s == nil || s.queue == nil {
		s = &Semaphore{queue: queue.Unmade("semaphore: Semaphore"), count: new(permitCount)}
	}
	return s
}

func (s *Semaphore) take(ctx context.Context, op string, n int, wait bool) (*zklocks.Hold, error) {
	s = s.made()
	request, err := s.request(n)
	call := s.queue.Call(ctx, request)
	var grant *queue.Grant
	if err == nil {
		grant, err = s.queue.Join(ctx, request, wait)
	}
	if err != nil {
		return nil, s.queue.Fail(call, op, err)
	}
	return slot.Give(new(slot.Held[zklocks.Hold]), grant, s.queue, nil, call), nil
}

func (s *Semaphore) request(n int) (queue.Request, error) {
	r := queue.Request{
		Kind: znode.Permit, Nodes: n,
		Limit:   func(ctx context.Context, sess int64) (queue.Limit, error) { return s.limit(ctx, sess, n) },
		Checked: s.count.path,
	}
	if err := s.queue.Invalid(); err != nil {
		return r, err
	}
	if n < 1 {
		return r, fmt.Errorf("n is %d, it must be at least 1", n)
	}
	return r, s.count.fits(n)
}

// limit allows at most permits-n nodes ahead, of any callers. One transaction creates the n nodes
// of a call, so their sequence numbers are consecutive, and they are granted together. So two
// callers never block each other with half of the permits that they need. The algorithm follows the
// ZooKeeper recipes and Curator's InterProcessSemaphoreV2, which takes several leases one by one.
func (s *Semaphore) limit(ctx context.Context, sess int64, n int) (queue.Limit, error) {
	count, err := s.count.read(ctx, sess, n)
	if err != nil {
		return queue.Limit{}, err
	}
	limit := queue.Limit{AllowedAhead: count.permits - n, Missing: count.missing}
	if count.missing == 2 {
		limit.Made = func() { s.count.agree(count.permits) }
	} else {
		limit.Check = &zk.CheckVersionRequest{Path: s.count.path, Version: count.version}
		limit.Changed, limit.Dir, limit.Forget = count.watch, count.queue, func() { s.count.forget(count) }
	}
	return limit, nil
}

func tooMany(n, permits int) error {
	return fmt.Errorf("%w: n is %d, but there are only %d permits", ErrTooMany, n, permits)
}

// Resize stores another number of permits, at least 1. Waiters follow the new number. Holders keep
// their permits: if the number shrinks, more permits may be held than there are, until enough
// holders have released. A waiter that asks for more than the new number gets an error.
//
// The new number is kept exactly if the old number was: see [New] and [WithStoredPermits]. If no
// number is stored yet, the new number is kept.
//
// Resize returns ctx's error if there was no answer; the number may have been stored, or may still
// be. It returns [ErrMismatch] if the node at path has other data than a number, or is empty and a
// lock of another kind uses it. Other errors are zk.ErrClosing; zk.ErrNoAuth; and what is wrong
// with permits or the arguments of New.
func (s *Semaphore) Resize(ctx context.Context, permits int) error {
	s = s.made()
	return s.queue.Wrap("resize", s.resize(ctx, permits))
}

func (s *Semaphore) resize(ctx context.Context, permits int) error {
	if err := s.queue.Invalid(); err != nil {
		return err
	}
	if permits < 1 {
		return fmt.Errorf("%d permits: the number must be at least 1", permits)
	}
	if err := zkclient.Ended(ctx); err != nil {
		return err
	}
	return s.count.write(ctx, permits)
}

// Queue lists the holders of permits and the waiters in queue order. It reads from one server, so
// the list may be out of date: it is for people and dashboards. It accepts any stored number. The error
// matches ctx's error, zk.ErrClosing, zk.ErrNoAuth or [ErrMismatch], or says what is wrong with the
// arguments of New.
//
// A holder's node looks like a waiter's: Holding means that the node is within the first N permits,
// where N is the stored number. After a Resize to fewer permits, a holder beyond the new number
// still holds. Queue lists it as not Holding until enough holders ahead of it have released.
func (s *Semaphore) Queue(ctx context.Context) ([]zklocks.Member, error) {
	s = s.made()
	members, err := s.queue.Members(ctx, s.count.peek)
	return slot.Members(members, func(m queue.Member) zklocks.Member { return zklocks.Member(m) }), err
}
