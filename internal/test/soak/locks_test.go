package soak

import (
	"context"
	"errors"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/hold"
	"github.com/zklocks/zklocks/internal/test/history"
	"github.com/zklocks/zklocks/leader"
	"github.com/zklocks/zklocks/reentrant"
	"github.com/zklocks/zklocks/rwlock"
	"github.com/zklocks/zklocks/semaphore"
)

// lockKind is one kind of lock at one path. take acquires the lock in one of its ways. among
// chooses how the lock is acquired together with others. queue lists the members, for the error of
// a wait that was too long.
type lockKind struct {
	take  func(ctx context.Context, w *worker) (*grip, error)
	among func(w *worker) (zklocks.Locker, claim)
	queue func(ctx context.Context) ([]zklocks.Member, error)
}

// lockKinds are assigned to the paths in turn.
var lockKinds = []func(conn *zklocks.Conn, name string, path int) lockKind{
	func(conn *zklocks.Conn, name string, path int) lockKind { return rwKind(rwlock.New(conn, name), path) },
	permitKind,
	mutexKind,
	func(conn *zklocks.Conn, name string, path int) lockKind {
		return rwKind(rwlock.New(conn, name, rwlock.WithHandoff(3)), path)
	},
}

const permits = 8

// kindRules returns the checker's rules for the i-th path.
func kindRules(i int) history.Rules {
	return []history.Rules{
		{},
		{Limits: []history.Limit{{Permits: permits}}},
		{Reentrant: true},
		{Handoff: true},
	}[i%len(lockKinds)]
}

// queueOf returns the directory of a lock's queue.
func queueOf(paths []string, i int) string {
	if i%len(lockKinds) == 1 {
		return paths[i] + "/queue"
	}
	return paths[i]
}

// grip is a hold of any recipe, or of several locks.
type grip struct {
	held
	claims []claim
	try    bool
	give   func(context.Context) error
	more   func(*tenure) // what else the holder can do, or nil
	after  func()        // called after the release, or nil
}

// held is what the holds of all recipes have in common.
type held interface {
	Held() bool
	Lost() <-chan struct{}
	Context(context.Context) context.Context
	Token() int64
	Verify(context.Context) error
	Guard(ops ...any) []any
}

// claim is the part of a hold that concerns one lock.
type claim struct {
	kind    history.Kind
	permits int
	path    int
	span    *history.Span
}

// one returns the claim of a hold on a single lock.
func one(path int, kind history.Kind, permits int) []claim {
	return []claim{{kind: kind, permits: permits, path: path}}
}

type acquire = func(context.Context) (*zklocks.Hold, error)

// either draws one of two ways to acquire.
func (w *worker) either(lock, try acquire) (how acquire, tries bool) {
	if w.chance(8) {
		return try, true
	}
	return lock, false
}

func rwKind(m *rwlock.RWMutex, path int) lockKind {
	return lockKind{
		take: func(ctx context.Context, w *worker) (*grip, error) {
			if !w.chance(3) {
				how, try := w.either(m.RLock, m.TryRLock)
				h, err := how(ctx)
				return &grip{held: h, claims: one(path, history.Shared, 0), try: try, give: h.Release}, err
			}
			how, try := w.either(m.Lock, m.TryLock)
			h, err := how(ctx)
			more := func(t *tenure) { t.downgrade(m, h) }
			return &grip{held: h, claims: one(path, history.Exclusive, 0), try: try, give: h.Release, more: more}, err
		},
		among: func(w *worker) (zklocks.Locker, claim) {
			if w.chance(2) {
				return m.RLocker(), claim{kind: history.Shared, path: path}
			}
			return m, claim{kind: history.Exclusive, path: path}
		},
		queue: m.Queue,
	}
}

func (t *tenure) downgrade(m *rwlock.RWMutex, h *zklocks.Hold) {
	if !t.chance(3) {
		return
	}
	before := history.Now()
	ctx, cancel := t.calling()
	defer cancel()
	if !t.told("downgraded", before, m.Downgrade(ctx, h)) {
		return
	}
	t.claims[0].span.EndAt(before)
	t.mu.Lock()
	t.record.Downgraded[h.Guard()[0].(*zk.CheckVersionRequest).Path] = lock{t.Paths[t.claims[0].path], h.Token()}
	t.mu.Unlock()
	t.claims[0].kind, t.called = history.Shared, 0
	t.begin()
	t.stay()
}

