package explore

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test/history"
	"github.com/zklocks/zklocks/leader"
	"github.com/zklocks/zklocks/observe"
	"github.com/zklocks/zklocks/reentrant"
	"github.com/zklocks/zklocks/rwlock"
	"github.com/zklocks/zklocks/semaphore"
)

// A lock is a value of a recipe at a path, with the methods of the recipe.
type lock struct {
	path, dir string // dir: the directory of the nodes
	take      func(ctx context.Context, w *worker) (*grip, error)
	members   func(ctx context.Context) ([]zklocks.Member, error)
	election  *leader.Election              // nil: another recipe
	part      func(w *worker) (*part, bool) // as a part of several locks that are acquired together
	beside    []string                      // if this stands for several locks: the paths of the others
}

// paths returns the paths of all its locks.
func (l *lock) paths() []string { return append([]string{l.path}, l.beside...) }

// A grip is a hold of any recipe, with its methods.
type grip struct {
	held
	kind      history.Kind
	permits   int
	give      func(context.Context) error
	downgrade func(context.Context) error // nil: cannot be downgraded
	again     func(context.Context) (*grip, error)
	proclaim  func(ctx context.Context, data []byte) error // nil: not a term of a leader
	after     func()                                       // called at the end; may be nil
	parts     []*part                                      // parts of a hold on several locks, except the first
	inner     *part                                        // the part that can be entered again; may be nil
}

// A flavor is a recipe with options.
type flavor struct {
	name    string
	rules   history.Rules // the world adds the limits
	open    func(w *world, conn *zklocks.Conn, path string) *lock
	handoff int // maximal length of a series of handoffs
}

// maxIdle is how long an idle lock is kept, in some flavors.
const maxIdle = 300 * time.Millisecond

// flavors are assigned to the paths in turn.
var flavors = []flavor{
	{"rwlock", history.Rules{}, func(w *world, conn *zklocks.Conn, path string) *lock {
		return rw(rwlock.New(conn, path), path)
	}, 0},
	{"rwlock with handoff", history.Rules{Handoff: true}, func(w *world, conn *zklocks.Conn, path string) *lock {
		return rw(rwlock.New(conn, path, rwlock.WithHandoff(3)), path)
	}, 3},
	{"reentrant", history.Rules{Reentrant: true}, func(w *world, conn *zklocks.Conn, path string) *lock {
		return mutex(reentrant.New(conn, path), path)
	}, 0},
	{"semaphore", history.Rules{}, func(w *world, conn *zklocks.Conn, path string) *lock {
		return permits(w, semaphore.New(conn, path, firstPermits), path)
	}, 0},
	{"rwlock with handoff, observed", history.Rules{Handoff: true}, func(w *world, conn *zklocks.Conn, path string) *lock {
		return rw(rwlock.New(conn, path, rwlock.WithHandoff(2), zklocks.WithObserver(w.balance.observer())), path)
	}, 2},
	{"kazoo names", history.Rules{}, func(w *world, conn *zklocks.Conn, path string) *lock {
		return rw(rwlock.New(conn, path, rwlock.WithKazooNames()), path)
	}, 0},
	{"reentrant, observed", history.Rules{Reentrant: true}, func(w *world, conn *zklocks.Conn, path string) *lock {
		return mutex(reentrant.New(conn, path, zklocks.WithObserver(w.balance.observer())), path)
	}, 0},
	{"rwlock, kept", history.Rules{Handoff: true}, func(w *world, conn *zklocks.Conn, path string) *lock {
		return rw(rwlock.New(conn, path, rwlock.WithMaxIdle(maxIdle)), path)
	}, 0},
	{"rwlock with handoff, kept, observed", history.Rules{Handoff: true}, func(w *world, conn *zklocks.Conn, path string) *lock {
		return rw(rwlock.New(conn, path, rwlock.WithHandoff(2), rwlock.WithMaxIdle(maxIdle), zklocks.WithObserver(w.balance.observer())), path)
	}, 0},
	{"reentrant, kept", history.Rules{Reentrant: true, Handoff: true}, func(w *world, conn *zklocks.Conn, path string) *lock {
		return mutex(reentrant.New(conn, path, reentrant.WithMaxIdle(maxIdle)), path)
	}, 0},
	{"leader", history.Rules{}, func(w *world, conn *zklocks.Conn, path string) *lock {
		return election(w, leader.New(conn, path, zklocks.WithObserver(w.balance.observer())), path)
	}, 0},
}

