package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/realzk"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == spinner {
		spin()
	}
	goleak.VerifyTestMain(m)
}

func TestTheSentenceIsThatOfTheTests(t *testing.T) {
	if leftOut != realzk.LeftOut {
		t.Errorf("%q is counted, tests say %q", leftOut, realzk.LeftOut)
	}
}

// sources are packages that end in every way in which a package can.
var sources = map[string]string{
	"go.mod": "module example.com/m\n\ngo 1.25\n",
	"good/good_test.go": `package good
import "testing"
func TestGood(t *testing.T) {}
func TestLeftOut(t *testing.T) { t.Skip("needs a real ZooKeeper: make test installs one") }
func TestParts(t *testing.T) {
	t.Run("left out", func(t *testing.T) { t.Skip("needs a real ZooKeeper: make test installs one") })
	t.Run("run", func(t *testing.T) {})
}
func TestOther(t *testing.T) { t.Skip("needs a moon") }
`,
	"bad/bad_test.go": `package bad
import "testing"
func TestWhole(t *testing.T) { t.Error("whole is broken") }
func TestWhole2(t *testing.T) { t.Run("good", func(t *testing.T) {}); t.Run("bad", func(t *testing.T) { t.Error("a part is broken") }) }
func TestGood(t *testing.T) { t.Log("nothing to see") }
`,
	"unbuilt/unbuilt_test.go": `package unbuilt
import "testing"
func TestNever(t *testing.T) { missing() }
`,
	"panics/panics_test.go": `package panics
import "testing"
func TestBefore(t *testing.T) {}
func TestPanics(t *testing.T) { panic("oops") }
`,
	"hangs/hangs_test.go": `package hangs
import ("testing"; "os")
func TestHangs(t *testing.T) {
	if os.Getenv("HANG") == "" { return }
	t.Run("here", func(t *testing.T) { select {} })
}
`,
	"exits/exits_test.go": `package exits
import ("os"; "testing")
func TestMain(m *testing.M) { m.Run(); println("a goroutine is left over"); os.Exit(1) }
func TestGood(t *testing.T) {}
`,
	"none/none.go": "package none\n",
	// Fails in every second run.
	"chance/chance_test.go": `package chance
import ("os"; "testing")
func TestChance(t *testing.T) {
	mark := os.Getenv("MARK")
	if os.Remove(mark) == nil { t.Error("bad luck") } else { os.WriteFile(mark, nil, 0o644) }
}
`,
}

// sample writes the packages of that name, and returns the command that tests them.
func sample(t *testing.T, packages ...string) (command []string) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range sources {
		if pkg, _ := filepath.Split(name); pkg == "" || slices.Contains(packages, filepath.Base(pkg)) {
			file := filepath.Join(dir, name)
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Setenv("GOWORK", "off")
	return []string{"go", "test", "-C", dir, "-json", "-count=1", "./..."}
}

// compiled returns a command that tests one package, which is compiled but once, however often the
// command runs.
func compiled(t *testing.T, pkg string) (command []string) {
	t.Helper()
	program := filepath.Join(t.TempDir(), "program")
	dir := sample(t, pkg)[3]
	if out, err := exec.Command("go", "test", "-C", dir, "-c", "-o", program, "./"+pkg).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return []string{"go", "tool", "test2json", "-p", "example.com/m/" + pkg, program, "-test.v=test2json"}
}

func TestFailuresHaveNames(t *testing.T) {
	t.Setenv("HANG", "1")
	command := append(sample(t, "good", "bad", "unbuilt", "panics", "hangs", "exits", "none"), "-timeout=2s")
	log := filepath.Join(t.TempDir(), "log")
	_, got, err := once(t.Context(), command, log)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"example.com/m/bad TestWhole", "example.com/m/bad TestWhole2/bad",
		"example.com/m/exits (outside of its tests)",
		"example.com/m/hangs TestHangs/here (did not end)",
		"example.com/m/panics TestPanics",
		"example.com/m/unbuilt (does not build)",
	}
	if !slices.Equal(got, want) {
		t.Errorf("failed:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"whole is broken", "a part is broken", "panic: oops", "undefined: missing", "a goroutine is left over", "panic: test timed out"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the log does not say %q:\n%s", want, text)
		}
	}
}

