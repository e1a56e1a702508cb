package zktest

import (
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/zklocks/zklocks/observe"
)

// holds records the holds on one connection, to report those that a test does not release.
type holds struct {
	mu   sync.Mutex
	held map[observe.LockInfo][]string // where each was acquired; holds that share a node have one LockInfo
}

func (h *holds) observer() observe.Observer {
	return observe.Observer{
		Granted: func(e observe.Granted) {
			at := acquiredAt()
			h.mu.Lock()
			defer h.mu.Unlock()
			h.held[e.LockInfo] = append(h.held[e.LockInfo], at)
		},
		Released: func(e observe.Released) { h.ended(e.LockInfo) },
		Lost:     func(e observe.Lost) { h.ended(e.LockInfo) },
	}
}

func (h *holds) ended(lock observe.LockInfo) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.held[lock] = h.held[lock][1:]; len(h.held[lock]) == 0 {
		delete(h.held, lock)
	}
}

// left waits for background releases, and returns a line for each other hold.
func (h *holds) left() (lines []string) {
	patience := 2 * time.Second
	if bubble() != "" {
		patience = time.Minute
	}
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		h.mu.Lock()
		held := maps.Clone(h.held)
		h.mu.Unlock()
		if len(held) > 0 && time.Now().Before(end) {
			continue
		}
		for lock, all := range held {
			for _, at := range all {
				lines = append(lines, fmt.Sprintf("%v, acquired %s", lock, at))
			}
		}
		slices.Sort(lines)
		return lines
	}
}

// ours matches the functions between a call of a lock and its observer.
var ours = regexp.MustCompile(`^github\.com/zklocks/zklocks(/(internal/\w+|rwlock|semaphore|reentrant|leader|once|zktest))?\.`)

// acquiredAt returns the file and line of the call whose lock calls the observer now.
func acquiredAt() string {
	var pcs [64]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(1, pcs[:])])
	for more := true; more; {
		var f runtime.Frame
		if f, more = frames.Next(); f.Function != "" && !ours.MatchString(f.Function) && !ofGo(f.Function, f.File) {
			return fmt.Sprintf("at %s:%d", filepath.Base(f.File), f.Line)
		}
	}
	return "in the background"
}
