// Package trace records which functions of the library run. The library calls it in the copy that
// package metrics makes of it.
package trace

import (
	"runtime"
	"slices"
	"strings"
	"sync"
)

const module = "github.com/zklocks/zklocks"

var (
	mu        sync.Mutex
	on        bool
	functions map[string]bool
	deepest   []string
)

// Start begins to record.
func Start() {
	mu.Lock()
	defer mu.Unlock()
	on, functions, deepest = true, map[string]bool{}, nil
}

// Stop ends it. It returns the functions that have begun, and the deepest stack of them, the
// innermost first.
func Stop() (began, stack []string) {
	mu.Lock()
	defer mu.Unlock()
	on = false
	for f := range functions {
		began = append(began, f)
	}
	slices.Sort(began)
	return began, deepest
}

// In records that the caller of its caller has begun.
func In() {
	mu.Lock()
	defer mu.Unlock()
	if !on {
		return
	}
	pcs := make([]uintptr, 64)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs)])
	var stack []string
	for {
		f, more := frames.Next()
		if name, ours := strings.CutPrefix(f.Function, module); ours && !strings.Contains(name, "/internal/test/") {
			stack = append(stack, strings.TrimLeft(name, "/."))
		}
		if !more {
			break
		}
	}
	if len(stack) == 0 {
		return
	}
	functions[stack[0]] = true
	if len(stack) > len(deepest) {
		deepest = stack
	}
}