func rw(m *rwlock.RWMutex, path string) *lock {
	return &lock{
		path: path, dir: path,
		take: func(ctx context.Context, w *worker) (*grip, error) {
			write, try := w.chance(2), w.toTry()
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
				return nil, err
			}
			g := &grip{held: h, kind: kind, give: h.Release}
			if write {
				g.downgrade = func(ctx context.Context) error { return m.Downgrade(ctx, h) }
			}
			return g, nil
		},
		members: m.Queue,
		part: func(w *worker) (*part, bool) {
			if w.chance(2) {
				return &part{Locker: m.RLocker(), path: path, dir: path, kind: history.Shared}, true
			}
			return &part{Locker: m, path: path, dir: path, kind: history.Exclusive, downgrade: m.Downgrade}, true
		},
	}
}

func mutex(m *reentrant.Mutex, path string) *lock {
	after := func(w *worker) {
		if n := m.HoldCount(); n != 0 {
			w.world.complain("%s: the goroutine of %s has %d holds after the last release", path, w.who, n)
		}
	}
	again := func(ctx context.Context) (*grip, error) {
		h, err := m.Lock(ctx)
		if err != nil {
			return nil, err
		}
		return &grip{held: h, kind: history.Exclusive, give: h.Release}, nil
	}
	return &lock{
		path: path, dir: path,
		take: func(ctx context.Context, w *worker) (*grip, error) {
			how := m.Lock
			if w.toTry() {
				how = m.TryLock
			}
			h, err := how(ctx)
			if err != nil {
				return nil, err
			}
			return &grip{held: h, kind: history.Exclusive, give: h.Release, again: again, after: func() { after(w) }}, nil
		},
		members: m.Queue,
		part: func(*worker) (*part, bool) {
			return &part{Locker: m, path: path, dir: path, kind: history.Exclusive, again: again, after: after}, true
		},
	}
}

const (
	firstPermits = 4
	mostPermits  = 6 // in Resize
	leastPermits = 3 // in Resize; a caller that asks for more may be refused, see wrongly
)

func permits(world *world, s *semaphore.Semaphore, path string) *lock {
	var agreed atomic.Bool // this value has taken permits, or set their number
	return &lock{
		path: path, dir: path + "/queue",
		take: func(ctx context.Context, w *worker) (*grip, error) {
			resize := world.resizes && (w.chance(60) || world.often && w.chance(8))
			n := 1 + w.random.IntN(leastPermits)
			if world.often && w.chance(12) {
				n = 1 + w.random.IntN(mostPermits)
			}
			how := s.Acquire
			if w.toTry() {
				how = s.TryAcquire
			}
			for {
				if resize {
					if err := world.resize(ctx, s, path, leastPermits+w.random.IntN(mostPermits-leastPermits+1)); err != nil {
						return nil, err
					}
					w.count("resized")
					agreed.Store(true)
				}
				called := world.clock.now()
				had := agreed.Load() // read it before the call, or another worker's Resize would make a mismatch look wrong
				h, err := how(ctx, n)
				if errors.Is(err, semaphore.ErrMismatch) && world.resizes && !had {
					resize = true // another value had set another number before this value read it
					continue
				}
				if errors.Is(err, semaphore.ErrTooMany) && (had || n <= firstPermits) { // otherwise the value still expects firstPermits
					w.count("too many")
					world.refusedTo(refusal{path, n, called, world.clock.now()})
				}
				if err != nil {
					return nil, err
				}
				agreed.Store(true)
				return &grip{held: h, kind: history.Permits, permits: n, give: h.Release}, nil
			}
		},
		members: s.Queue,
		part: func(w *worker) (*part, bool) {
			n := 1 + w.random.IntN(leastPermits)
			// Until this value has agreed, another value's Resize causes a mismatch.
			return &part{Locker: s.Locker(n), path: path, dir: path + "/queue", kind: history.Permits, permits: n}, agreed.Load() || !world.resizes
		},
	}
}

