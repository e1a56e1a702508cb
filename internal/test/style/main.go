// Style finds tests that let real time pass without giving a reason.
//
//	go run ./internal/test/style [DIR]
package main

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
)

func main() {
	root := "."
	if len(os.Args) > 1 {
		root = os.Args[1]
	}
	findings, err := read(os.DirFS(root))
	for _, f := range findings {
		fmt.Println(f)
	}
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "style:", err)
		os.Exit(2)
	case len(findings) > 0:
		os.Exit(1)
	}
}

// read returns the findings in a tree without test data and directories that the go command ignores.
func read(tree fs.FS) (findings []string, err error) {
	tests := make(map[string][]testFile) // by directory
	err = fs.WalkDir(tree, ".", func(name string, entry fs.DirEntry, err error) error {
		base := path.Base(name)
		switch {
		case err != nil:
			return err
		case entry.IsDir():
			if name != "." && (base == "testdata" || base == "bin" || strings.ContainsRune("._", rune(base[0]))) {
				return fs.SkipDir
			}
			return nil
		case !strings.HasSuffix(name, "_test.go"):
			return nil
		}
		text, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, name, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		dir := path.Dir(name)
		tests[dir] = append(tests[dir], testFile{name, files, file})
		return nil
	})
	for _, dir := range slices.Sorted(maps.Keys(tests)) {
		findings = append(findings, sleeps(tests[dir])...)
	}
	return findings, err
}
