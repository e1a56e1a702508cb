// Package patch makes copies of the library with a few fragments of code replaced, which the
// compiler reads instead of the files in the tree (go build -overlay).
package patch

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// A Patch replaces a fragment.
type Patch struct {
	Pkg string // the package's directory, from the root of the module
	In  string // the function, as "claim" or "Client.claim"; "" if the fragment is unique in the package
	Old string // the fragment, which must occur exactly once; line breaks and indentation do not matter
	New string
}

// All applies the patches in order. It returns the new text of the files that change, by path from
// the root of the module.
func All(root string, patches ...Patch) (changed map[string][]byte, err error) {
	changed = map[string][]byte{}
	for _, p := range patches {
		if err := p.apply(root, changed); err != nil {
			return nil, err
		}
	}
	return changed, nil
}

func (p Patch) apply(root string, changed map[string][]byte) error {
	paths, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(p.Pkg), "*.go"))
	if err != nil {
		return err
	}
	found, file, src := 0, "", []byte(nil)
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		name := p.Pkg + "/" + filepath.Base(path)
		text := changed[name]
		if text == nil {
			if text, err = os.ReadFile(path); err != nil {
				return err
			}
		}
		for _, at := range sites(text, p.Old) {
			if p.In == "" || slices.ContainsFunc(functions(text, p.In), at.within) {
				found++
				file, src = name, slices.Concat(text[:at.from], []byte(p.New), text[at.to:])
			}
		}
	}
	if found != 1 {
		return fmt.Errorf("its text stands %d times in %s %s, want once: it has to follow the code", found, p.Pkg, p.In)
	}
	changed[file] = src
	_, err = parser.ParseFile(token.NewFileSet(), file, src, parser.SkipObjectResolution)
	return err
}

// Root returns the directory of the module.
func Root() (string, error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return "", fmt.Errorf("go list -m: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// Overlay writes the changed files and the overlay for go build -overlay into dir, and returns the
// path of the overlay.
func Overlay(root, dir string, changed map[string][]byte) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	replace := map[string]string{}
	for file, src := range changed {
		copied := filepath.Join(dir, strings.ReplaceAll(file, "/", "-"))
		if err := os.WriteFile(copied, src, 0o600); err != nil {
			return "", err
		}
		replace[filepath.Join(root, filepath.FromSlash(file))] = copied
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	overlay := filepath.Join(dir, "overlay.json")
	return overlay, os.WriteFile(overlay, text, 0o600)
}

// A site is a part of a file, as byte offsets.
type site struct{ from, to int }

// sites returns where a fragment of Go stands in a file. Line breaks and indentation do not matter.
func sites(file []byte, fragment string) (found []site) {
	words := strings.Fields(fragment)
	for i := range words {
		words[i] = regexp.QuoteMeta(words[i])
	}
	pattern := strings.Join(words, `\s+`)
	if regexp.MustCompile(`^\w`).MatchString(pattern) { // not the end of a word
		pattern = `\b` + pattern
	}
	if regexp.MustCompile(`\w$`).MatchString(pattern) {
		pattern += `\b`
	}
	for _, at := range regexp.MustCompile(pattern).FindAllIndex(file, -1) {
		found = append(found, site{at[0], at[1]})
	}
	return found
}

func (s site) within(other site) bool { return other.from <= s.from && s.to <= other.to }

// functions returns the sites of the functions with a name.
func functions(src []byte, name string) []site {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, "", src, parser.SkipObjectResolution)
	if err != nil {
		return nil
	}
	var found []site
	for _, decl := range file.Decls {
		f, ok := decl.(*ast.FuncDecl)
		if !ok {
			continue
		}
		full := f.Name.Name
		if f.Recv != nil {
			receiver := f.Recv.List[0].Type
			if star, ok := receiver.(*ast.StarExpr); ok {
				receiver = star.X
			}
			full = fmt.Sprint(receiver) + "." + full
		}
		if name == full || name == f.Name.Name {
			found = append(found, site{set.Position(f.Pos()).Offset, set.Position(f.End()).Offset})
		}
	}
	return found
}