// A part is a lock that is acquired together with others.
type part struct {
	zklocks.Locker
	path, dir string
	kind      history.Kind
	permits   int
	downgrade func(context.Context, *zklocks.Hold) error // nil: cannot be downgraded
	again     func(context.Context) (*grip, error)       // nil: cannot be entered again
	after     func(*worker)                              // called at the end; may be nil
}

// together combines some of the locks, in any order.
func together(w *worker, locks []*lock) *lock {
	var parts []*part
	for _, i := range w.random.Perm(len(locks)) {
		if p, ok := locks[i].part(w); ok && len(parts) < mostTogether {
			parts = append(parts, p)
		}
	}
	if len(parts) < 2 {
		return locks[0]
	}
	first := parts[0]
	var lockers []zklocks.Locker
	for _, p := range parts {
		lockers = append(lockers, p.Locker)
	}
	all := zklocks.All(lockers...)
	var beside []string
	for _, p := range parts[1:] {
		beside = append(beside, p.path)
	}
	return &lock{
		path: first.path, dir: first.dir, beside: beside,
		take: func(ctx context.Context, w *worker) (*grip, error) {
			how := all.Lock
			if w.toTry() {
				how = all.TryLock
			}
			h, err := how(ctx)
			if err != nil {
				return nil, err
			}
			w.count("together")
			g := &grip{held: h, kind: first.kind, permits: first.permits, give: h.Release, parts: parts[1:]}
			for _, p := range parts {
				if p.again != nil {
					g.inner = p
				}
			}
			if first.downgrade != nil {
				g.downgrade = func(ctx context.Context) error { return first.downgrade(ctx, h) }
			}
			g.after = func() {
				for _, p := range parts {
					if p.after != nil {
						p.after(w)
					}
				}
			}
			return g, nil
		},
		members: func(ctx context.Context) (all []zklocks.Member, err error) {
			for _, l := range locks {
				one, lerr := l.members(ctx)
				all, err = append(all, one...), errors.Join(err, lerr)
			}
			return all, err
		},
	}
}

const mostTogether = 3

// inOne is a hold on several locks, seen as a hold on the lock in dir.
type inOne struct {
	held
	dir string
}

func (h inOne) Guard(ops ...any) (mine []any) {
	for _, op := range h.held.Guard(ops...) {
		if check, ok := op.(*zk.CheckVersionRequest); !ok || dirOf(check.Path) == h.dir {
			mine = append(mine, op)
		}
	}
	return mine
}

// limits are the permits of each semaphore over time, for the checker.
type limits struct {
	turn chan struct{} // one Resize at a time, so that the order of the numbers is known
	all  map[string][]history.Limit
	open map[string][]unheard // numbers that may still be stored
}

// An unheard is a number that no call has reported as stored. Resize names the version that it
// replaces: once the node has another version, written after mzxid, the number cannot be stored. If
// no version is named, mzxid is the maximum.
type unheard struct {
	index int // of the number
	mzxid int64
}

// resize sets another number. Waiters must follow it from then on, unless they may have missed the
// event of this number, or of an equal number before.
func (w *world) resize(ctx context.Context, s *semaphore.Semaphore, path string, to int) error {
	err := w.resizeBy(ctx, path, to, true, func() error { return s.Resize(ctx, to) })
	if err == nil && !w.isForbidden(path, 0) {
		w.waiting()
	}
	return err
}

