package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/zklocks/zklocks/internal/test/realzk"
)

// make quick shows what fails and says what it left out.
func TestQuick(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("GOWORK", "off")
	t.Setenv(realzk.LeftOutEnv, "")
	for name, text := range map[string]string{
		"go.mod": "module example.com/m\n\ngo 1.25\n",
		"good/good_test.go": `package good
import ("os"; "testing")
func TestLeftOut(t *testing.T) {
	if err := os.WriteFile(os.Getenv("ZKLOCKS_LEFT_OUT"), []byte("TestLeftOut\nTestOther\n"), 0o600); err != nil { t.Fatal(err) }
}
`,
		"bad/bad_test.go": "package bad\nimport \"testing\"\nfunc TestBad(t *testing.T) { t.Error(\"it is broken\") }\n",
	} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var said strings.Builder
	if err := quick(&said, []string{"-C", dir, "./good"}); err != nil || !strings.Contains(said.String(), "2 tests were left out, because they need a real ZooKeeper") {
		t.Errorf("%v:\n%s", err, &said)
	}
	if err := quick(&said, []string{"-C", dir, "./bad"}, []string{"-C", dir, "./good"}); err == nil || !strings.Contains(said.String(), "it is broken") {
		t.Errorf("%v:\n%s", err, &said)
	}
}

// The test of each run exists.
func TestEachRunHasTests(t *testing.T) {
	for _, r := range runs {
		pattern := regexp.MustCompile("func (Benchmark)")
		if i := slices.Index(r.test, "-run"); r.test[i+1] != "^$" {
			pattern = regexp.MustCompile("func (" + strings.TrimSuffix(r.test[i+1], "$") + `)\(`)
		}
		for _, dir := range r.test {
			if !strings.HasPrefix(dir, "./") {
				continue
			}
			var all []byte
			files, _ := filepath.Glob("../../../" + dir + "/*_test.go")
			for _, file := range files {
				text, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, text...)
			}
			if !pattern.Match(all) {
				t.Errorf("%s: %s has no %s", r.name, dir, pattern)
			}
		}
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
