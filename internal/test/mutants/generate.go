package main

import (
	_ "embed"
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Generated mutants find what nobody has thought of. A seed draws a sample of all changes of a few
// kinds: a condition is negated, a statement dropped or swapped with the next, a comparison off by
// one. They are made from the syntax tree, so they follow the code.
//
// Why no existing program does this: Gremlins (v0.6) changes operators only, so it never drops a
// call or swaps two statements. It runs the tests of the changed package or of the whole module,
// where a mutant of internal/wire needs the tests of internal/zkclient, then the explorer.
// go-mutesting drops statements, but writes each mutant over the file in the tree, and accepts
// survivors by checksum, so each change of a file voids its list. Ooze runs one command for every
// mutant, as a rule the whole suite. None of them draws a sample, and all 2,700 mutants of the core
// would take days.

// core are the packages that mutants are generated from, and the packages whose tests judge them
// after their own: the recipes that use them. The explorer comes last.
var core = map[string][]string{
	"internal/znode": {"internal/queue"}, "internal/hold": {"internal/queue", "rwlock"},
	"internal/queue": {"rwlock", "semaphore", "reentrant", "."}, "internal/zkclient": {"internal/queue", "rwlock"},
	"internal/wire": {"internal/zkclient", "."}, "rwlock": {"."}, "semaphore": {"."}, "reentrant": {"."}, "leader": {"."}, "once": {"."},
}

// A spot is where a generated mutant changes a file.
type spot struct {
	pkg, file string // from the root of the module
	in        string // the function
	line      int
	how       string // the kind of change
	old, new  string
	nth       int // of the spots of the function that are alike otherwise
	from, to  int // in the file
}

// id stays the same when code around it changes.
func (s spot) id() string {
	old := strings.Join(strings.Fields(s.old), " ")
	if s.nth > 0 {
		old += fmt.Sprintf(" #%d", s.nth+1)
	}
	return fmt.Sprintf("%s %s, %s: %s", s.pkg, s.in, s.how, old)
}

// spots are all that can be changed in a file.
func spots(pkg, file string, src []byte) ([]spot, error) {
	set := token.NewFileSet()
	tree, err := parser.ParseFile(set, file, src, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var all []spot
	seen := map[string]int{}
	for _, decl := range tree.Decls {
		fn, ok := decl.(*ast.FuncDecl)
		if !ok || fn.Body == nil {
			continue
		}
		text := func(n ast.Node) string { return string(src[set.Position(n.Pos()).Offset:set.Position(n.End()).Offset]) }
		add := func(how string, from, to ast.Node, replacement string) {
			s := spot{
				pkg: pkg, file: file, in: fn.Name.Name, how: how, new: replacement, line: set.Position(from.Pos()).Line,
				from: set.Position(from.Pos()).Offset, to: set.Position(to.End()).Offset,
			}
			s.old = string(src[s.from:s.to])
			if fn.Recv != nil {
				s.in = strings.TrimLeft(text(fn.Recv.List[0].Type), "*") + "." + s.in
			}
			id := s.id()
			s.nth = seen[id]
			seen[id]++
			all = append(all, s)
		}
		negate := func(cond ast.Expr) {
			if cond != nil {
				add("negate", cond, cond, "!("+text(cond)+")")
			}
		}
		block := func(list []ast.Stmt) {
			for i, stmt := range list {
				if movable(stmt) {
					add("drop", stmt, stmt, "")
				}
				if i > 0 && movable(list[i-1]) && movable(stmt) {
					add("swap", list[i-1], stmt, text(stmt)+"\n"+text(list[i-1]))
				}
			}
		}
		ast.Inspect(fn.Body, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.IfStmt:
				negate(n.Cond)
			case *ast.ForStmt:
				negate(n.Cond)
			case *ast.BlockStmt:
				block(n.List)
			case *ast.CaseClause:
				block(n.Body)
			case *ast.CommClause:
				block(n.Body)
			case *ast.DeferStmt:
				add("drop", n, n, "")
			case *ast.BinaryExpr:
				if off := offByOne[n.Op]; off != token.ILLEGAL {
					add("off by one", n, n, text(n.X)+" "+off.String()+" "+text(n.Y))
				}
				if n.Op == token.LAND || n.Op == token.LOR {
					add("drop", n, n, text(n.X))
				}
			}
			return true
		})
	}
	return all, nil
}

var offByOne = map[token.Token]token.Token{
	token.LSS: token.LEQ, token.LEQ: token.LSS, token.GTR: token.GEQ, token.GEQ: token.GTR,
}

// movable statements can change places with their neighbors, or go, and the rest mostly compiles.
func movable(stmt ast.Stmt) bool {
	switch stmt := stmt.(type) {
	case *ast.ExprStmt, *ast.GoStmt, *ast.IncDecStmt, *ast.SendStmt:
		return true
	case *ast.AssignStmt:
		return stmt.Tok != token.DEFINE
	}
	return false
}

// allSpots are the spots of the packages whose names match, in the order of their files.
func allSpots(root string, pattern *regexp.Regexp) (all []spot, err error) {
	for _, pkg := range slices.Sorted(maps.Keys(core)) {
		if !pattern.MatchString(pkg) {
			continue
		}
		built, err := build.ImportDir(filepath.Join(root, filepath.FromSlash(pkg)), 0)
		if err != nil {
			return nil, err
		}
		for _, file := range built.GoFiles {
			src, err := os.ReadFile(filepath.Join(built.Dir, file))
			if err != nil {
				return nil, err
			}
			some, err := spots(pkg, pkg+"/"+file, src)
			if err != nil {
				return nil, err
			}
			all = append(all, some...)
		}
	}
	return all, nil
}

// survivors.txt has the generated mutants that may survive: "ID | why". An entry whose code has
// gone does no harm.
//
//go:embed survivors.txt
var survivors string

// reasons returns why each of them may survive, by id.
func reasons() map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(survivors) {
		if id, why, ok := strings.Cut(strings.TrimSpace(line), " | "); ok && why != "" {
			all[id] = why
		}
	}
	return all
}

// generated draws n mutants. They are judged by the tests of their package, then by the tests of
// packages that use it, then by the explorer. A seed draws the same of the same code.
func generated(root string, pattern *regexp.Regexp, seed uint64, n int) (trials []trial, err error) {
	all, err := allSpots(root, pattern)
	if err != nil {
		return nil, err
	}
	fmt.Printf("%d of %d mutants, seed %d\n", min(n, len(all)), len(all), seed)
	random := rand.New(rand.NewPCG(seed, 0))
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	for _, s := range all[:min(n, len(all))] {
		src, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(s.file)))
		if err != nil {
			return nil, err
		}
		t := trial{
			name:    fmt.Sprintf("%s:%d  %s", s.file, s.line, s.id()),
			changed: map[string][]byte{s.file: slices.Concat(src[:s.from], []byte(s.new), src[s.to:])},
		}
		t.survivor, t.accepted = reasons()[s.id()], reasons()[s.id()] != ""
		for _, judge := range slices.Concat([]string{s.pkg}, core[s.pkg]) {
			t.judges = append(t.judges, target{judge, "."})
		}
		t.judges = append(t.judges, explorer)
		trials = append(trials, t)
	}
	return trials, nil
}
