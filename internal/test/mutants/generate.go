package main

import (
	_ "embed"
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/zklocks/zklocks/internal/test/patch"
	"github.com/zklocks/zklocks/internal/test/yields"
)

// Generated mutants find what nobody has thought of. They are made from the syntax tree, so they
// follow the code, and a go test runs none of them. The program Gremlins (v0.6.0) does not fit: it
// changes operators alone, draws no samples, and judges by one go test, without the explorer.

// core are the packages that mutants are generated from, and the packages whose tests judge them
// after their own: the recipes that use them. The explorer comes last.
var core = map[string][]string{
	"internal/znode": {"internal/queue"}, "internal/hold": {"internal/queue", "rwlock"},
	"internal/queue": {"rwlock", "semaphore", "reentrant", "."}, "internal/zkclient": {"internal/queue", "rwlock"},
	"internal/wire": {"internal/zkclient", "."}, "rwlock": {"."}, "semaphore": {"."}, "reentrant": {"."}, "leader": {"."}, "once": {"."},
}

const explorer = "internal/test/explore"

// A spot is where a generated mutant changes a file.
type spot struct {
	pkg, file string // from the root of the module
	in        string // the function
	line      int
	how       string // the kind of change
	old, new  string
	nth       int // of the spots of the function that are alike otherwise
	site      [2]int
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
				site: [2]int{set.Position(from.Pos()).Offset, set.Position(to.End()).Offset},
			}
			s.old = string(src[s.site[0]:s.site[1]])
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
	case *ast.ExprStmt, *ast.IncDecStmt, *ast.SendStmt:
		return true
	case *ast.AssignStmt:
		return stmt.Tok != token.DEFINE
	}
	return false
}

// allSpots are the spots of the packages whose names contain part, in the order of their files.
func allSpots(root, part string) ([]spot, error) {
	var all []spot
	for pkg := range core {
		files, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(pkg), "*.go"))
		if err != nil || !strings.Contains(pkg, part) {
			continue
		}
		for _, file := range files {
			built, err := build.Default.MatchFile(filepath.Split(file))
			if err != nil {
				return nil, err
			}
			if !built || strings.HasSuffix(file, "_test.go") {
				continue
			}
			src, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			some, err := spots(pkg, pkg+"/"+filepath.Base(file), src)
			if err != nil {
				return nil, err
			}
			all = append(all, some...)
		}
	}
	slices.SortStableFunc(all, func(a, b spot) int { return strings.Compare(a.file, b.file) })
	return all, nil
}

// sample draws n of the spots. A seed draws the same of the same code.
func sample(all []spot, seed uint64, n int) []spot {
	random := rand.New(rand.NewPCG(seed, 0))
	all = slices.Clone(all)
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all[:min(n, len(all))]
}

// survivors.txt has the generated mutants that may survive: "ID | why". An entry whose code has
// gone does no harm.
//
//go:embed survivors.txt
var survivors string

// accepted are the reasons, by id.
func accepted() map[string]string {
	reasons := map[string]string{}
	for line := range strings.Lines(survivors) {
		if id, why, ok := strings.Cut(strings.TrimSpace(line), " | "); ok {
			reasons[id] = why
		}
	}
	return reasons
}

// generate draws n mutants and has them judged. It returns false if one survives without a reason.
func (l *lab) generate(part string, seed uint64, n, jobs int) bool {
	all, err := allSpots(l.root, part)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return false
	}
	drawn, reasons := sample(all, seed, n), accepted()
	fmt.Printf("%d of %d mutants, seed %d\n", len(drawn), len(all), seed)
	var packages []string
	for _, s := range drawn {
		packages = append(packages, judges(s.pkg)...)
	}
	slices.Sort(packages)
	packages = slices.Compact(packages)
	var mu sync.Mutex
	sound := true
	each(jobs, packages, func(pkg string) {
		r := l.look(pkg, "", nil)
		mu.Lock()
		defer mu.Unlock()
		if r.verdict != survived {
			fmt.Printf("without a mutant: %s: %s\n", pkg, r.text)
			sound = false
		}
	})
	if !sound {
		return false
	}
	count := map[verdict]int{}
	each(jobs, drawn, func(s spot) {
		r := l.judge(s)
		if why, ok := reasons[s.id()]; ok && r.verdict == survived {
			r.verdict, r.text = excused, why
		}
		mu.Lock()
		defer mu.Unlock()
		count[r.verdict]++
		fmt.Printf("%-8s %6.1fs  %s:%d  %s\n%18s%s\n", r.verdict, r.took.Seconds(), s.file, s.line, s.id(), "", r.text)
	})
	fmt.Printf("%d killed, %d survived, %d accepted, %d in error\n", count[killed], count[survived], count[excused], count[failed])
	return count[survived] == 0 && l.ctx.Err() == nil
}

// judges are the packages whose tests look at a mutant of a package, one after the other.
func judges(pkg string) []string { return slices.Concat([]string{pkg}, core[pkg], []string{explorer}) }

// judge has each of the judges look at a mutant, until one fails.
func (l *lab) judge(s spot) result {
	src, err := os.ReadFile(filepath.Join(l.root, filepath.FromSlash(s.file)))
	if err != nil {
		return result{verdict: failed, text: err.Error()}
	}
	if s.site[1] > len(src) || string(src[s.site[0]:s.site[1]]) != s.old {
		return result{verdict: failed, text: "the file has changed since the mutants were drawn"}
	}
	src = slices.Concat(src[:s.site[0]], []byte(s.new), src[s.site[1]:])
	began := time.Now()
	for _, pkg := range judges(s.pkg) {
		if r := l.look(pkg, s.file, src); r.verdict != survived {
			r.took = time.Since(began)
			return r
		}
	}
	return result{survived, time.Since(began), "no test of these fails: " + strings.Join(judges(s.pkg), ", ")}
}

// look runs all tests of a package on a library in which one file is changed; no file: on the
// library as it is.
func (l *lab) look(pkg, file string, src []byte) result {
	dir, err := os.MkdirTemp(l.dir, "generated-")
	if err != nil {
		return result{verdict: failed, text: err.Error()}
	}
	defer os.RemoveAll(dir)
	changed := map[string][]byte{}
	if file != "" {
		changed[file] = src
	}
	t, overlay := target{pkg: pkg}, ""
	if pkg == explorer {
		t.run = "TestExplore"
		overlay, err = yields.Write(l.root, dir, changed)
	} else {
		overlay, err = patch.Overlay(l.root, dir, changed)
	}
	if err != nil {
		return result{verdict: failed, text: err.Error()}
	}
	program, err := l.build(pkg, filepath.Join(filepath.Base(dir), "program"), overlay)
	if err != nil {
		return result{verdict: failed, text: "does not compile"}
	}
	out := l.test(program, t, "")
	switch {
	case l.ctx.Err() != nil:
		return result{verdict: failed, text: "interrupted"}
	case out.passed:
		return result{verdict: survived}
	}
	return result{verdict: killed, text: pkg + " " + out.failed()}
}
