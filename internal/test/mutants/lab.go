package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/zklocks/zklocks/internal/test/patch"
	"github.com/zklocks/zklocks/internal/test/yields"
)

// patience is longer than any of the tests takes. Their own patience is shorter,
// so one that this has to end hangs.
const patience = 2 * time.Minute

// overlay has the compiler read src in place of a file, if there is one, and for the explorer a
// library in which goroutines yield.
func (l *lab) overlay(dir, file string, src []byte) (string, error) {
	if l.explore > 0 {
		changed := map[string][]byte{}
		if file != "" {
			changed[file] = src
		}
		return yields.Write(l.root, dir, changed)
	}
	return patch.Overlay(l.root, dir, map[string][]byte{file: src})
}

// build makes the test program of a package. Without the race detector: a mutant
// is no race, and the tests are twice as quick.
func (l *lab) build(pkg, name, overlay string) (string, error) {
	program := filepath.Join(l.dir, name+".test")
	args := []string{"test", "-c", "-o", program}
	if overlay != "" {
		args = append(args, "-overlay", overlay)
	}
	cmd := exec.CommandContext(l.ctx, "go", append(args, ".")...)
	cmd.Dir = filepath.Join(l.root, filepath.FromSlash(pkg)) // which may be a module of its own
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("does not compile: %w\n%s", err, out)
	}
	return program, nil
}

// outcome is one run of a test.
type outcome struct {
	passed bool
	ended  bool // by itself: it has started, and no signal has ended it
	took   time.Duration
	text   string

	finding string // of the soak
}

// finding matches the soak's report of two holders at once, of a holder that does not know of its
// loss, and of a node that no process deletes.
var finding = regexp.MustCompile(`seed \d+: (orphan: |\S+: (overlap|too many|token order): |\S+: token \d+ was given|\S+: \S+ with token \d+ was still sure).*`)

// test runs one test of a program, where go test would, and the explorer in worlds of one kind if
// that is not "".
func (l *lab) test(program string, t target, kind string) outcome {
	cmd := exec.CommandContext(l.ctx, program, "-test.v", "-test.count=1", "-test.short=false",
		"-test.timeout="+(patience+l.explore+2*l.soak).String(), "-test.run="+t.pattern())
	if l.soak > 0 {
		cmd.Env = append(os.Environ(), "ZKLOCKS_REAL=1", "STRESS="+l.soak.String(), "STRESS_SERVERS=1", "STRESS_PROCESSES=3", "STRESS_GOROUTINES=32",
			"STRESS_LOCKS=32", "STRESS_FAULTS=40", "STRESS_ROUND=5s", "STRESS_PATIENCE=10s", "STRESS_FIRST=1")
	}
	if l.explore > 0 {
		cmd.Env = append(os.Environ(), "EXPLORE="+l.explore.String(), "EXPLORE_STOP=true", "EXPLORE_JOBS=1", "EXPLORE_FROM=1")
		if kind != "" {
			cmd.Env = append(cmd.Env, "EXPLORE_KIND="+kind)
		}
	}
	cmd.Dir = filepath.Join(l.root, filepath.FromSlash(t.pkg))
	began := time.Now()
	out, err := cmd.CombinedOutput()
	o := outcome{passed: err == nil, ended: cmd.ProcessState != nil && cmd.ProcessState.Exited(), took: time.Since(began), text: string(out)}
	if l.soak > 0 { // it also fails when it was too short to mean something
		o.finding = finding.FindString(o.text)
		o.passed = o.ended && o.finding == ""
	}
	return o
}

// failed tells which test failed, or what ended the program.
func (o outcome) failed() string {
	if o.finding != "" {
		return o.finding
	}
	last := ""
	for line := range strings.Lines(o.text) {
		line = strings.TrimSpace(line)
		if name, ok := strings.CutPrefix(line, "--- FAIL: "); ok {
			name, _, _ = strings.Cut(name, " (")
			if strings.HasPrefix(name, last) { // the part, not the whole
				last = name
			}
		}
		if strings.HasPrefix(line, "panic: ") {
			return line
		}
	}
	if last != "" {
		return last
	}
	text := strings.TrimSpace(o.text)
	return "after the tests: " + text[strings.LastIndexByte(text, '\n')+1:]
}