// resizeBy sets another number. If the call fails, the number may be stored at any time from then
// on; the next answered write prevents that, if that write names the version that it replaces. A
// number that the server refuses is not stored.
func (w *world) resizeBy(ctx context.Context, path string, to int, versioned bool, by func() error) error {
	select {
	case w.limits.turn <- struct{}{}:
		defer func() { <-w.limits.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if ctx.Err() != nil {
		return ctx.Err() // the library would send no request
	}
	all := append(w.limits.all[path], history.Limit{Path: path, Permits: to, Since: w.clock.now(), Until: unknown})
	w.limits.all[path] = all
	if err := by(); err != nil {
		if errors.Is(err, zk.ErrNoAuth) && !w.lossy {
			w.limits.all[path] = all[:len(all)-1]
		} else {
			_, mzxid := w.ensemble.Written(path)
			if !versioned {
				mzxid = math.MaxInt64
			}
			w.limits.open[path] = append(w.limits.open[path], unheard{len(all) - 1, mzxid})
		}
		return err
	}
	now := w.clock.now()
	stored, mzxid := w.ensemble.Written(path)
	if len(w.limits.open[path]) == 0 && stored != strconv.Itoa(to) {
		w.complain("%s: the number is said to be %d, and %s is stored", path, to, stored)
	}
	w.limits.open[path] = slices.DeleteFunc(w.limits.open[path], func(u unheard) bool {
		over := u.mzxid < mzxid
		if over {
			all[u.index].Until = now
		}
		return over
	})
	for i := range all[:len(all)-1] {
		if all[i].Until == 0 {
			all[i].Until = now
		}
	}
	all[len(all)-1].Until = 0
	return nil
}

// A refusal is an ErrTooMany.
type refusal struct {
	path       string
	permits    int
	called, at int64
}

func (l *ledger) refusedTo(r refusal) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refusals = append(l.refusals, r)
}

// wrongly returns the refusals of callers that asked for no more permits than there always were.
func (w *world) wrongly() (wrong []finding) {
	for _, r := range w.refusals {
		fewer := func(l history.Limit) bool {
			return l.Permits < r.permits && l.Since <= r.at && (l.Until == 0 || l.Until >= r.called)
		}
		if !slices.ContainsFunc(w.limits.all[r.path], fewer) {
			wrong = append(wrong, finding{r.at, fmt.Sprintf("%s: %d permits are too many, and since %v there were never fewer: %+v",
				r.path, r.permits, time.Duration(r.called), w.limits.all[r.path])})
		}
	}
	return wrong
}

// number returns the smallest number that may be stored.
func (w *world) number(path string) int {
	w.limits.turn <- struct{}{}
	defer func() { <-w.limits.turn }()
	least := mostPermits
	for _, l := range w.limits.all[path] {
		if l.Until == 0 || l.Until == unknown {
			least = min(least, l.Permits)
		}
	}
	return least
}

// unknown is the Until of a number that no call has reported as stored.
const unknown = math.MaxInt64

// A balance counts observers' events: each call and each hold must end once.
type balance struct{ called, failed, granted, ended atomic.Int64 }

func (b *balance) isEven() bool {
	return b.granted.Load() == b.ended.Load() && b.called.Load() == b.failed.Load()+b.granted.Load()
}

func (b *balance) observer() observe.Observer {
	return observe.Observer{
		Called:   func(observe.Called) { b.called.Add(1) },
		Failed:   func(observe.Failed) { b.failed.Add(1) },
		Granted:  func(observe.Granted) { b.granted.Add(1) },
		Released: func(observe.Released) { b.ended.Add(1) },
		Lost:     func(observe.Lost) { b.ended.Add(1) },
	}
}
