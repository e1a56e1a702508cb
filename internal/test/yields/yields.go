// Package yields makes goroutines interleave. Within an instant of a bubble a goroutine runs until
// it blocks, so two goroutines that use one value concurrently hardly ever interleave between two
// steps. With this package the compiler reads a copy of the library (go build -overlay) in which a
// goroutine may yield before it acquires a mutex, after it unlocks it, and around atomics and
// channels. The copy also checks the order in which mutexes are acquired, and each invariant that a
// comment "//invariant N: condition" states, with N as in internal/queue/doc.go. The files in the
// tree are unchanged, and the copy has the same line numbers.
package yields

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/zklocks/zklocks/internal/test/patch"
)

// Packages are the library's packages, from the root of the module.
var Packages = []string{
	"rwlock", "semaphore", "reentrant", "leader", "internal/queue", "internal/zkclient", "internal/hold", "internal/wire",
}

const (
	call  = "yieldPoint(); "
	waits = "waitPoint(); "
)

// point is the file that is added to each package. A goroutine yields one time in four: often
// enough for each order of two goroutines, and rarely enough for steps to follow directly.
const point = `package %s

import (
	"math/rand/v2"
	"runtime"

	"github.com/zklocks/zklocks/internal/test/yields/checks"
)

func yieldPoint() {
	if rand.Uint32N(4) == 0 {
		runtime.Gosched()
	}
}

func waitPoint() {
	checks.Waits()
	yieldPoint()
}

type lock[name any] = checks.Mutex[name]

func invariant(n int, holds bool) { checks.Invariant(n, holds) }
`

// stated is a comment that states an invariant.
var stated = regexp.MustCompile(`^//invariant (\d+): (.+)$`)

// Insert inserts the calls into a file, and gives each mutex in it a type of package checks. It
// returns the names of the mutexes, as type_field.
func Insert(name string, src []byte) (out []byte, mutexes []string, err error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, src, parser.SkipObjectResolution|parser.ParseComments)
	if err != nil {
		return nil, nil, err
	}
	type edit struct {
		at, end int
		text    string
	}
	var edits []edit
	put := func(from, to token.Pos, text string) {
		edits = append(edits, edit{files.Position(from).Offset, files.Position(to).Offset, text})
	}
	statements := func(list []ast.Stmt) {
		for i, s := range list {
			switch {
			case blocks(s):
				put(s.Pos(), s.Pos(), waits)
			case meets(s) || i > 0 && calls(list[i-1], "Unlock", "RUnlock"):
				put(s.Pos(), s.Pos(), call)
			}
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BlockStmt:
			statements(n.List)
		case *ast.CaseClause:
			statements(n.Body)
		case *ast.CommClause:
			statements(n.Body)
		case *ast.TypeSpec:
			owner, ok := n.Type.(*ast.StructType)
			if !ok {
				break
			}
			for _, field := range owner.Fields.List {
				if s, ok := field.Type.(*ast.SelectorExpr); ok && s.Sel.Name == "Mutex" && len(field.Names) == 1 {
					mutex := n.Name.Name + "_" + field.Names[0].Name
					mutexes = append(mutexes, mutex)
					put(s.Pos(), s.End(), "lock[lock_"+mutex+"]")
				}
			}
		}
		return true
	})
	for _, group := range file.Comments {
		for _, c := range group.List {
			if m := stated.FindStringSubmatch(c.Text); m != nil {
				put(c.Pos(), c.End(), "invariant("+m[1]+", "+m[2]+")")
			}
		}
	}
	slices.SortFunc(edits, func(a, b edit) int { return cmp.Compare(a.at, b.at) })
	out = slices.Clone(src)
	for _, e := range slices.Backward(edits) {
		out = slices.Replace(out, e.at, e.end, []byte(e.text)...)
	}
	if len(mutexes) > 0 {
		out = append(out, "\nvar _ sync.Locker\n"...) // the import may otherwise be unused
	}
	return out, mutexes, nil
}

// blocks reports whether the statement waits for other goroutines.
func blocks(s ast.Stmt) bool {
	choice, ok := s.(*ast.SelectStmt)
	return ok && !slices.ContainsFunc(choice.Body.List, func(c ast.Stmt) bool { return c.(*ast.CommClause).Comm == nil })
}

// meets reports whether the statement has an effect that other goroutines can observe or prevent.
func meets(s ast.Stmt) bool {
	switch choice := s.(type) {
	case *ast.GoStmt, *ast.SelectStmt, *ast.SendStmt:
		return true
	case *ast.ExprStmt, *ast.AssignStmt, *ast.ReturnStmt:
	case *ast.IfStmt: // its condition, whose yield comes before the statement
		s = &ast.ExprStmt{X: choice.Cond}
	default:
		return false
	}
	return calls(s, "Lock", "RLock", "Load", "Store", "Swap", "Add", "CompareAndSwap")
}

// calls reports whether the statement calls a method with one of the names, outside of function
// literals.
func calls(s ast.Stmt, names ...string) (found bool) {
	ast.Inspect(s, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			return false
		case *ast.CallExpr:
			if f, ok := n.Fun.(*ast.SelectorExpr); ok && slices.Contains(names, f.Sel.Name) {
				found = true
			}
		}
		return !found
	})
	return found
}

// Write writes the copies into dir, and returns the path of the overlay for the compiler. changed
// has the text of files that differ from the tree, by path from the root of the module.
func Write(root, dir string, changed map[string][]byte) (overlay string, err error) {
	all, _, err := copies(root, changed)
	if err != nil {
		return "", err
	}
	return patch.Overlay(root, dir, all)
}

// copies returns the changed text of the files, and the mutexes of the library.
func copies(root string, changed map[string][]byte) (all map[string][]byte, mutexes []string, err error) {
	all = make(map[string][]byte)
	maps.Copy(all, changed)
	for _, pkg := range Packages {
		names, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(pkg), "*.go"))
		if err != nil || len(names) == 0 {
			return nil, nil, fmt.Errorf("yields: package %s has no files: %w", pkg, err)
		}
		text := fmt.Appendf(nil, point, filepath.Base(pkg))
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			file := pkg + "/" + filepath.Base(name)
			src, ok := changed[file]
			if !ok {
				if src, err = os.ReadFile(name); err != nil {
					return nil, nil, err
				}
			}
			var found []string
			if all[file], found, err = Insert(file, src); err != nil {
				return nil, nil, err
			}
			for _, mutex := range found {
				text = fmt.Appendf(text, "\ntype lock_%s struct{}\n", mutex)
				mutexes = append(mutexes, filepath.Base(pkg)+"."+strings.ReplaceAll(mutex, "_", "."))
			}
		}
		all[pkg+"/yield_point.go"] = text
	}
	return all, mutexes, nil
}
