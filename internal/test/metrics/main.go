// Metrics prints how large the house is: lines by package, the types, functions and depth of one
// Lock without contention.
//
//	go run ./internal/test/metrics
package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/zklocks/zklocks/internal/test/patch"
)

// library are the packages of the locks, without the kit for tests.
var library = []string{
	".", "observe", "rwlock", "semaphore", "reentrant", "leader", "once", "internal/slot", "internal/queue", "internal/hold",
	"internal/znode", "internal/zkclient", "internal/wire", "internal/goid",
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	root, err := patch.Root()
	if err != nil {
		return err
	}
	if err := lines(root); err != nil {
		return err
	}
	return oneLock(root)
}

// sources are the files of a package, without its tests.
func sources(root, pkg string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(pkg), "*.go"))
	return slices.DeleteFunc(files, func(f string) bool { return strings.HasSuffix(f, "_test.go") }), err
}

func lines(root string) error {
	total := 0
	for _, pkg := range library {
		files, err := sources(root, pkg)
		if err != nil {
			return err
		}
		n := 0
		for _, f := range files {
			text, err := os.ReadFile(f)
			if err != nil {
				return err
			}
			n += bytes.Count(text, []byte("\n"))
		}
		total += n
		fmt.Printf("%6d lines  %s\n", n, pkg)
	}
	fmt.Printf("%6d lines of the library, without tests\n", total)
	return nil
}

// oneLock runs TestOneLock on a copy of the library in which each function records that it begins.
func oneLock(root string) error {
	changed := map[string][]byte{}
	for _, pkg := range library {
		files, err := sources(root, pkg)
		if err != nil {
			return err
		}
		name := ""
		for _, f := range files {
			src, err := os.ReadFile(f)
			if err != nil {
				return err
			}
			if name, src, err = recording(f, src); err != nil {
				return err
			}
			changed[pkg+"/"+filepath.Base(f)] = src
		}
		changed[pkg+"/record_in.go"] = fmt.Appendf(nil, `package %s

import "github.com/zklocks/zklocks/internal/test/metrics/trace"

func recordIn() { trace.In() }
`, name)
	}
	dir, err := os.MkdirTemp("", "metrics-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	overlay, err := patch.Overlay(root, dir, changed)
	if err != nil {
		return err
	}
	cmd := exec.Command("go", "test", "-count=1", "-overlay", overlay, "-run", "^TestOneLock$", "-v", "./internal/test/metrics")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "METRICS="+max(os.Getenv("METRICS"), "1"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("TestOneLock: %w\n%s", err, out)
	}
	for line := range strings.Lines(string(out)) {
		if text, ok := strings.CutPrefix(line, "metrics: "); ok {
			fmt.Print("one uncontended Lock: ", text)
		}
	}
	return nil
}

// recording inserts the record at the beginning of each function.
func recording(file string, src []byte) (pkg string, out []byte, err error) {
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, file, src, parser.SkipObjectResolution)
	if err != nil {
		return "", nil, err
	}
	out = src
	for _, decl := range slices.Backward(f.Decls) {
		if fn, ok := decl.(*ast.FuncDecl); ok && fn.Body != nil {
			at := set.Position(fn.Body.Lbrace).Offset + 1
			out = slices.Concat(out[:at], []byte(" recordIn(); "), out[at:])
		}
	}
	return f.Name.Name, out, nil
}
