// Package yields makes goroutines interleave where it matters. Inside one instant of a bubble a
// goroutine runs on until it blocks, so two goroutines that use one value at once hardly ever
// interleave between two steps. Here the compiler reads a copy of the library (go build -overlay)
// in which a goroutine may yield before it takes a mutex, after it unlocks it, around atomics and
// channels. It also checks the order in which mutexes are taken, and each invariant that a comment
// "//invariant N: condition" states, N as in internal/queue/doc.go. The files in the tree stay as
// they are, and so do line numbers.
package yields

import (
	"cmp"
	"encoding/json"
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
)

// Packages are those of the library, from the root of the module.
var Packages = []string{
	"rwlock", "semaphore", "reentrant", "leader", "internal/queue", "internal/zkclient", "internal/hold", "internal/wire",
}

const (
	call  = "yieldPoint(); "
	waits = "waitPoint(); "
)

// point is the file that each package gets. One time in four is often enough for each order of two
// goroutines, and seldom enough for steps to follow each other at once, too.
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

// Insert puts the calls into a file, and gives each mutex in it the type of package checks. It
// returns their names, as type_field.
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
		out = append(out, "\nvar _ sync.Locker\n"...) // the import may have no other use
	}
	return out, mutexes, nil
}

// blocks reports whether the statement waits for other goroutines.
func blocks(s ast.Stmt) bool {
	choice, ok := s.(*ast.SelectStmt)
	return ok && !slices.ContainsFunc(choice.Body.List, func(c ast.Stmt) bool { return c.(*ast.CommClause).Comm == nil })
}

// meets reports whether other goroutines may see or stop what the statement does.
func meets(s ast.Stmt) bool {
	switch s := s.(type) {
	case *ast.GoStmt, *ast.SelectStmt, *ast.SendStmt:
		return true
	case *ast.ExprStmt, *ast.AssignStmt:
		return calls(s, "Lock", "RLock", "Load", "Store", "Swap", "Add", "CompareAndSwap")
	case *ast.ReturnStmt:
		return calls(s, "Load", "Swap", "Add", "CompareAndSwap")
	case *ast.IfStmt:
		return s.Cond != nil && calls(&ast.ExprStmt{X: s.Cond}, "Load", "Swap", "Add", "CompareAndSwap")
	}
	return false
}

// calls reports whether a method of such a name is called in the statement itself, not in a
// function literal in it.
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

// Write makes the copies in dir, and returns the name of the overlay for the compiler. changed are
// files, from the root of the module, that have another text than the tree.
func Write(root, dir string, changed map[string][]byte) (overlay string, err error) {
	replace := make(map[string]string)
	put := func(name string, text []byte) error {
		copied := filepath.Join(dir, strings.ReplaceAll(filepath.ToSlash(name), "/", "-"))
		replace[filepath.Join(root, filepath.FromSlash(name))] = copied
		return os.WriteFile(copied, text, 0o600)
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	left := maps.Clone(changed)
	for _, pkg := range Packages {
		names, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(pkg), "*.go"))
		if err != nil || len(names) == 0 {
			return "", fmt.Errorf("yields: package %s has no files: %w", pkg, err)
		}
		var mutexes []string
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			name = pkg + "/" + filepath.Base(name)
			src, ok := changed[name]
			delete(left, name)
			if !ok {
				if src, err = os.ReadFile(filepath.Join(root, filepath.FromSlash(name))); err != nil {
					return "", err
				}
			}
			src, found, err := Insert(name, src)
			if err != nil {
				return "", err
			}
			mutexes = append(mutexes, found...)
			if err := put(name, src); err != nil {
				return "", err
			}
		}
		text := fmt.Appendf(nil, point, filepath.Base(pkg))
		for _, mutex := range mutexes {
			text = fmt.Appendf(text, "\ntype lock_%s struct{}\n", mutex)
		}
		if err := put(pkg+"/yield_point.go", text); err != nil {
			return "", err
		}
	}
	for name, text := range left { // of other packages
		if err := put(name, text); err != nil {
			return "", err
		}
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	overlay = filepath.Join(dir, "overlay.json")
	return overlay, os.WriteFile(overlay, text, 0o600)
}