// make test tests a package in two goes: with the race detector, and what has no use of it without,
// with the benchmarks.
func TestAFailureOutlivesAnotherGo(t *testing.T) {
	out := `{"Action":"run","Package":"p","Test":"TestBad"}
{"Action":"fail","Package":"p","Test":"TestBad"}
{"Action":"run","Package":"p","Test":"TestHangs"}
{"Action":"fail","Package":"p","Elapsed":1}
{"Action":"run","Package":"p","Test":"TestModel"}
{"Action":"pass","Package":"p","Test":"TestModel"}
{"Action":"run","Package":"p","Test":"BenchmarkLock"}
{"Action":"pass","Package":"p","Elapsed":2}
`
	rep, err := read(strings.NewReader(out), nil)
	if err != nil {
		t.Fatal(err)
	}
	if p := rep.packs["p"]; p.seconds != 3 || !slices.Equal(p.failures(), []string{"TestBad", "TestHangs (did not end)"}) {
		t.Errorf("%v after %v s", p.failures(), p.seconds)
	}
}

func TestQuickSaysWhatWasLeftOut(t *testing.T) {
	var b strings.Builder
	passed, err := quick(t.Context(), sample(t, "good", "hangs", "none"), &b)
	if err != nil || !passed {
		t.Errorf("passed: %v, %v", passed, err)
	}
	want := regexp.MustCompile(`^(.*\n)*ok  \texample.com/m/good\t[0-9.]+s\t\[2 left out\]\n(.*\n)*
2 tests in 1 package left out, because no ZooKeeper is installed: make test installs one and runs all\. 1 test skipped for other reasons, which go test -v names\. \d+ s\.\n$`)
	if !want.MatchString(b.String()) {
		t.Errorf("it says:\n%s", &b)
	}
	for _, line := range []string{"ok  \texample.com/m/hangs\t", "?   \texample.com/m/none\t[no test files]\n"} {
		if !strings.Contains(b.String(), line) {
			t.Errorf("it does not say %q:\n%s", line, &b)
		}
	}
}

func TestQuickShowsFailures(t *testing.T) {
	var b strings.Builder
	passed, err := quick(t.Context(), sample(t, "bad", "unbuilt"), &b)
	if err != nil || passed {
		t.Errorf("passed: %v, %v", passed, err)
	}
	for _, want := range []string{
		"--- FAIL: TestWhole ", "whole is broken", "--- FAIL: TestWhole2/bad ", "a part is broken", "undefined: missing",
		"FAIL\texample.com/m/bad\t", "FAIL\texample.com/m/unbuilt [build failed]", "No test was left out for want of a ZooKeeper.",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("it does not say %q:\n%s", want, &b)
		}
	}
	if strings.Contains(b.String(), "nothing to see") {
		t.Errorf("it shows a test that passes:\n%s", &b)
	}
}

func TestNoTestIsNoSuccess(t *testing.T) {
	if passed, err := quick(t.Context(), sample(t, "none"), &strings.Builder{}); passed || err == nil {
		t.Errorf("quick passed: %v, %v", passed, err)
	}
	s := settings{runs: 1, logs: t.TempDir(), command: sample(t, "none")}
	if passed, err := again(t.Context(), s, &strings.Builder{}); passed || err == nil {
		t.Errorf("again passed: %v, %v", passed, err)
	}
	s.command = []string{"go", "no-such-command"}
	if passed, err := again(t.Context(), s, &strings.Builder{}); passed || err == nil || !strings.Contains(err.Error(), "unknown command") {
		t.Errorf("a command that fails: passed: %v, %v", passed, err)
	}
}

