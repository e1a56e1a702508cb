// Package arch has only tests, which keep the imports and the calls of this module pointing one way.
package arch

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	module     = "github.com/zklocks/zklocks"
	root       = "zklocks" // the front door, the package at the root of the module
	zk         = "github.com/go-zookeeper/zk"
	multierror = "github.com/hashicorp/go-multierror"
	goid       = "github.com/petermattis/goid"
	goleak     = "go.uber.org/goleak"
)

// recipe is what each public lock package may import. It contains no recipe: recipes do not import
// each other, except once, which uses rwlock.
var recipe = []string{
	root, "internal/slot", "internal/queue", "internal/zkclient", "internal/hold", "internal/znode", "observe", zk, multierror,
}

// house is what each package of the library may import besides the standard library; paths without
// a dot are ours. Every list contains only lower packages, so a cycle cannot be allowed by
// accident.
var house = map[string][]string{
	root: {
		"internal/slot", "internal/wire", "internal/hold", "internal/queue", "internal/znode", "observe", zk,
	},
	"rwlock":               recipe,
	"semaphore":            recipe,
	"leader":               recipe,
	"reentrant":            append([]string{"internal/goid"}, recipe...),
	"once":                 append([]string{"rwlock"}, recipe...),
	"internal/slot":        {"internal/wire", "internal/queue", "internal/hold", "internal/znode", "observe", zk},
	"internal/queue":       {"internal/wire", "internal/zkclient", "internal/hold", "internal/znode", "observe", zk, multierror},
	"internal/zkclient":    {"internal/wire", "internal/hold", "internal/znode", zk, multierror},
	"internal/wire":        {"internal/sessionfile", zk, multierror},
	"internal/sessionfile": {},
	"internal/hold":        {multierror},
	"internal/znode":       {},
	"observe":              {},
	"internal/goid":        {goid},
	"internal/test/proxy":  {"internal/jute"},
	"internal/memnet":      {},
	"zktest":               {"internal/memzk", "internal/memnet", "internal/slot", "internal/test/proxy", "internal/wire", "internal/test/realzk", root, "observe", zk},
	"internal/memzk":       {"internal/jute"},
	"internal/jute":        {},
}

// pure packages compute and do no I/O. Only direct imports count: fmt imports os, but fmt.Errorf
// does no I/O.
var pure = []string{"internal/hold", "internal/znode", "observe"}

// callers are the packages that use a *zk.Conn. The others may only pass it on.
var callers = []string{"internal/zkclient", "internal/wire", "zktest"}

// pkg is the output of `go list -json` for a package.
type pkg struct {
	ImportPath   string
	Dir          string
	Export       string
	GoFiles      []string
	CgoFiles     []string
	Imports      []string
	TestImports  []string
	XTestImports []string
}

// check returns a line for each forbidden import. Keys and imports of this module are relative to
// it.
func check(pkgs map[string]pkg) []string {
	var bad []string
	for _, path := range slices.Sorted(maps.Keys(pkgs)) {
		p := pkgs[path]
		complain := func(imp, why string) { bad = append(bad, fmt.Sprintf("%s imports %s: %s", path, imp, why)) }

		allowed, library := house[path]
		tooling := path == "zktest" || within(path, "internal/test") || within(path, "examples")
		for _, imp := range p.Imports {
			ours, third := kind(imp)
			switch {
			case imp == goleak && !within(path, "internal/test"):
				complain(imp, "it is for tests only")
			case within(imp, "internal/test") && !tooling:
				complain(imp, "it is for tests and examples only")
			case (ours || third) && library && !slices.Contains(allowed, imp):
				complain(imp, "not among what it may import")
			case ours && !library && !tooling:
				complain(imp, "this package has no place in the table")
			case third && !slices.Contains([]string{zk, multierror, goid, goleak}, imp):
				complain(imp, "not a dependency of this module")
			case path == "examples/demo" && imp == "internal/memzk": // the server that the other examples run on
			case within(path, "examples") && within(imp, "internal") && !within(imp, "internal/test"):
				complain(imp, "an example that users cannot copy")
			case path == "observe" && imp == "log/slog": // its values, and no logger
			case slices.Contains(pure, path) && doesIO(imp):
				complain(imp, "this package is pure")
			}
		}
		for _, imp := range slices.Concat(p.TestImports, p.XTestImports) {
			if _, third := kind(imp); third && !slices.Contains([]string{zk, multierror, goid, goleak}, imp) {
				complain(imp, "not a dependency of this module, nor of its tests")
			}
		}
	}
	return bad
}

// kind reports whether an import is of this module, and whether it is of another module.
func kind(imp string) (ours, third bool) {
	first, _, _ := strings.Cut(imp, "/")
	_, top := house[first]
	// The standard library also has an internal/, which no other module can import.
	return top || first == "internal" || first == "examples", strings.Contains(first, ".")
}

// short returns the path of a package, relative to the module if it is ours.
func short(path string) string {
	if path == module {
		return root
	}
	return strings.TrimPrefix(path, module+"/")
}

func within(path, dir string) bool { return path == dir || strings.HasPrefix(path, dir+"/") }

func doesIO(imp string) bool {
	for _, dir := range []string{"os", "net", "syscall", "io/fs", "io/ioutil", "database/sql", "log", "plugin"} {
		if within(imp, dir) {
			return true
		}
	}
	return false
}

