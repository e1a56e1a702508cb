package hammer

import (
	"context"
	"errors"
	"fmt"
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

// lockKind is one kind of lock at one path. take acquires it in one of its ways; among chooses how
// it is taken together with others; queue lists its members, for a caller whose wait was too long.
type lockKind struct {
	take  func(ctx context.Context, w *worker) (*anyHold, error)
	among func(w *worker) (zklocks.Locker, claim)
	queue func(ctx context.Context) (string, error)
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

// anyHold is a hold of any recipe, or of several locks.
type anyHold struct {
	holdMethods
	claims []claim
	try    bool
	give   func(context.Context) error
	more   func(*stressHold) // what else its holder can do, or nil
	after  func()            // called after the release, or nil
}

// claim is what a hold has of one lock.
type claim struct {
	kind    history.Kind
	permits int
	path    int
	cell    *cell
	span    *history.Span
}

// one is the claim of a hold of a single lock.
func one(path int, kind history.Kind, permits int) []claim {
	return []claim{{kind: kind, permits: permits, path: path}}
}

type holdMethods interface {
	held
	Lost() <-chan struct{}
	Guard(ops ...any) []any
}

func rwKind(m *rwlock.RWMutex, path int) lockKind {
	return lockKind{
		take: func(ctx context.Context, w *worker) (*anyHold, error) {
			write, try := w.chance(3), w.chance(8)
			how, kind := m.RLock, history.Shared
			switch {
			case write && try:
				how, kind = m.TryLock, history.Exclusive
			case write:
				how, kind = m.Lock, history.Exclusive
			case try:
				how = m.TryRLock
			}
			h, err := how(ctx)
			if err != nil {
				return &anyHold{try: try}, err
			}
			g := &anyHold{holdMethods: h, claims: one(path, kind, 0), give: h.Release}
			if write {
				g.more = func(t *stressHold) {
					if w.chance(3) {
						t.downgrade(m, h)
					}
				}
			}
			return g, nil
		},
		among: func(w *worker) (zklocks.Locker, claim) {
			if w.chance(2) {
				return m.RLocker(), claim{kind: history.Shared, path: path}
			}
			return m, claim{kind: history.Exclusive, path: path}
		},
		queue: func(ctx context.Context) (string, error) { q, err := m.Queue(ctx); return fmt.Sprintf("%+v", q), err },
	}
}

func (t *stressHold) downgrade(m *rwlock.RWMutex, h *zklocks.Hold) {
	before := history.Now()
	ctx, cancel := context.WithDeadline(context.Background(), t.until)
	defer cancel()
	switch err := m.Downgrade(ctx, h); {
	case errors.Is(err, hold.ErrLost):
		t.lose()
	case err != nil:
		t.wrong("downgrade: " + err.Error())
	default:
		t.count("downgraded")
		t.sure = before
		t.claims[0].span.EndAt(before)
		t.storm.note(func(r *record) { r.Nodes[h.Guard()[0].(*zk.CheckVersionRequest).Path] = h.Token() })
		t.claims[0].kind, t.called = history.Shared, 0
		t.begin()
		t.stay()
	}
}

func permitKind(conn *zklocks.Conn, name string, path int) lockKind {
	s := semaphore.New(conn, name, permits)
	return lockKind{
		take: func(ctx context.Context, w *worker) (*anyHold, error) {
			n, try := 1+w.random.IntN(3), w.chance(8)
			how := s.Acquire
			if try {
				how = s.TryAcquire
			}
			h, err := how(ctx, n)
			if err != nil {
				return &anyHold{try: try}, err
			}
			return &anyHold{holdMethods: h, claims: one(path, history.Permits, n), give: h.Release}, nil
		},
		among: func(w *worker) (zklocks.Locker, claim) {
			n := 1 + w.random.IntN(3)
			return s.Locker(n), claim{kind: history.Permits, permits: n, path: path}
		},
		queue: func(ctx context.Context) (string, error) { q, err := s.Queue(ctx); return fmt.Sprintf("%+v", q), err },
	}
}

// mutexKind is a mutex, of which some holds are terms of a leader: they have the same nodes.
func mutexKind(conn *zklocks.Conn, name string, path int) lockKind {
	m, e := reentrant.New(conn, name), leader.New(conn, name)
	return lockKind{
		take: func(ctx context.Context, w *worker) (*anyHold, error) {
			if w.chance(4) {
				return lead(ctx, w, e, path)
			}
			how, try := m.Lock, w.chance(8)
			if try {
				how = m.TryLock
			}
			h, err := how(ctx)
			if err != nil {
				return &anyHold{try: try}, err
			}
			g := &anyHold{holdMethods: h, claims: one(path, history.Exclusive, 0), give: h.Release}
			g.more = func(t *stressHold) { t.reenter(m, h) }
			g.after = func() {
				if n := m.HoldCount(); n != 0 {
					w.wrong(fmt.Sprintf("the goroutine has %d holds after the last release", n))
				}
			}
			return g, nil
		},
		among: func(*worker) (zklocks.Locker, claim) { return m, claim{kind: history.Exclusive, path: path} },
		queue: func(ctx context.Context) (string, error) { q, err := m.Queue(ctx); return fmt.Sprintf("%+v", q), err },
	}
}

func lead(ctx context.Context, w *worker, e *leader.Election, path int) (*anyHold, error) {
	term, err := e.Campaign(ctx)
	if err != nil {
		return &anyHold{}, err
	}
	w.count("led")
	g := &anyHold{holdMethods: term, claims: one(path, history.Exclusive, 0), give: term.Release}
	g.more = func(t *stressHold) {
		if t.chance(3) {
			t.proclaim(e, term)
		}
	}
	return g, nil
}

func (t *stressHold) proclaim(e *leader.Election, term *zklocks.Hold) {
	before := history.Now()
	ctx, cancel := context.WithDeadline(context.Background(), t.until)
	defer cancel()
	switch err := e.Proclaim(ctx, term, []byte(t.owner)); {
	case errors.Is(err, hold.ErrLost):
		t.lose()
	case errors.Is(err, zk.ErrConnectionClosed): // the answer is lost, and with it whether it took place
		t.count("perhaps proclaimed")
	case err != nil:
		t.wrong("proclaim: " + err.Error())
	default:
		t.count("proclaimed")
		t.sure = before
	}
}

// together takes several locks of the group to which path belongs.
func (s *storm) together(ctx context.Context, w *worker, path int) (*anyHold, error) {
	first := path - path%len(lockKinds)
	group := s.locks[first:min(first+len(lockKinds), len(s.locks))]
	g := &anyHold{try: w.chance(8)}
	var locks []zklocks.Locker
	for _, i := range w.random.Perm(len(group))[:min(len(group), 2+w.random.IntN(2))] {
		lock, c := group[i].among(w)
		locks, g.claims = append(locks, lock), append(g.claims, c)
	}
	all := zklocks.All(locks...)
	how := all.Lock
	if g.try {
		how = all.TryLock
	}
	h, err := how(ctx)
	if err != nil {
		return g, err
	}
	w.count("together")
	g.holdMethods, g.give = h, h.Release
	return g, nil
}

// reenter takes the lock again, sometimes from other goroutines.
func (t *stressHold) reenter(m *reentrant.Mutex, h *zklocks.Hold) {
	if t.chance(10) {
		t.join(m, h)
	}
	if !t.chance(3) {
		return
	}
	before := history.Now()
	ctx, cancel := context.WithDeadline(context.Background(), t.until)
	defer cancel()
	again, err := m.Lock(ctx)
	switch {
	case errors.Is(err, hold.ErrLost):
		t.lose()
		return
	case err != nil:
		t.wrong("re-entry: " + err.Error())
		return
	case t.over:
		t.wrong("re-entered a lock that was lost")
	}
	t.count("re-entered")
	t.sure = before
	if again.Token() != h.Token() {
		t.wrong("a re-entry with another token")
	}
	first := again.Release
	if t.chance(2) {
		first, t.give = h.Release, again.Release
		t.holdMethods = again
	}
	before = history.Now()
	switch err := first(ctx); {
	case errors.Is(err, hold.ErrLost):
		t.lost()
	case err != nil:
		t.wrong("release of one of two: " + err.Error())
	default:
		t.sure = before
	}
}

func (t *stressHold) join(m *reentrant.Mutex, h *zklocks.Hold) {
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
				t.wrong("join: " + err.Error())
				return
			}
			t.count("joined")
			if again.Token() != h.Token() {
				t.wrong("joined with another token")
			}
			if err := again.Release(ctx); err != nil && !errors.Is(err, hold.ErrLost) {
				t.wrong("release by one who joined: " + err.Error())
			}
		})
	}
	joined.Wait()
}
