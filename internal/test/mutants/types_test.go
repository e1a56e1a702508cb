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
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// compiler checks the types of packages, each with one file changed. It reads what they import, and
// their other files without the bodies of functions, once.
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
			for _, d := range files[name].Decls {
				if f, ok := d.(*ast.FuncDecl); ok && f.Type.TypeParams == nil && f.Name.Name != "init" {
					f.Body = nil
				}
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
	conf := types.Config{Importer: c.importer, Error: func(e error) {
		// Without the bodies the other files have imports that are not used.
		if e := e.(types.Error); err == nil && c.fset.Position(e.Pos).Filename == file {
			err = e
		}
	}}
	_, _ = conf.Check(pkg, c.fset, slices.Collect(maps.Values(all)), nil)
	return err
}
