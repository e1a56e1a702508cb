package zklocks_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/leader"
	"github.com/zklocks/zklocks/observe"
	"github.com/zklocks/zklocks/reentrant"
	"github.com/zklocks/zklocks/rwlock"
	"github.com/zklocks/zklocks/semaphore"
	"github.com/zklocks/zklocks/zktest"
)

// notes are the lines of a logger.
type notes struct {
	mu    sync.Mutex
	lines []string
}

func (n *notes) Printf(format string, args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lines = append(n.lines, fmt.Sprintf(format, args...))
}

// about returns the lines that contain a text.
func (n *notes) about(text string) (lines []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, line := range n.lines {
		if strings.Contains(line, text) {
			lines = append(lines, line)
		}
	}
	return lines
}

// A hold that the program drops is reported, whatever the program has called and kept, and the lock
// remains held. A hold that was released or lost is not reported.
func TestAHoldThatIsNeverReleasedIsReported(t *testing.T) {
	var leaked sync.Map // observe.Leaked, by path
	observer := zklocks.WithObserver(observe.Observer{Leaked: func(e observe.Leaked) {
		if _, again := leaked.LoadOrStore(e.Path, e); again {
			t.Errorf("reported twice: %v", e)
		}
	}})
	log := new(notes)
	s := zktest.NewServer(t, zktest.WithHoldsLeft())
	ctx := t.Context()
	conn := s.Host("a").Connect(t, 10*time.Second, zklocks.WithLogger(log), observer)
	type lock = func(path string) func(context.Context) (*zklocks.Hold, error)
	recipes := map[string]lock{
		"/write": func(path string) func(context.Context) (*zklocks.Hold, error) { return rwlock.New(conn, path).Lock },
		"/read":  func(path string) func(context.Context) (*zklocks.Hold, error) { return rwlock.New(conn, path).RLock },
		"/handoff": func(path string) func(context.Context) (*zklocks.Hold, error) {
			return rwlock.New(conn, path, rwlock.WithHandoff(2)).Lock
		},
		"/permits": func(path string) func(context.Context) (*zklocks.Hold, error) {
			return semaphore.New(conn, path, 3).Locker(2).Lock
		},
		"/mutex": func(path string) func(context.Context) (*zklocks.Hold, error) { return reentrant.New(conn, path).Lock },
		"/term":  func(path string) func(context.Context) (*zklocks.Hold, error) { return leader.New(conn, path).Campaign },
		"/all": func(path string) func(context.Context) (*zklocks.Hold, error) {
			return zklocks.All(rwlock.New(conn, path), rwlock.New(conn, path+"-too")).Lock
		},
	}
	var kept []any
	use := func(h *zklocks.Hold) {
		work := h.Context(ctx)
		kept = append(kept, work, h.Lost(), h.ReleaseRequested(), context.AfterFunc(work, func() {}))
		if !h.Held() {
			t.Errorf("%v is not held", h)
		}
	}
	take := func(path string, lock lock) *zklocks.Hold {
		h, err := lock(path)(ctx)
		if err != nil {
			t.Fatal(err)
		}
		use(h)
		return h
	}
	for path, lock := range recipes {
		func() { take(path+"/dropped", lock) }()
		func() {
			if err := take(path+"/released", lock).Release(ctx); err != nil {
				t.Error(err)
			}
			h := take(path+"/lost", lock)
			for _, check := range h.Guard() {
				if err := conn.Client().Delete(check.(*zk.CheckVersionRequest).Path, -1); err != nil {
					t.Fatal(err)
				}
			}
			<-h.Lost()
		}()
	}
	ran := make(chan error, 1)
	running, stop := context.WithCancel(ctx)
	leads := make(chan struct{})
	go func() {
		ran <- leader.New(conn, "/run").Run(running, func(ctx context.Context, _ *zklocks.Hold) error {
			close(leads)
			<-ctx.Done()
			return nil
		})
	}()
	<-leads
	inside := make(chan struct{})
	go func() {
		ran <- zklocks.Do(running, rwlock.New(conn, "/do").Lock, func(ctx context.Context, _ *zklocks.Hold) error {
			close(inside)
			<-ctx.Done()
			return nil
		})
	}()
	<-inside

	want := len(recipes) + 1 // All has two locks
	test.Eventually(t, time.Minute, "the dropped holds are reported", func() bool {
		runtime.GC()
		n := 0
		leaked.Range(func(any, any) bool { n++; return true })
		return n >= want
	})
	for range 5 { // nothing else is
		runtime.GC()
		runtime.Gosched()
	}
	leaked.Range(func(path, event any) bool {
		if e := event.(observe.Leaked); !strings.Contains(e.Path, "/dropped") || e.Held <= 0 || e.Token == 0 {
			t.Errorf("reported: %v", e)
		}
		return true
	})
	for path := range recipes {
		if lines := log.about(path + "/dropped,"); len(lines) != 1 || !strings.Contains(lines[0], "never released") {
			t.Errorf("logged of %s: %q", path, lines)
		}
		if n := len(log.about(path+"/released")) + len(log.about(path+"/lost")); n != 0 {
			t.Errorf("%d lines of holds of %s that have ended", n, path)
		}
	}
	if _, err := rwlock.New(conn, "/write/dropped").TryLock(ctx); !errors.Is(err, zklocks.ErrBusy) {
		t.Errorf("the lock of the dropped hold: %v", err)
	}
	stop()
	for range 2 {
		<-ran
	}
	runtime.KeepAlive(kept)
}
