package arch

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/types"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// arrow is that functions of one file call functions of another, of the same package.
type arrow struct{ from, to string }

// arrows returns the calls between the files of a package, each with an example. A function that is
// passed on as a value counts as called.
func (l *loader) arrows(p pkg) (map[arrow]string, error) {
	var files []*ast.File
	for _, name := range slices.Concat(p.GoFiles, p.CgoFiles) {
		src, err := os.ReadFile(filepath.Join(p.Dir, name))
		if err != nil {
			return nil, err
		}
		f, err := l.parse(name, src)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	conf := types.Config{Importer: l.imp}
	checked, err := conf.Check(p.ImportPath, l.fset, files, info)
	if err != nil {
		return nil, err
	}
	found := map[arrow]string{}
	for _, f := range files {
		for _, d := range f.Decls {
			caller, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			ast.Inspect(caller, func(n ast.Node) bool {
				id, ok := n.(*ast.Ident)
				if !ok {
					return true
				}
				fn, ok := info.Uses[id].(*types.Func)
				if !ok || fn.Pkg() != checked {
					return true
				}
				a := arrow{l.fset.Position(f.Pos()).Filename, l.fset.Position(fn.Pos()).Filename}
				if a.from != a.to {
					example := caller.Name.Name + " calls " + fn.Name()
					if found[a] == "" || example < found[a] {
						found[a] = example
					}
				}
				return true
			})
		}
	}
	return found, nil
}

func TestProbe(t *testing.T) {
	deps := list(t, "-export", "-deps", module+"/...", zk)
	l := newLoader(deps)
	for _, p := range deps {
		if _, ok := house[short(p.ImportPath)]; !ok {
			continue
		}
		found, err := l.arrows(p)
		if err != nil {
			t.Error(err)
			continue
		}
		order := best(p.GoFiles, found)
		fmt.Println("==", short(p.ImportPath), len(found), order)
		for _, a := range slices.SortedFunc(maps.Keys(found), func(a, b arrow) int { return cmp.Compare(a.from+a.to, b.from+b.to) }) {
			if slices.Index(order, a.from) > slices.Index(order, a.to) {
				fmt.Println("   up:", a.from, a.to, found[a])
			}
		}
	}
	_ = strings.Join
}

func best(files []string, found map[arrow]string) []string {
	up := func(o []string) (n int) {
		for a := range found {
			if slices.Index(o, a.from) > slices.Index(o, a.to) {
				n++
			}
		}
		return
	}
	o := slices.Clone(files)
	for changed := true; changed; {
		changed = false
		for i := range o {
			for j := range o {
				c := slices.Clone(o)
				x := c[i]
				c = slices.Delete(c, i, i+1)
				c = slices.Insert(c, j, x)
				if up(c) < up(o) {
					o, changed = c, true
				}
			}
		}
	}
	return o
}
