// Package patch makes copies of the library with a few fragments of code replaced, which the
// compiler reads instead of the files in the tree (go build -overlay).
package patch

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// A Patch replaces a fragment.
type Patch struct {
	Pkg string // the package's directory, from the root of the module
	In  string // the function, as "claim" or "Client.claim"; "" if the fragment is unique in the package
	Old string // the fragment, which must occur exactly once; it is compared by tokens
	New string
}

// Apply returns the file that the patch changes, from the root of the module, and its new text.
func (p Patch) Apply(root string) (file string, src []byte, err error) {
	return p.apply(root, nil)
}

// apply applies the patch after the earlier changes.
func (p Patch) apply(root string, before map[string][]byte) (file string, src []byte, err error) {
	paths, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(p.Pkg), "*.go"))
	if err != nil {
		return "", nil, err
	}
	found := 0
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		name := p.Pkg + "/" + filepath.Base(path)
		text := before[name]
		if text == nil {
			if text, err = os.ReadFile(path); err != nil {
				return "", nil, err
			}
		}
		for _, at := range sites(text, p.Old) {
			if p.In != "" && !slices.ContainsFunc(functions(text, p.In), at.within) {
				continue
			}
			if found++; found == 1 {
				file = name
				src = slices.Concat(text[:at.from], []byte(p.New), text[at.to:])
			}
		}
	}
	if found != 1 {
		return "", nil, fmt.Errorf("its text stands %d times in %s %s, want once: it has to follow the code", found, p.Pkg, p.In)
	}
	return file, src, nil
}

// All applies the patches in order.
func All(root string, patches ...Patch) (changed map[string][]byte, err error) {
	changed = map[string][]byte{}
	for _, p := range patches {
		file, src, err := p.apply(root, changed)
		if err != nil {
			return nil, err
		}
		changed[file] = src
	}
	return changed, nil
}

// Variant writes the files of an overlay with these patches into dir, and returns the path of the
// overlay for go build -overlay.
func Variant(root, dir string, patches ...Patch) (overlay string, err error) {
	changed, err := All(root, patches...)
	if err != nil {
		return "", err
	}
	return Overlay(root, dir, changed)
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

// sites returns where a fragment of Go occurs in a file. It compares tokens, so comments and line
// breaks do not matter.
func sites(file []byte, fragment string) []site {
	var found []site
	all, want := tokens(file), tokens([]byte(fragment))
	for i := 0; i+len(want) <= len(all); i++ {
		same := func(a, b lexeme) bool { return a.tok == b.tok && a.text == b.text }
		if slices.EqualFunc(all[i:i+len(want)], want, same) {
			found = append(found, site{all[i].from, all[i+len(want)-1].to})
		}
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

// A lexeme is a token of Go and its site.
type lexeme struct {
	tok  token.Token
	text string
	site
}

func tokens(src []byte) []lexeme {
	var s scanner.Scanner
	file := token.NewFileSet().AddFile("", -1, len(src))
	s.Init(file, src, func(token.Position, string) {}, 0)
	var all []lexeme
	for {
		pos, tok, text := s.Scan()
		switch {
		case tok == token.EOF:
			return all
		case tok == token.SEMICOLON && text != ";": // inserted at a line break
			continue
		case text == "":
			text = tok.String()
		}
		from := file.Offset(pos)
		all = append(all, lexeme{tok, text, site{from, from + len(text)}})
	}
}
