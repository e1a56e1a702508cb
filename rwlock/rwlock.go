package rwlock

import (
	"context"
	"fmt"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/hold"
	"github.com/zklocks/zklocks/internal/queue"
	"github.com/zklocks/zklocks/internal/slot"
	"github.com/zklocks/zklocks/internal/znode"
)

// RWMutex is a shared/exclusive lock of the whole cluster: many may hold it for
// reading, or one for writing. It may be used by many goroutines at once; each
// call of Lock or RLock stands in line by itself. It stays usable after any
// error. It must not be copied.
type RWMutex struct {
	path   string
	line   *queue.Line
	kinds  kinds
	reads  reads
	writes chain
	err    error // what is wrong with the arguments of New
}

// New returns the lock at path, a directory of its own that is made when it is
// first needed. It does no I/O: bad arguments are reported by the first call. Use one value for a path in a
// process: the readers of one value share a node, those of two do not.
func New(conn *zklocks.Conn, path string, opts ...Option) *RWMutex {
	m := &RWMutex{path: path}
	if conn == nil {
		m.err = slot.ErrNoConn
		return m
	}
	cfg := config{Config: slot.Defaults(conn), kinds: ours}
	for _, opt := range opts {
		switch set := opt.(type) {
		case slot.Common:
			set(&cfg.Config)
		case option:
			set(&cfg)
		}
	}
	m.kinds, m.err = cfg.kinds, cfg.wrong()
	if m.err == nil {
		m.line, m.err = queue.NewLine(slot.Client(conn), slot.Path(conn, path), cfg.Config, cfg.kinds.read, cfg.kinds.write)
	}
	if m.err == nil {
		m.line.NamedBy(path)
	}
	if m.err == nil && m.kinds == kazoo {
		m.line.Stay()
	}
	m.reads = reads{line: m.line, kind: m.kinds.read, alone: m.kinds != ours, linger: cfg.linger}
	m.reads.calm.Always = cfg.linger > 0 // to stay one has to know that nobody waits
	m.writes = chain{line: m.line, kind: m.kinds.write, limit: cfg.handoff}
	return m
}

// The two rules of the lock, see the ZooKeeper recipes, "Shared Locks". Curator's
// read lock watches the first writer in line; here it is the nearest ahead, so
// that a release wakes only those who may go.
var (
	// writeRule waits for everybody ahead.
	writeRule = queue.Rule{Blocks: func(znode.Node) bool { return true }, Together: isRead, Alone: isWrite, Replaced: mayRead}
	// readRule waits for the writers ahead.
	readRule = queue.Rule{Blocks: isWrite, Alone: isWrite}
)

// A writer announces itself by touching the directory. A reader does not, so
// readers that come and go wake nobody.
func writeEntry(kind znode.Kind) queue.Entry {
	return queue.Entry{Kind: kind, Nodes: 1, Announce: true, Alone: true, Terms: queue.Fixed(writeRule)}
}

func readEntry(kind znode.Kind) queue.Entry {
	return queue.Entry{Kind: kind, Nodes: 1, Terms: queue.Fixed(readRule)}
}

// kinds are the words by which the nodes of readers and writers are known.
type kinds struct{ read, write znode.Kind }

var (
	ours    = kinds{znode.Read, znode.Write}
	curator = kinds{znode.CuratorRead, znode.CuratorWrite}
	kazoo   = kinds{znode.KazooRead, znode.KazooLock}
)

func isWrite(n znode.Node) bool {
	return n.Kind == ours.write || n.Kind == curator.write || n.Kind == kazoo.write
}

func isRead(n znode.Node) bool {
	return n.Kind == ours.read || n.Kind == curator.read || n.Kind == kazoo.read
}

// mayRead reports whether a writer that has gone may have become a reader in the
// same place. Ours tell those who watch them, see zkclient.Client.Replace; Curator's,
// which have the same names as some of ours, do not; kazoo has no downgrade.
func mayRead(gone znode.Node, seen bool) bool {
	return isWrite(gone) && (gone.Kind == curator.write || !seen)
}

// Lock takes the lock for writing. It waits until nobody else holds the lock, in
// the order of arrival, as long as ctx lives; ctx bounds the wait only, never
// the hold. The wait goes on through lost connections, and through an expiry of
// the session, after which it queues again at the tail.
//
// On failure nothing is held and nothing is left in line, and the error matches
// ctx's error; zk.ErrClosing when the connection was closed; zk.ErrNoAuth when a
// right is missing; or says what is wrong with the arguments of New, or that the
// directory's sequence numbers are used up.
func (m *RWMutex) Lock(ctx context.Context) (*zklocks.Hold, error) {
	return m.write(ctx, "lock", m.writes.lock)
}

// TryLock is Lock for those who do not want to wait: when somebody else holds
// the lock or stands in line for it, the error matches [zklocks.ErrBusy]. It looks
// before it writes, and what it sees may be as old as the server it asks is
// behind the others.
func (m *RWMutex) TryLock(ctx context.Context) (*zklocks.Hold, error) {
	return m.write(ctx, "try lock", func(ctx context.Context) (*queue.Place, error) {
		m.reads.retire(ctx) // an idle read lock of our own is nobody's
		return m.writes.try(ctx)
	})
}

// RLock takes the lock for reading. It waits while a writer holds the lock or
// stood in line before; otherwise it is as [RWMutex.Lock]. A reader is never
// overtaken by a writer that came later, nor a writer by a reader.
//
// There is no way from reading to writing: two readers that asked for it would
// wait for each other forever. Release first, then Lock.
func (m *RWMutex) RLock(ctx context.Context) (*zklocks.Hold, error) {
	return m.read(ctx, "read lock", m.reads.lock)
}

// TryRLock is RLock for those who do not want to wait, see [RWMutex.TryLock].
func (m *RWMutex) TryRLock(ctx context.Context) (*zklocks.Hold, error) {
	return m.read(ctx, "try read lock", m.reads.try)
}

// RLocker returns the lock for reading as a [zklocks.Locker]: its Lock is RLock, its TryLock is TryRLock.
func (m *RWMutex) RLocker() zklocks.Locker { return rlocker{m} }

type rlocker struct{ m *RWMutex }

func (l rlocker) Lock(ctx context.Context) (*zklocks.Hold, error)    { return l.m.RLock(ctx) }
func (l rlocker) TryLock(ctx context.Context) (*zklocks.Hold, error) { return l.m.TryRLock(ctx) }

func (m *RWMutex) write(ctx context.Context, op string, how func(context.Context) (*queue.Place, error)) (*zklocks.Hold, error) {
	hold.NeedContext(ctx)
	if m.err != nil {
		return nil, m.wrap(op, m.err)
	}
	call := m.line.Call()
	place, err := how(ctx)
	if err != nil {
		return nil, m.wrap(op, err)
	}
	return newHold(m, place, nil, call), nil
}

func (m *RWMutex) read(ctx context.Context, op string, how func(context.Context) (*party, error)) (*zklocks.Hold, error) {
	if m.err != nil {
		return nil, m.wrap(op, m.err)
	}
	call := m.line.Call()
	party, err := how(ctx)
	if err != nil {
		return nil, m.wrap(op, err)
	}
	return newHold(m, party.place, party, call), nil
}

// wrap puts the package, the operation and the path in front of an error.
func (m *RWMutex) wrap(op string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("rwlock: %s %s: %w", op, m.path, err)
}
