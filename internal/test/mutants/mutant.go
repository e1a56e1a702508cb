package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// mutant is one bug, put in on purpose, and the test that must notice.
type mutant struct {
	name string
	pkg  string // the directory of the package, from the root of the module
	why  string // it is wrong
	in   string // the function, as "claim" or "Client.claim"; "" where the package has the fragment but once
	old  string // what stands there, exactly once: a fragment of Go, see sites
	new  string // what the mutant has in its place
	test target

	// unexplored says why the explorer cannot find it: "" if it must.
	unexplored string
}

// target is what kills it: a package, and a -run.
type target struct{ pkg, run string }

// The targets of the packages, by the name of the test alone.
func inRoot(run string) target      { return target{".", run} }
func inZnode(run string) target     { return target{"internal/znode", run} }
func inHold(run string) target      { return target{"internal/hold", run} }
func inLink(run string) target      { return target{"internal/liveness", run} }
func inQueue(run string) target     { return target{"internal/queue", run} }
func inSession(run string) target   { return target{"internal/zkclient", run} }
func inRwlock(run string) target    { return target{"rwlock", run} }
func inSemaphore(run string) target { return target{"semaphore", run} }
func inReentrant(run string) target { return target{"reentrant", run} }
func inWire(run string) target      { return target{"internal/wire", run} }
func inTakeover(run string) target  { return target{"internal/test/takeover", run} }
func inProxy(run string) target     { return target{"internal/test/proxy", run} }
func inMemnet(run string) target    { return target{"internal/memnet", run} }
func inKit(run string) target       { return target{"zktest", run} }
func inHistory(run string) target   { return target{"internal/test/history", run} }

// scenario is one of the contract, run over a recipe by the test of that name.
func scenario(in func(string) target, recipe, name string) target {
	return in(recipe + "/" + name)
}

// pattern is the -run of exactly this test: its name may have spaces, and parts.
func (t target) pattern() string {
	parts := strings.Split(t.run, "/")
	for i, part := range parts {
		parts[i] = "^" + regexp.QuoteMeta(strings.ReplaceAll(part, " ", "_")) + "$"
	}
	return strings.Join(parts, "/")
}

func (t target) String() string { return t.pkg + " " + t.run }

// all are the mutants, in the order of the layers.
func all() []mutant {
	return slices.Concat(ofTheLine, ofTheSession, ofTheHold, ofTheShared, ofTheRecipes, ofTheConnection, ofTheFrontDoor, ofTheJudges)
}

// patched returns the file that the mutant changes, from the root of the module, with the bug in it.
func (m mutant) patched(root string) (file string, src []byte, err error) {
	paths, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(m.pkg), "*.go"))
	if err != nil {
		return "", nil, err
	}
	found := 0
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return "", nil, err
		}
		for _, at := range sites(text, m.old) {
			if m.in != "" && !slices.ContainsFunc(functions(text, m.in), at.within) {
				continue
			}
			if found++; found == 1 {
				file = m.pkg + "/" + filepath.Base(path)
				src = slices.Concat(text[:at.from], []byte(m.new), text[at.to:])
			}
		}
	}
	if found != 1 {
		return "", nil, fmt.Errorf("its text stands %d times in %s %s, want once: the mutant has to follow the code", found, m.pkg, m.in)
	}
	return file, src, nil
}

// A site is a part of a file, in bytes.
type site struct{ from, to int }

// sites returns where a fragment of Go stands in a file. It compares tokens: comments, line breaks and the
// file within the package are no part of an anchor.
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

// functions returns where the functions of a name stand in a file.
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

// A lexeme is one token of Go, and where it stands.
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
		case tok == token.SEMICOLON && text != ";": // that of a line break
			continue
		case text == "":
			text = tok.String()
		}
		from := file.Offset(pos)
		all = append(all, lexeme{tok, text, site{from, from + len(text)}})
	}
}
