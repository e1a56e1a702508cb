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

// sources are packages with tests that pass, fail, are left out and hang.
var sources = map[string]string{
	"go.mod": "module example.com/m\n\ngo 1.25\n",
	"good/good_test.go": `package good
import ("os"; "testing")
func TestGood(t *testing.T) {}
func TestLeftOut(t *testing.T) {
	if err := os.WriteFile(os.Getenv("ZKLOCKS_LEFT_OUT"), []byte("TestLeftOut\nTestOther\n"), 0o600); err != nil { t.Fatal(err) }
}
`,
	"bad/bad_test.go":     "package bad\nimport \"testing\"\nfunc TestBad(t *testing.T) { t.Error(\"it is broken\") }\n",
	"hangs/hangs_test.go": "package hangs\nimport \"testing\"\nfunc TestHangs(t *testing.T) { select {} }\n",
}

// try runs quick over the packages of that name.
func try(ctx context.Context, t *testing.T, packages ...string) (said string, err error) {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("GOWORK", "off")
	t.Setenv(realzk.LeftOutEnv, "")
	args := []string{"-C", dir}
	for name, text := range sources {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range packages {
		args = append(args, "./"+p)
	}
	var b strings.Builder
	err = quick(ctx, args, &b)
	return b.String(), err
}

func TestQuick(t *testing.T) {
	said, err := try(t.Context(), t, "good")
	if err != nil || !strings.Contains(said, "2 tests were left out, because they need a real ZooKeeper") {
		t.Errorf("%v:\n%s", err, said)
	}
	if said, err = try(t.Context(), t, "good", "bad"); err == nil || !strings.Contains(said, "it is broken") {
		t.Errorf("%v:\n%s", err, said)
	}
}

func TestQuickIsInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(time.Second, cancel) // builds or runs by then; either is to end
	test.Within(t, time.Minute, "an interrupted run", func() {
		if said, err := try(ctx, t, "hangs"); err == nil {
			t.Errorf("it passed:\n%s", said)
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
