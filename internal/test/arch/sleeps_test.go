package arch

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

type testFile struct {
	name  string
	files *token.FileSet
	*ast.File
}

// A test that lets real time pass needs a reason.
func TestSleepsSayWhy(t *testing.T) {
	tests := map[string][]testFile{} // by directory
	err := filepath.WalkDir("../../..", func(name string, entry fs.DirEntry, err error) error {
		base := entry.Name()
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (base == "testdata" || base == "bin" || strings.ContainsRune("._", rune(base[0]))) && base != "..":
			return fs.SkipDir
		case strings.HasSuffix(name, "_test.go"):
			tests[filepath.Dir(name)] = append(tests[filepath.Dir(name)], parse(t, name, nil))
		}
		return nil
	})
	if err != nil || len(tests) < 20 {
		t.Fatalf("%d directories have tests: %v", len(tests), err)
	}
	for _, files := range tests {
		for _, finding := range sleeps(files) {
			t.Error(finding)
		}
	}
}

func parse(t *testing.T, name string, text any) testFile {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	return testFile{name, files, file}
}

// Limits of waits and virtual time need no reason.
func TestWhichSleepsAreFound(t *testing.T) {
	got := sleeps([]testFile{parse(t, "a_test.go", `package a
func TestA(t *testing.T) {
	time.Sleep(1)
	time.Sleep(1) // real: a reason
	// real: a reason
	time.Sleep(1)

	<-time.After(1)
	select {
	case <-time.After(1):
	case <-time.After(2):
		t.Fatal("late")
	}
	venue.Both(t, func(t *testing.T, v venue.Venue) { time.Sleep(1) })
	venue.InMemory(t, func(t *testing.T, v venue.Venue) { time.Sleep(1) })
	outer(t, func(t *testing.T) { time.Sleep(1) })
}
func outer(t *testing.T, f func(t *testing.T)) { bubble(t, f) }
`), parse(t, "b_test.go", `package a
func bubble(t *testing.T, f func(t *testing.T)) { synctest.Test(t, f) }
`)})
	var lines []string
	for _, finding := range got {
		lines = append(lines, strings.Split(finding, ":")[1])
	}
	if want := []string{"3", "8", "10", "14"}; !slices.Equal(lines, want) {
		t.Errorf("the lines are %q, want %q", lines, want)
	}
}

// sleepers are the functions of package time that let time pass.
var sleepers = []string{"Sleep", "After"}

// sleeps finds the tests of a directory that let real time pass without a reason. Each call of a
// sleeper needs a comment behind it or in the line above, unless it limits a wait, or is in a
// bubble, where time is virtual.
func sleeps(tests []testFile) (findings []string) {
	bubbles := bubblesOf(tests)
	for _, f := range tests {
		limits := limitsOf(f)
		commented := make(map[int]bool)
		for _, c := range f.Comments {
			commented[f.files.Position(c.Pos()).Line] = true
			commented[f.files.Position(c.End()).Line+1] = true
		}
		ast.Inspect(f.File, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			if name, of := callee(call); of == "time" && slices.Contains(sleepers, name) && !limits[call] {
				if line := f.files.Position(call.Pos()).Line; !commented[line] {
					findings = append(findings, fmt.Sprintf("%s:%d: time.%s does not say why real time passes", f.name, line, name))
				}
			}
			return !opens(call, bubbles)
		})
	}
	return findings
}

// limitsOf returns the calls that limit a wait: a case of a select with a body.
func limitsOf(f testFile) map[ast.Node]bool {
	limits := make(map[ast.Node]bool)
	ast.Inspect(f.File, func(n ast.Node) bool {
		clause, ok := n.(*ast.CommClause)
		if !ok || len(clause.Body) == 0 {
			return true
		}
		if got, ok := clause.Comm.(*ast.ExprStmt); ok {
			if receive, ok := got.X.(*ast.UnaryExpr); ok {
				limits[receive.X] = true
			}
		}
		return true
	})
	return limits
}

// bubblesOf returns the functions of a directory's tests that run a function in a bubble.
func bubblesOf(tests []testFile) map[string]bool {
	bubbles := make(map[string]bool)
	for grown := true; grown; {
		grown = false
		for _, f := range tests {
			for _, d := range f.Decls {
				fn, ok := d.(*ast.FuncDecl)
				if !ok || bubbles[fn.Name.Name] || !takesFunc(fn) {
					continue
				}
				ast.Inspect(fn, func(n ast.Node) bool {
					if call, ok := n.(*ast.CallExpr); ok && opens(call, bubbles) {
						bubbles[fn.Name.Name], grown = true, true
					}
					return true
				})
			}
		}
	}
	return bubbles
}

// opens reports whether a call runs its argument in a bubble.
func opens(call *ast.CallExpr, bubbles map[string]bool) bool {
	name, of := callee(call)
	return of == "synctest" && name == "Test" || of != "" && name == "InMemory" || of == "" && bubbles[name]
}

// callee returns the name of the called function, and the identifier before the dot.
func callee(call *ast.CallExpr) (name, of string) {
	switch fn := call.Fun.(type) {
	case *ast.Ident:
		return fn.Name, ""
	case *ast.SelectorExpr:
		if x, ok := fn.X.(*ast.Ident); ok {
			return fn.Sel.Name, x.Name
		}
	}
	return "", ""
}

func takesFunc(fn *ast.FuncDecl) bool {
	return slices.ContainsFunc(fn.Type.Params.List, func(p *ast.Field) bool {
		_, ok := p.Type.(*ast.FuncType)
		return ok
	})
}
