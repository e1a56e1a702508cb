package hammer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/hold"
	"github.com/zklocks/zklocks/internal/test/history"
	"github.com/zklocks/zklocks/reentrant"
	"github.com/zklocks/zklocks/rwlock"
	"github.com/zklocks/zklocks/semaphore"
)

// strain is one kind of lock at one path. take acquires it in one of the ways that it has; queue is
// who stands in line, for a caller who never got in.
type strain struct {
	take  func(ctx context.Context, w *worker) (*grip, error)
	queue func(ctx context.Context) (string, error)
}

// strains are dealt to the paths in turn.
var strains = []func(conn *zklocks.Conn, path string) strain{
	func(conn *zklocks.Conn, path string) strain { return rwStrain(rwlock.New(conn, path)) },
	permitStrain,
	mutexStrain,
	func(conn *zklocks.Conn, path string) strain {
		return rwStrain(rwlock.New(conn, path, rwlock.WithHandoff(3), rwlock.WithReadLinger(5*time.Millisecond)))
	},
}

// rules are what the checker knows of the i-th path.
func strainRules(i int) history.Rules {
	return []history.Rules{
		{},
		{Limits: []history.Limit{{Permits: permits}}},
		{Reentrant: true},
		{Handoff: true},
	}[i%len(strains)]
}

// queueOf is the line's directory.
func queueOf(paths []string, i int) string {
	if i%len(strains) == 1 {
		return paths[i] + "/queue"
	}
	return paths[i]
}

// grip is a hold of any recipe.
type grip struct {
	gripped
	kind    history.Kind
	permits int
	try     bool
	give    func(context.Context) error
	more    func(*tenure) // what else its holder can do; nil: nothing
	after   func()        // called when it is over; nil: nothing
}

type gripped interface {
	held
	Lost() <-chan struct{}
	Guard(ops ...any) []any
}

func rwStrain(m *rwlock.RWMutex) strain {
	return strain{
		take: func(ctx context.Context, w *worker) (*grip, error) {
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
				return &grip{try: try}, err
			}
			g := &grip{gripped: h, kind: kind, give: h.Release}
			if write {
				g.more = func(t *tenure) {
					if w.chance(3) {
						t.downgrade(m, h)
					}
				}
			}
			return g, nil
		},
		queue: func(ctx context.Context) (string, error) { q, err := m.Queue(ctx); return fmt.Sprintf("%+v", q), err },
	}
}

func (t *tenure) downgrade(m *rwlock.RWMutex, h *zklocks.Hold) {
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
		t.span.EndAt(before)
		t.storm.note(func(r *record) { r.Nodes[h.Guard()[0].(*zk.CheckVersionRequest).Path] = h.Token() })
		t.kind, t.called = history.Shared, 0
		t.begin()
		t.stay()
	}
}

func permitStrain(conn *zklocks.Conn, path string) strain {
	s := semaphore.New(conn, path, permits)
	return strain{
		take: func(ctx context.Context, w *worker) (*grip, error) {
			n, try := 1+w.random.IntN(3), w.chance(8)
			how := s.Acquire
			if try {
				how = s.TryAcquire
			}
			h, err := how(ctx, n)
			if err != nil {
				return &grip{try: try}, err
			}
			return &grip{gripped: h, kind: history.Permits, permits: n, give: h.Release}, nil
		},
		queue: func(ctx context.Context) (string, error) { q, err := s.Queue(ctx); return fmt.Sprintf("%+v", q), err },
	}
}

func mutexStrain(conn *zklocks.Conn, path string) strain {
	m := reentrant.New(conn, path)
	return strain{
		take: func(ctx context.Context, w *worker) (*grip, error) {
			how, try := m.Lock, w.chance(8)
			if try {
				how = m.TryLock
			}
			h, err := how(ctx)
			if err != nil {
				return &grip{try: try}, err
			}
			g := &grip{gripped: h, kind: history.Exclusive, give: h.Release}
			g.more = func(t *tenure) { t.reenter(m, h) }
			g.after = func() {
				if n := m.Holds(); n != 0 {
					w.wrong(fmt.Sprintf("the goroutine has %d holds after the last release", n))
				}
			}
			return g, nil
		},
		queue: func(ctx context.Context) (string, error) { q, err := m.Queue(ctx); return fmt.Sprintf("%+v", q), err },
	}
}

// reenter has the owner in again, sometimes from other goroutines.
func (t *tenure) reenter(m *reentrant.Mutex, h *zklocks.Hold) {
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
		t.gripped = again
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