func TestImportsPointOneWay(t *testing.T) {
	pkgs := map[string]pkg{}
	for _, p := range list(t, module+"/...") {
		for _, imports := range [][]string{p.Imports, p.TestImports, p.XTestImports} {
			for i := range imports {
				imports[i] = short(imports[i])
			}
		}
		pkgs[short(p.ImportPath)] = p
	}
	for _, path := range append(slices.Collect(maps.Keys(house)), "internal/test/arch") {
		if _, ok := pkgs[path]; !ok {
			t.Errorf("go list does not see %s: it was not checked", path)
		}
	}
	for _, line := range check(pkgs) {
		t.Error(line)
	}
}

// TestOnlySessionCallsTheConnection: each call on a *zk.Conn needs a context, a decision what a
// lost answer means, and a check of the session id. internal/zkclient does all of that; a call from
// another package would bypass it.
func TestOnlySessionCallsTheConnection(t *testing.T) {
	l, deps := load(t)
	for _, p := range deps {
		path := short(p.ImportPath)
		if house[path] == nil || slices.Contains(callers, path) {
			continue
		}
		_, info, err := l.check(p.ImportPath, l.parse(t, p)...)
		if err != nil {
			t.Log(err) // another test fails for a package that does not compile; here the rest is checked
		}
		for _, line := range l.calls(t, info) {
			t.Error(line)
		}
	}
}

// loader type-checks a package against the compiled form of its imports: exact, and without
// golang.org/x/tools.
type loader struct {
	fset *token.FileSet
	imp  types.Importer
}

// load lists the packages of the module and what they import.
func load(t *testing.T) (*loader, []pkg) {
	t.Helper()
	deps := list(t, "-export", "-deps", module+"/...", zk)
	export := map[string]string{}
	for _, p := range deps {
		export[p.ImportPath] = p.Export
	}
	l := &loader{fset: token.NewFileSet()}
	l.imp = importer.ForCompiler(l.fset, "gc", func(path string) (io.ReadCloser, error) {
		if export[path] == "" {
			return nil, fmt.Errorf("%s has not been compiled", path)
		}
		return os.Open(export[path])
	})
	return l, deps
}

// parse returns what it could parse of the files of a package, even with an error.
func (l *loader) parse(t *testing.T, p pkg) (files []*ast.File) {
	t.Helper()
	for _, name := range slices.Concat(p.GoFiles, p.CgoFiles) {
		src, err := os.ReadFile(filepath.Join(p.Dir, name))
		if err != nil {
			t.Fatal(err)
		}
		f, err := parser.ParseFile(l.fset, name, src, parser.SkipObjectResolution)
		if err != nil {
			t.Log(err)
		}
		files = append(files, f)
	}
	return files
}

// check type-checks a package. If it returns an error, the rest is for the part that could be
// type-checked.
func (l *loader) check(path string, files ...*ast.File) (*types.Package, *types.Info, error) {
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}, Types: map[ast.Expr]types.TypeAndValue{}}
	var problems []error
	conf := types.Config{Importer: l.imp, Error: func(err error) { problems = append(problems, err) }}
	checked, _ := conf.Check(path, l.fset, files, info) // returns the first of the problems
	return checked, info, errors.Join(problems...)
}

// calls returns a line for each use of a *zk.Conn other than its type's name.
func (l *loader) calls(t *testing.T, info *types.Info) (bad []string) {
	t.Helper()
	client, err := l.imp.Import(zk)
	if err != nil {
		t.Fatal(err)
	}
	conn := types.NewPointer(client.Scope().Lookup("Conn").Type())
	complain := func(at token.Pos, what string) {
		bad = append(bad, fmt.Sprintf("%s: %s, which belongs in internal/zkclient", l.fset.Position(at), what))
	}
	for id, obj := range info.Uses {
		fn, ok := obj.(*types.Func)
		if !ok || fn.Pkg() == nil || fn.Pkg().Path() != zk {
			continue
		}
		recv := fn.Signature().Recv()
		switch {
		case recv != nil && types.Identical(recv.Type(), conn):
			complain(id.Pos(), "uses Conn."+fn.Name())
		case recv == nil && !strings.HasSuffix(fn.Name(), "ACL"):
			complain(id.Pos(), "uses zk."+fn.Name())
		}
	}
	for expr, tv := range info.Types {
		if _, ok := expr.(*ast.InterfaceType); !ok {
			continue
		}
		// An interface that the connection implements would bypass the checks above.
		if i, ok := tv.Type.Underlying().(*types.Interface); ok && i.NumMethods() > 0 && types.Implements(conn, i) {
			complain(expr.Pos(), "declares an interface of Conn's methods")
		}
	}
	return bad
}

// list runs go list, which also compiles the packages with -export. It also lists packages with
// errors.
func list(t *testing.T, args ...string) []pkg {
	t.Helper()
	fields := "-json=ImportPath,Dir,Export,GoFiles,CgoFiles,Imports,TestImports,XTestImports"
	cmd := exec.Command("go", append([]string{"list", "-e", fields}, args...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, &stderr)
	}
	var pkgs []pkg
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return pkgs
		} else if err != nil {
			t.Fatal(err)
		}
		pkgs = append(pkgs, p)
	}
}