func permitKind(conn *zklocks.Conn, name string, path int) lockKind {
	s := semaphore.New(conn, name, permits)
	return lockKind{
		take: func(ctx context.Context, w *worker) (*grip, error) {
			n := 1 + w.random.IntN(3)
			how, try := s.Acquire, w.chance(8)
			if try {
				how = s.TryAcquire
			}
			h, err := how(ctx, n)
			return &grip{held: h, claims: one(path, history.Permits, n), try: try, give: h.Release}, err
		},
		among: func(w *worker) (zklocks.Locker, claim) {
			n := 1 + w.random.IntN(3)
			return s.Locker(n), claim{kind: history.Permits, permits: n, path: path}
		},
		queue: s.Queue,
	}
}

// mutexKind is a mutex and an election at one path: a term of a leader has the same node as a hold.
func mutexKind(conn *zklocks.Conn, name string, path int) lockKind {
	m, e := reentrant.New(conn, name), leader.New(conn, name)
	return lockKind{
		take: func(ctx context.Context, w *worker) (*grip, error) {
			if w.chance(4) {
				h, err := e.Campaign(ctx)
				if err == nil {
					w.count("led")
				}
				more := func(t *tenure) { t.proclaim(e, h) }
				return &grip{held: h, claims: one(path, history.Exclusive, 0), give: h.Release, more: more}, err
			}
			how, try := w.either(m.Lock, m.TryLock)
			h, err := how(ctx)
			return &grip{
				held: h, claims: one(path, history.Exclusive, 0), try: try, give: h.Release,
				more: func(t *tenure) { t.reenter(m, h) },
				after: func() {
					if n := m.HoldCount(); n != 0 {
						w.wrong("the goroutine has %d holds after the last release", n)
					}
				},
			}, err
		},
		among: func(*worker) (zklocks.Locker, claim) { return m, claim{kind: history.Exclusive, path: path} },
		queue: m.Queue,
	}
}

func (t *tenure) proclaim(e *leader.Election, term *zklocks.Hold) {
	if !t.chance(3) {
		return
	}
	before := history.Now()
	ctx, cancel := t.calling()
	defer cancel()
	err := e.Proclaim(ctx, term, []byte(t.owner))
	if errors.Is(err, zk.ErrConnectionClosed) { // the answer is lost, so it is unknown whether the data were replaced
		t.count("perhaps proclaimed")
		return
	}
	t.told("proclaimed", before, err)
}

// together takes several locks of the group to which path belongs.
func (w *worker) together(ctx context.Context, path int) (*grip, error) {
	first := path - path%len(lockKinds)
	group := w.locks[first:min(first+len(lockKinds), len(w.locks))]
	g := &grip{}
	var locks []zklocks.Locker
	for _, i := range w.random.Perm(len(group))[:min(len(group), 2+w.random.IntN(2))] {
		lock, c := group[i].among(w)
		locks, g.claims = append(locks, lock), append(g.claims, c)
	}
	all := zklocks.All(locks...)
	how, try := w.either(all.Lock, all.TryLock)
	h, err := how(ctx)
	if err == nil {
		w.count("together")
	}
	g.held, g.try, g.give = h, try, h.Release
	return g, err
}

// reenter takes the lock again, sometimes from other goroutines.
func (t *tenure) reenter(m *reentrant.Mutex, h *zklocks.Hold) {
	if t.chance(10) {
		t.join(m, h)
	}
	if !t.chance(3) {
		return
	}
	before := history.Now()
	ctx, cancel := t.calling()
	defer cancel()
	again, err := m.Lock(ctx)
	if !t.told("re-entered", before, err) {
		return
	}
	if again.Token() != h.Token() {
		t.wrong("re-entered with another token")
	}
	first := again.Release
	if t.chance(2) {
		first, t.give = h.Release, again.Release
		t.held, t.ctx = again, nil
	}
	before = history.Now()
	switch err := first(ctx); {
	case errors.Is(err, hold.ErrLost):
		t.lost()
	case err != nil:
		t.wrong("release of one of two: %v", err)
	default:
		t.sure = before
	}
}

// join has two other goroutines enter with the context of the hold.
func (t *tenure) join(m *reentrant.Mutex, h *zklocks.Hold) {
	ctx, cancel := context.WithDeadline(h.Context(context.Background()), t.until)
	defer cancel()
	var joined sync.WaitGroup
	for range 2 {
		joined.Go(func() {
			again, err := m.Lock(ctx)
			switch {
			case err == nil:
			case errors.Is(err, hold.ErrLost), errors.Is(context.Cause(ctx), hold.ErrLost):
				return
			default:
				t.wrong("join: %v", err)
				return
			}
			t.count("joined")
			if again.Token() != h.Token() {
				t.wrong("joined with another token")
			}
			if err := again.Release(ctx); err != nil && !errors.Is(err, hold.ErrLost) {
				t.wrong("release by one who joined: %v", err)
			}
		})
	}
	joined.Wait()
}
