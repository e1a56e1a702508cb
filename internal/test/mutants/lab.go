package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zklocks/zklocks/internal/test/patch"
	"github.com/zklocks/zklocks/internal/test/yields"
)

// lab makes copies of the library and runs tests on them.
type lab struct {
	ctx     context.Context
	root    string        // of the module
	dir     string        // for copies and test programs
	explore time.Duration // how long the explorer looks at each copy

	usual   sync.Map    // how long the tests of a package take without a mutant
	unsound atomic.Bool // they fail in some package
}

// A trial is a changed library, and the tests that judge it, one after the other.
type trial struct {
	name     string
	changed  map[string][]byte // the files
	judges   []target
	world    string // the kind of the explorer's worlds; "any" or "" is all kinds
	survivor string // what is said of a survivor
	accepted bool   // it may survive
}

// A target is a package, and the tests in it that match a pattern as of go test -run.
type target struct{ pkg, run string }

// named is a test: in its name slashes separate subtests, and go test writes "_" for a space.
func named(pkg, test string) target {
	return target{pkg, "^" + strings.ReplaceAll(regexp.QuoteMeta(strings.ReplaceAll(test, " ", "_")), "/", "$/^") + "$"}
}

var explorer = named("internal/test/explore", "TestExplore")

type verdict string

const (
	killed   verdict = "killed"
	survived verdict = "SURVIVED"
	failed   verdict = "ERROR"
	accepted verdict = "accepted"
)

// judge has the trials judged, so many at a time, and counts the verdicts.
func (l *lab) judge(trials []trial, jobs int) (count map[verdict]int) {
	byPackage := map[string][]string{}
	for _, t := range trials {
		for _, judge := range t.judges {
			test, _, _ := strings.Cut(judge.run, "/")
			byPackage[judge.pkg] = append(byPackage[judge.pkg], test)
		}
	}
	packages := slices.Sorted(maps.Keys(byPackage))
	l.each(jobs, len(packages), func(i int) {
		began, pkg := time.Now(), packages[i]
		if v, text := l.look(target{pkg, strings.Join(byPackage[pkg], "|")}, nil, ""); v == survived {
			l.usual.Store(pkg, time.Since(began))
		} else {
			l.unsound.Store(true)
			fmt.Printf("%s without a mutant: %s %s\n", pkg, v, text)
		}
	})
	count = map[verdict]int{}
	var mu sync.Mutex
	l.each(jobs, len(trials), func(i int) {
		began, t := time.Now(), trials[i]
		v, text := failed, ""
		for _, judge := range t.judges {
			if _, passes := l.usual.Load(judge.pkg); !passes {
				v, text = failed, judge.pkg+" does not pass without it"
			} else {
				v, text = l.look(judge, t.changed, t.world)
			}
			if v != survived {
				break
			}
		}
		if v == survived {
			text = t.survivor
			if t.accepted {
				v = accepted
			}
		}
		mu.Lock()
		defer mu.Unlock()
		count[v]++
		fmt.Printf("%-8s %6.1fs  %s\n%18s%s\n", v, time.Since(began).Seconds(), t.name, "", text)
	})
	return count
}

// each calls f for n items, so many at a time.
func (l *lab) each(jobs, n int, f func(i int)) {
	var all sync.WaitGroup
	slots := make(chan struct{}, max(1, jobs))
	for i := range n {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			f(i)
		})
	}
	all.Wait()
}

// look runs tests on a library in which files are changed, and says which test failed, or why there
// is no verdict. Without the race detector: a mutant is no race, and the tests are twice as quick.
func (l *lab) look(t target, changed map[string][]byte, world string) (verdict, string) {
	dir, err := os.MkdirTemp(l.dir, "copy-")
	if err != nil {
		return failed, err.Error()
	}
	defer os.RemoveAll(dir)
	program, err := l.build(dir, t.pkg, changed)
	if err != nil {
		return failed, err.Error()
	}
	patience := 4*time.Minute + l.explore
	if usual, ok := l.usual.Load(t.pkg); ok { // a mutant may run in a circle
		patience = 30*time.Second + 3*usual.(time.Duration)
	}
	return l.run(program, t, world, patience)
}

// build compiles the tests of a package with changed files.
func (l *lab) build(dir, pkg string, changed map[string][]byte) (program string, err error) {
	var overlay string
	if pkg == explorer.pkg {
		overlay, err = yields.Write(l.root, dir, changed)
	} else {
		overlay, err = patch.Overlay(l.root, dir, changed)
	}
	if err != nil {
		return "", err
	}
	program = filepath.Join(dir, "program.test")
	build := exec.CommandContext(l.ctx, "go", "test", "-c", "-vet=off", "-o", program, "-overlay", overlay, ".")
	build.Dir = filepath.Join(l.root, filepath.FromSlash(pkg)) // it may belong to a nested module
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("it does not compile: %s", strings.TrimSpace(string(out)))
	}
	return program, nil
}

// run runs the tests in a program.
func (l *lab) run(program string, t target, world string, patience time.Duration) (verdict, string) {
	args := []string{program, "-test.v", "-test.count=1", "-test.short=false", "-test.timeout=" + patience.String(), "-test.run=" + t.run}
	if t.pkg == explorer.pkg {
		args = append(args, "-for="+l.explore.String(), "-stop", "-jobs=1", "-from=1")
		if world != "any" {
			args = append(args, "-kind="+world)
		}
	}
	// A mutant may allocate forever, so the shell bounds its memory, where it can.
	tests := exec.CommandContext(l.ctx, "sh", "-c", `ulimit -v 8000000 2>/dev/null; exec "$0" "$@"`)
	tests.Args = append(tests.Args, args...)
	tests.Dir = filepath.Join(l.root, filepath.FromSlash(t.pkg))
	text, err := tests.CombinedOutput()
	switch passed := strings.Contains(string(text), "--- PASS: "); {
	case l.ctx.Err() != nil:
		return failed, "interrupted"
	case err == nil && passed:
		return survived, ""
	case err == nil:
		return failed, "no test ran"
	case !tests.ProcessState.Exited():
		return failed, "the tests did not end by themselves: " + err.Error()
	}
	return killed, t.pkg + " " + failure(string(text))
}

// failure says which test failed, or what ended the program.
func failure(output string) string {
	lines := strings.Split(strings.TrimSpace(output), "\n")
	text := "after the tests: " + lines[len(lines)-1]
	for _, line := range lines {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "panic: ") {
			return line
		}
		if strings.HasPrefix(line, "--- FAIL: ") { // the last of these lines names the part, not the whole
			text = line
		}
	}
	return text
}
