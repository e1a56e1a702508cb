package rwlock

import (
	"context"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/queue"
	"github.com/zklocks/zklocks/internal/slot"
	"github.com/zklocks/zklocks/internal/znode"
)

// RWMutex is a shared/exclusive lock of the whole cluster: many callers may hold it for reading, or
// one for writing. It may be used by many goroutines at once; each call of Lock or RLock is a
// separate waiter. It remains usable after any error. It must not be copied. It has to be made by
// New: calls of the zero value return an error.
type RWMutex struct {
	lockSlot
	queue  *queue.Queue
	kinds  kinds
	reads  *queue.Callers
	writes *queue.Callers
	reader rlocker
}

type lockSlot = slot.Lock

// New returns the lock at path. The path must be a directory for this lock alone; it is created
// when it is first needed. If the node at path has data when the value is first used, calls return
// an error, and the data stay. With the names of Curator or kazoo only the number of permits of a
// semaphore is an error; other data stay, and each lock takes one more request. New does no I/O:
// the first call reports bad arguments. Use one value for a path in a process: the readers of one
// value share a node, and the readers of two values do not.
func New(conn *zklocks.Conn, path string, opts ...Option) *RWMutex {
	cfg := config{Config: slot.Config(conn, "rwlock", path), kinds: ours}
	slot.Apply(opts, &cfg.Config, &cfg, option(nil))
	cfg.Names, cfg.Persistent, cfg.Wrong = cfg.kinds.names(), cfg.kinds == kazoo, cfg.wrong()
	m := &RWMutex{queue: queue.New(cfg.Config), kinds: cfg.kinds}
	m.reader.m = m
	slot.PutPart(&m.lockSlot, m, m.writePart)
	slot.PutPart(&m.reader.lockSlot, &m.reader, m.readPart)
	m.reads = m.queue.NewCallers(request(m.kinds.read), cfg.reads())
	m.writes = m.queue.NewCallers(request(m.kinds.write), queue.Sharing{Passes: cfg.handoff, MaxIdle: cfg.maxIdle})
	return m
}

func request(kind znode.Kind) queue.Request { return queue.Request{Kind: kind, Nodes: 1} }

// kinds are the words in the names of the nodes of readers and writers. The conflicts are as in the
// ZooKeeper recipe "Shared Locks". There, and in Curator, a reader watches the first writer in the
// queue. Here it watches the nearest writer ahead, so that a release wakes only the waiters that
// can be granted.
type kinds struct{ read, write znode.Kind }

var (
	ours    = kinds{znode.Read, znode.Write}
	curator = kinds{znode.CuratorRead, znode.CuratorWrite}
	kazoo   = kinds{znode.KazooRead, znode.KazooLock}
)

func (k kinds) names() queue.Names {
	write := queue.Write
	if k == curator {
		write = queue.CuratorWrite
	}
	return queue.Names{{Kind: k.read, Mode: queue.Read}, {Kind: k.write, Mode: write}}
}

// Lock acquires the lock for writing. It queues in the order of arrival, and waits until no other
// caller holds the lock or ctx is canceled. ctx bounds only the wait, not the hold. The wait
// continues through lost connections. If the session expires, the caller queues again, at the tail.
//
// If Lock fails, it holds nothing and deletes its node, in the background if ctx is canceled. If
// the client lacks the right DELETE, the node remains until the right is back or the session ends.
// The error
//   - matches ctx's error, zk.ErrClosing if the connection was closed, or zk.ErrNoAuth if a right
//     is missing;
//   - or says what is wrong with the arguments of New or with the directory: it is ephemeral, its
//     sequence numbers or a quota are used up, or a lock of another kind uses it.
func (m *RWMutex) Lock(ctx context.Context) (*zklocks.Hold, error) {
	m = m.made()
	return m.take(ctx, "lock", m.kinds.write, m.writes, m.reads, true)
}

