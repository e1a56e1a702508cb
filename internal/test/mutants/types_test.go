package main

import (
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
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/zklocks/zklocks/internal/test/patch"
)

// A mutant that does not compile shows nothing.
func TestEveryMutantCompiles(t *testing.T) {
	root, err := patch.Root()
	if err != nil {
		t.Fatal(err)
	}
	c := newCompiler(root)
	c.list(t, root)
	c.list(t, filepath.Join(root, "cmd", "zklock")) // a module of its own
	for _, m := range all() {
		file, src, err := m.patched(root)
		if err != nil {
			continue // TestEveryMutantFitsTheCode says so
		}
		if err := c.check(m.pkg, path.Base(file), src); err != nil {
			t.Errorf("%s: %v", m.name, err)
		}
	}
}

// compiler checks the types of packages, each with one file changed. It reads what they import, and
// their other files, once.
type compiler struct {
	root     string
	exports  map[string]string               // files with export data, by the path of the import
	files    map[string]map[string]*ast.File // by the directory of the package and the file
	fset     *token.FileSet
	importer types.Importer
}

func newCompiler(root string) *compiler {
	c := &compiler{root: root, exports: map[string]string{}, files: map[string]map[string]*ast.File{}, fset: token.NewFileSet()}
	c.importer = importer.ForCompiler(c.fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(c.exports[path]) })
	return c
}

// list finds out what go build knows of the packages of a module.
func (c *compiler) list(t *testing.T, module string) {
	t.Helper()
	cmd := exec.Command("go", "list", "-export", "-deps", "-f", "{{.ImportPath}}\t{{.Export}}\t{{.Dir}}\t{{range .GoFiles}}{{.}} {{end}}", "./...")
	cmd.Dir = module
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		c.exports[fields[0]] = fields[1]
		rel, err := filepath.Rel(c.root, fields[2])
		if err != nil || strings.HasPrefix(rel, "..") {
			continue
		}
		files := map[string]*ast.File{}
		for _, name := range strings.Fields(fields[3]) {
			if files[name], err = parser.ParseFile(c.fset, filepath.Join(fields[2], name), nil, parser.SkipObjectResolution); err != nil {
				t.Fatal(err)
			}
		}
		c.files[filepath.ToSlash(rel)] = files
	}
}

// check checks a package with src in the place of one of its files.
func (c *compiler) check(pkg, file string, src []byte) error {
	all := maps.Clone(c.files[pkg])
	if all[file] == nil {
		return fmt.Errorf("%s has no %s", pkg, file)
	}
	var err error
	if all[file], err = parser.ParseFile(c.fset, file, src, parser.SkipObjectResolution); err != nil {
		return err
	}
	conf := types.Config{Importer: c.importer}
	_, err = conf.Check(pkg, c.fset, slices.Collect(maps.Values(all)), nil)
	return err
}
