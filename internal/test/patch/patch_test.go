package patch

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A fragment is found in any file of its package and in any layout, if it occurs once.
func TestAnAnchorIsAFragmentOfThePackage(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a.go":      "package a\n\nfunc one() int { return 1 + 2 } // the sum\n",
		"b.go":      "package a\n\nfunc two() {\n\tone()\n\tone()\n}\n",
		"b_test.go": "package a\n\nfunc three() int { return 1 + 2 }\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for old, want := range map[string]string{
		"return 1 + 2":      "package a\n\nfunc one() int { X } // the sum\n",
		"e() int":           "", // a part of a word
		"one(); one()":      "",
		"one()\none()":      "package a\n\nfunc two() {\n\tX\n}\n",
		"one()":             "", // three times
		"return 1 + 3":      "",
		"func one() string": "",
	} {
		changed, err := All(dir, Patch{Pkg: ".", Old: old, New: "X"})
		if got := string(changed["./a.go"]) + string(changed["./b.go"]); got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v", old, got, err)
		}
	}
	changed, err := All(dir, Patch{Pkg: ".", In: "two", Old: "two()", New: "X()"})
	if err != nil || !strings.Contains(string(changed["./b.go"]), "func X()") {
		t.Errorf("in one function: %q, %v", changed, err)
	}
}

func TestPatchesOfOneFile(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.go"), []byte("package a\n\nvar x, y = 1, 2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	changed, err := All(dir, Patch{Pkg: ".", Old: "1", New: "3"}, Patch{Pkg: ".", Old: "2", New: "4"})
	if err != nil || string(changed["./a.go"]) != "package a\n\nvar x, y = 3, 4\n" {
		t.Errorf("%q, %v", changed, err)
	}
	if _, err := All(dir, Patch{Pkg: ".", Old: "1", New: "3"}, Patch{Pkg: ".", Old: "1", New: "4"}); err == nil {
		t.Error("a text that is gone was replaced")
	}
}