// TryLock is Lock without waiting: if another caller holds the lock or waits for it, the error
// matches [zklocks.ErrBusy]. TryLock reads before it writes, from one server, which may lag behind
// the others; with [WithMaxIdle] it queues for a moment.
func (m *RWMutex) TryLock(ctx context.Context) (*zklocks.Hold, error) {
	m = m.made()
	return m.take(ctx, "try lock", m.kinds.write, m.writes, m.reads, false)
}

// RLock acquires the lock for reading. It waits while a writer holds the lock or is queued ahead;
// otherwise it is like [RWMutex.Lock]. A later writer never overtakes a reader, and a reader never
// overtakes a writer whose announcement has arrived. Readers of one value that call RLock before
// the first listing of the queue is answered count as one arrival.
//
// There is no upgrade from reading to writing: two readers that requested it would wait for each
// other forever. Call Release and then Lock.
func (m *RWMutex) RLock(ctx context.Context) (*zklocks.Hold, error) {
	m = m.made()
	return m.take(ctx, "read lock", m.kinds.read, m.reads, m.writes, true)
}

// TryRLock is RLock without waiting: if a writer holds the lock or waits for it, the error matches
// [zklocks.ErrBusy]. Like [RWMutex.TryLock] it reads before it writes.
func (m *RWMutex) TryRLock(ctx context.Context) (*zklocks.Hold, error) {
	m = m.made()
	return m.take(ctx, "try read lock", m.kinds.read, m.reads, m.writes, false)
}

// RLocker returns the lock for reading as a [zklocks.Locker]: its Lock is RLock, its TryLock is
// TryRLock.
func (m *RWMutex) RLocker() zklocks.Locker { return &m.made().reader }

type rlocker struct {
	lockSlot
	m *RWMutex
}

func (l *rlocker) Lock(ctx context.Context) (*zklocks.Hold, error)    { return l.m.RLock(ctx) }
func (l *rlocker) TryLock(ctx context.Context) (*zklocks.Hold, error) { return l.m.TryRLock(ctx) }

// writePart and readPart describe the lock to zklocks.All. A caller that acquires several locks has
// its own node: it does not share a node or receive a handoff.
func (m *RWMutex) writePart() queue.Part { return m.part(m.kinds.write) }
func (m *RWMutex) readPart() queue.Part  { return m.part(m.kinds.read) }

func (m *RWMutex) part(kind znode.Kind) queue.Part {
	return queue.Part{Queue: m.queue, Request: request(kind), Ready: func(ctx context.Context) error {
		m.reads.EndIdle(ctx)
		m.writes.EndIdle(ctx)
		return nil
	}}
}

// made returns m. If New has not made it, it returns a value whose calls all fail.
func (m *RWMutex) made() *RWMutex {
	if m == nil || m.queue == nil {
		m = &RWMutex{queue: queue.Unmade("rwlock: RWMutex")}
		m.reads = m.queue.NewCallers(queue.Request{}, queue.Sharing{})
		m.writes = m.reads
	}
	return m
}

// take acquires the lock as one of the callers mine. An idle grant of the others would be ahead.
func (m *RWMutex) take(ctx context.Context, op string, kind znode.Kind, mine, others *queue.Callers, wait bool) (*zklocks.Hold, error) {
	call := m.queue.Call(ctx, request(kind))
	others.EndIdle(ctx)
	grant, by, err := mine.Acquire(ctx, wait)
	if err != nil {
		return nil, m.queue.Fail(call, op, err)
	}
	return slot.Give(new(slot.Held[zklocks.Hold]), grant, m.queue, by, call), nil
}

// Queue lists the holders of the lock and the waiters in queue order. It reads from one server, so
// the list may be out of date: it is for people and dashboards. The error matches ctx's error,
// zk.ErrClosing or zk.ErrNoAuth, or says what is wrong with the arguments of New.
func (m *RWMutex) Queue(ctx context.Context) ([]zklocks.Member, error) {
	members, err := m.made().queue.Members(ctx, nil)
	return slot.Members(members, func(m queue.Member) zklocks.Member { return zklocks.Member(m) }), err
}
