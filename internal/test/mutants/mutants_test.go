package main

import (
	"github.com/zklocks/zklocks/internal/test/patch"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The tests of the mutants take many minutes and are not part of the normal run.
// That the mutants still fit the code is.
func TestEveryMutantFitsTheCode(t *testing.T) {
	root, err := patch.Root()
	if err != nil {
		t.Fatal(err)
	}
	name := regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)
	c := newCompiler(root)
	c.list(t, root)
	c.list(t, filepath.Join(root, "cmd", "zklock")) // a module of its own
	tests := map[string]string{}
	names := map[string]bool{}
	for _, m := range all() {
		if !name.MatchString(m.name) || names[m.name] {
			t.Errorf("%s: not a good name, or the second of that name", m.name)
		}
		names[m.name] = true
		if m.why == "" || m.old == m.new {
			t.Errorf("%s: no bug, or nothing is said of it", m.name)
		}
		file, src, err := m.patched(root)
		if err != nil {
			t.Errorf("%s: %v", m.name, err)
			continue
		}
		if err := c.check(m.pkg, path.Base(file), src); err != nil {
			t.Errorf("%s: it does not compile, and shows nothing: %v", m.name, err)
		}
		pkg := m.test.pkg
		if _, ok := tests[pkg]; !ok {
			tests[pkg] = testsOf(t, filepath.Join(root, filepath.FromSlash(pkg)))
		}
		test, part, _ := strings.Cut(m.test.run, "/")
		if !strings.Contains(tests[pkg], "\nfunc "+test+"(") {
			t.Errorf("%s: %s has no %s", m.name, pkg, test)
		}
		if tests[contract] == "" {
			tests[contract] = testsOf(t, filepath.Join(root, filepath.FromSlash(contract)))
		}
		if part != "" && !strings.Contains(tests[pkg]+tests[contract], `"`+part+`"`) {
			t.Errorf("%s: no scenario is called %q", m.name, part)
		}
	}
}

const contract = "internal/test/contract"

// Each invariant of the core names a bug that breaks it.
func TestEachInvariantHasAMutant(t *testing.T) {
	root, err := patch.Root()
	if err != nil {
		t.Fatal(err)
	}
	doc, err := os.ReadFile(filepath.Join(root, "internal", "queue", "doc.go"))
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, m := range all() {
		names[m.name] = true
	}
	number := 0
	for _, item := range regexp.MustCompile(`(?m)^//  (\d+)\. `).Split(section(string(doc), "Invariants"), -1)[1:] {
		number++
		name := regexp.MustCompile(`\[([a-z0-9-]+)\]`).FindStringSubmatch(item)
		if name == nil || !names[name[1]] {
			t.Errorf("invariant %d names no mutant: %q", number, name)
		}
	}
	if number < 12 {
		t.Errorf("%d invariants were found", number)
	}
}

// section returns the text of a doc comment below a heading.
func section(doc, heading string) string {
	_, after, _ := strings.Cut(doc, "// # "+heading+"\n")
	text, _, _ := strings.Cut(after, "\n// # ")
	return text
}

// testsOf is the text of all that may be or name a test.
func testsOf(t *testing.T, dir string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, file := range files {
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(src)
	}
	return all.String()
}

func TestChoose(t *testing.T) {
	mutants := all()
	if got, err := choose(""); err != nil || len(got) != len(mutants) {
		t.Errorf("without a name: %d of %d, %v", len(got), len(mutants), err)
	}
	if got, err := choose(mutants[0].name); err != nil || len(got) != 1 || got[0].name != mutants[0].name {
		t.Errorf("by its name: %d, %v", len(got), err)
	}
	for _, bad := range []string{"there is none", "("} {
		if got, err := choose(bad); err == nil {
			t.Errorf("%q: %d", bad, len(got))
		}
	}
}

func TestTheTestThatFailedIsTold(t *testing.T) {
	for text, want := range map[string]string{
		"--- FAIL: TestA (1s)\n    --- PASS: TestA/x (0s)\n    --- FAIL: TestA/y (0s)\nFAIL\n": "TestA/y",
		"=== RUN TestA\npanic: test timed out after 2m0s\n":                                    "panic: test timed out after 2m0s",
		"--- PASS: TestA (0s)\nPASS\ngoleak: left over\n":                                      "after the tests: goleak: left over",
	} {
		if got := (outcome{text: text}).failed(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got, want := (target{run: "TestA/a b (c)"}).pattern(), `^TestA$/^a_b_\(c\)$`; got != want {
		t.Errorf("pattern %s, want %s", got, want)
	}
}
