package main

import (
	"context"
	"os"
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

func TestQuickSaysWhatWasLeftOut(t *testing.T) {
	var b strings.Builder
	if err := quick(t.Context(), sample(t, "good", "hangs", "none"), &b); err != nil {
		t.Error(err)
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
	if err := quick(t.Context(), sample(t, "bad", "unbuilt", "panics", "exits"), &b); err == nil {
		t.Error("it passed")
	}
	for _, want := range []string{
		"--- FAIL: TestWhole ", "whole is broken", "--- FAIL: TestWhole2/bad ", "a part is broken", "undefined: missing",
		"panic: oops", "FAIL\texample.com/m/exits\t", "FAIL\texample.com/m/bad\t", "FAIL\texample.com/m/unbuilt [build failed]", "No test was left out for want of a ZooKeeper.",
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
	if err := quick(t.Context(), sample(t, "none"), &strings.Builder{}); err == nil {
		t.Error("quick passed")
	}
}

func TestQuickIsInterrupted(t *testing.T) {
	t.Setenv("HANG", "1")
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(time.Second, cancel) // builds or runs by then; either is to end
	test.Within(t, 10*time.Second, "an interrupted run", func() {
		if err := quick(ctx, sample(t, "hangs"), &strings.Builder{}); err == nil {
			t.Error("it passed")
		}
	})
}

// Each run names tests that exist.
func TestEachRunHasTests(t *testing.T) {
	for _, r := range runs {
		t.Run(r.name, func(t *testing.T) {
			pattern := "."
			for i, arg := range r.test {
				if (arg == "-run" || arg == "-bench") && r.test[i+1] != "^$" {
					pattern = r.test[i+1]
				}
			}
			dirs := 0
			for _, arg := range r.test {
				dir, ok := strings.CutPrefix(arg, "./")
				if !ok {
					continue
				}
				dirs++
				found := false
				files, _ := filepath.Glob("../../../" + dir + "/*_test.go")
				for _, file := range files {
					text, err := os.ReadFile(file)
					if err != nil {
						t.Fatal(err)
					}
					for _, m := range regexp.MustCompile(`(?m)^func ((?:Test|Benchmark)\w+)\(`).FindAllStringSubmatch(string(text), -1) {
						found = found || regexp.MustCompile(pattern).MatchString(m[1])
					}
				}
				if !found {
					t.Errorf("%s has no %s", dir, pattern)
				}
			}
			if dirs == 0 {
				t.Error("it tests no package")
			}
		})
	}
}

// A flag of a run is a variable of its test, or a flag of go test. A variable that is set is kept.
func TestFlagsAreVariables(t *testing.T) {
	for _, name := range []string{"SIZE", "SEED", "KEPT"} {
		t.Setenv("SUITE_"+name, "")
	}
	t.Setenv("SUITE_KEPT", "7")
	r := run{options: []option{
		{"size", "SUITE_SIZE", "5", ""}, {"seed", "SUITE_SEED", "", ""}, {"kept", "SUITE_KEPT", "6", ""},
		{"race", "", "false", ""}, {"count", "", "", ""},
	}}
	more, err := r.parse([]string{"-seed", "3", "-race", "-count", "2", "--", "-v"})
	if err != nil || !slices.Equal(more, []string{"-race=true", "-count=2", "-v"}) {
		t.Errorf("go test gets %q, %v", more, err)
	}
	if got := os.Getenv("SUITE_SIZE") + os.Getenv("SUITE_SEED") + os.Getenv("SUITE_KEPT"); got != "537" {
		t.Errorf("size, seed and kept are %s, want 537", got)
	}
	if _, err := r.parse([]string{"-sneed", "3"}); err == nil {
		t.Error("a flag that is none is taken")
	}
}
