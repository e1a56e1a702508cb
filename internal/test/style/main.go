// Style checks how comments and documents are written. It counts the phrases below, which readers
// had to read twice, against a limit for each file; a limit may only fall. It also finds comments
// that are too wide, and tests that let real time pass without giving a reason.
//
//	go run ./internal/test/style [-write] [DIR]
//
// -write lowers the limits in limits.txt to what the files have now.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// phrases match words that readers stumble over: machines that hear or are told, house words
// instead of the trade's, and pronouns instead of nouns. Write instead: is notified of, its context
// is canceled, event; concurrently with, next to; a recheck, lists again; releases; and the noun
// again.
var phrases = regexp.MustCompile(`(?i)\b(` + strings.Join([]string{
	`(?:is|are|was|were)\s+told`,
	`hears?\s+(?:of|from)`,
	`news`,
	`a\s+look|looks\s+out`,
	`beside`,
	`the\s+latter`,
	`of\s+which`,
	`one\s+that|that\s+of|those\s+of`,
	`gives?\s+back`,
	`anew|for\s+ever`,
}, "|") + `)\b`)

const (
	limitsFile = "internal/test/style/limits.txt"
	maxWidth   = 100
	tabWidth   = 4
)

func main() {
	write := flag.Bool("write", false, "lower the limits to what the files have now")
	flag.Parse()
	root := "."
	if flag.NArg() > 0 {
		root = flag.Arg(0)
	}
	findings, err := check(root, *write)
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

// check returns the findings in a tree. With write it first lowers the limits.
func check(root string, write bool) ([]string, error) {
	r, err := read(os.DirFS(root))
	if err != nil {
		return nil, err
	}
	file := path.Join(root, limitsFile)
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	limits, err := parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", limitsFile, err)
	}
	if write {
		limits = lower(limits, r.phrases)
		if err := os.WriteFile(file, format(limits), 0o644); err != nil {
			return nil, err
		}
	}
	return append(r.over(limits), r.others...), nil
}

// report is the result for a tree.
type report struct {
	phrases map[string][]string // by file: the places of the phrases
	others  []string            // wide comments, and sleeps
}

// over returns the places of the phrases in files that exceed their limits, and the limits that are
// higher than necessary.
func (r *report) over(limits map[string]int) (findings []string) {
	for _, file := range slices.Sorted(maps.Keys(r.phrases)) {
		if places := r.phrases[file]; len(places) > limits[file] {
			findings = append(findings, places...)
			findings = append(findings, fmt.Sprintf("%s: %d phrases to rewrite, the limit is %d", file, len(places), limits[file]))
		}
	}
	for _, file := range slices.Sorted(maps.Keys(limits)) {
		if n := len(r.phrases[file]); n < limits[file] {
			findings = append(findings, fmt.Sprintf("%s: the limit can fall from %d to %d: go run ./internal/test/style -write", file, limits[file], n))
		}
	}
	return findings
}

func lower(limits map[string]int, found map[string][]string) map[string]int {
	lowered := make(map[string]int)
	for file, limit := range limits {
		if n := min(limit, len(found[file])); n > 0 {
			lowered[file] = n
		}
	}
	return lowered
}

func parse(text []byte) (map[string]int, error) {
	limits := make(map[string]int)
	for line := range strings.Lines(string(text)) {
		number, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		n, err := strconv.Atoi(number)
		if err != nil {
			return nil, err
		}
		limits[file] = n
	}
	return limits, nil
}

func format(limits map[string]int) []byte {
	var b bytes.Buffer
	for _, file := range slices.Sorted(maps.Keys(limits)) {
		fmt.Fprintln(&b, limits[file], file)
	}
	return b.Bytes()
}

// read checks a tree without test data and directories that the go command ignores.
func read(tree fs.FS) (*report, error) {
	r := &report{phrases: make(map[string][]string)}
	tests := make(map[string][]testFile) // by directory
	err := fs.WalkDir(tree, ".", func(name string, entry fs.DirEntry, err error) error {
		base := path.Base(name)
		switch {
		case err != nil:
			return err
		case entry.IsDir():
			if name != "." && (base == "testdata" || base == "bin" || base == "style" || strings.ContainsRune("._", rune(base[0]))) {
				return fs.SkipDir
			}
			return nil
		}
		text, err := fs.ReadFile(tree, name)
		switch {
		case err != nil:
			return err
		case strings.HasSuffix(name, ".md"):
			r.count(name, 1, string(text))
		case strings.HasSuffix(name, ".go"):
			files := token.NewFileSet()
			file, err := parser.ParseFile(files, name, text, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			r.comments(name, files, file, strings.Split(string(text), "\n"))
			if strings.HasSuffix(name, "_test.go") {
				dir := path.Dir(name)
				tests[dir] = append(tests[dir], testFile{name, files, file})
			}
		}
		return nil
	})
	for _, dir := range slices.Sorted(maps.Keys(tests)) {
		r.others = append(r.others, sleeps(tests[dir])...)
	}
	return r, err
}

// comments counts the phrases in the comments of a file, and finds the lines that are too wide.
func (r *report) comments(name string, files *token.FileSet, file *ast.File, lines []string) {
	for _, group := range file.Comments {
		first := files.Position(group.Pos()).Line
		var text strings.Builder
		for _, c := range group.List {
			text.WriteString(strings.TrimPrefix(c.Text, "//") + "\n")
		}
		r.count(name, first, text.String())
		if strings.Contains(text.String(), "Output:\n") {
			continue // an Example: as wide as its output
		}
		for line := first; line <= files.Position(group.End()).Line; line++ {
			if w := width(lines[line-1]); w > maxWidth && alone(lines[line-1]) {
				r.others = append(r.others, fmt.Sprintf("%s:%d: a comment of %d columns, the limit is %d", name, line, w, maxWidth))
			}
		}
	}
}

// count records the phrases of a text that begins at a line. A phrase may continue on the next
// line.
func (r *report) count(name string, line int, text string) {
	for _, at := range phrases.FindAllStringIndex(text, -1) {
		words := strings.Join(strings.Fields(text[at[0]:at[1]]), " ")
		r.phrases[name] = append(r.phrases[name], fmt.Sprintf("%s:%d: %q", name, line+strings.Count(text[:at[0]], "\n"), words))
	}
}

// alone reports whether a comment line has no code. A comment behind code may be as wide as the
// code requires. Directives cannot be broken.
func alone(line string) bool {
	line = strings.TrimSpace(line)
	return strings.HasPrefix(line, "//") && !strings.HasPrefix(line, "//go:")
}

func width(line string) int {
	return utf8.RuneCountInString(strings.TrimRight(line, "\r")) + strings.Count(line, "\t")*(tabWidth-1)
}