func TestAgainCountsFailures(t *testing.T) {
	logs := filepath.Join(t.TempDir(), "logs")
	var b strings.Builder
	t.Setenv("MARK", filepath.Join(t.TempDir(), "mark"))
	s := settings{runs: 5, busy: 1, logs: logs, command: compiled(t, "chance")}
	if err := os.Mkdir(logs, 0o755); err != nil {
		t.Fatal(err)
	}
	passed, err := again(t.Context(), s, &b)
	if err != nil || passed {
		t.Errorf("passed: %v, %v", passed, err)
	}
	for _, want := range []string{
		`run 1 of 5: [0-9.]+ s, ok\n`,
		`run 4 of 5: [0-9.]+ s, FAILED example.com/m/chance TestChance\n`,
		`\ntest +failures +of runs +first log\nexample.com/m/chance TestChance +2 +5 +run-002.log\n`,
		`\n5 runs, 2 failed; seconds a run: [0-9.]+ to [0-9.]+, median [0-9.]+\nThe logs are in ` + regexp.QuoteMeta(logs) + `\n$`,
	} {
		if !regexp.MustCompile(want).MatchString(b.String()) {
			t.Errorf("it does not say %q:\n%s", want, &b)
		}
	}
	files, err := os.ReadDir(logs)
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(files); got != "[- run-002.log - run-004.log]" {
		t.Errorf("logs: %s", got)
	}
}

func TestAgainLeavesNothingWhenAllPass(t *testing.T) {
	logs := t.TempDir()
	var b strings.Builder
	passed, err := again(t.Context(), settings{runs: 2, logs: logs, command: compiled(t, "good")}, &b)
	if err != nil || !passed || !strings.Contains(b.String(), "\n2 runs, 0 failed; ") || strings.Contains(b.String(), "first log") {
		t.Errorf("passed: %v, %v\n%s", passed, err, &b)
	}
	if _, err := os.Stat(logs); !os.IsNotExist(err) {
		t.Errorf("the directory of the logs is still there: %v", err)
	}
}

func TestAgainIsInterrupted(t *testing.T) {
	t.Setenv("HANG", "1")
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(time.Second, cancel) // builds or runs by then; either is to end
	var b strings.Builder
	var passed bool
	var err error
	test.Within(t, 10*time.Second, "an interrupted run", func() {
		passed, err = again(ctx, settings{runs: 2, busy: 2, logs: t.TempDir(), command: sample(t, "hangs")}, &b)
	})
	if passed || err != nil || b.String() != "\n0 runs, 0 failed\n" {
		t.Errorf("passed: %v, %v\n%s", passed, err, &b)
	}
}

func TestBusyProcessesEnd(t *testing.T) {
	stop, err := keepBusy(2)
	if err != nil {
		t.Fatal(err)
	}
	stop()
	// The same when the process that started them is killed: their input ends.
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, spinner)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	in.Close()
	test.Within(t, 10*time.Second, "the end of a busy process", func() { err = cmd.Wait() })
	if err != nil || out.Len() > 0 {
		t.Errorf("it ends with %v\n%s", err, &out)
	}
}

func TestMedian(t *testing.T) {
	for want, seconds := range map[string][]float64{
		"1 run, 0 failed; seconds a run: 3.0 to 3.0, median 3.0\n":  {3},
		"2 runs, 0 failed; seconds a run: 1.0 to 4.0, median 2.5\n": {4, 1},
		"3 runs, 0 failed; seconds a run: 1.0 to 9.0, median 2.0\n": {9, 1, 2},
	} {
		var all table
		for _, s := range seconds {
			all.add(s, nil, "")
		}
		if got := all.String(); got != want {
			t.Errorf("%v: %q, want %q", seconds, got, want)
		}
	}
}
