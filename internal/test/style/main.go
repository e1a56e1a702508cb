// Style checks how comments and documents are written. It finds the phrases below, which readers
// had to read twice, comments that are too wide, and tests that let real time pass without giving a
// reason.
//
//	go run ./internal/test/style [DIR]
package main

import (
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
	`(?-i:beside)`, // a name may begin with it
	`the\s+latter`,
	`of\s+which`,
	`one\s+that|that\s+of|those\s+of`,
	`gives?\s+back`,
	`anew|for\s+ever`,
}, "|") + `)\b`)

const (
	maxWidth = 100
	tabWidth = 4
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
			findings = append(findings, count(name, 1, string(text))...)
		case strings.HasSuffix(name, ".go"):
			files := token.NewFileSet()
			file, err := parser.ParseFile(files, name, text, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			findings = append(findings, comments(name, files, file, strings.Split(string(text), "\n"))...)
			if strings.HasSuffix(name, "_test.go") {
				dir := path.Dir(name)
				tests[dir] = append(tests[dir], testFile{name, files, file})
			}
		}
		return nil
	})
	for _, dir := range slices.Sorted(maps.Keys(tests)) {
		findings = append(findings, sleeps(tests[dir])...)
	}
	return findings, err
}

// comments finds the phrases in the comments of a file, and the lines that are too wide.
func comments(name string, files *token.FileSet, file *ast.File, lines []string) (findings []string) {
	for _, group := range file.Comments {
		first := files.Position(group.Pos()).Line
		var text strings.Builder
		for _, c := range group.List {
			text.WriteString(strings.TrimPrefix(c.Text, "//") + "\n")
		}
		findings = append(findings, count(name, first, text.String())...)
		if strings.Contains(text.String(), "Output:\n") {
			continue // an Example: as wide as its output
		}
		for line := first; line <= files.Position(group.End()).Line; line++ {
			if w := width(lines[line-1]); w > maxWidth && alone(lines[line-1]) {
				findings = append(findings, fmt.Sprintf("%s:%d: a comment of %d columns, the limit is %d", name, line, w, maxWidth))
			}
		}
	}
	return findings
}

// count returns the phrases of a text that begins at a line. A phrase may continue on the next
// line. Quotations are left out.
func count(name string, line int, text string) (findings []string) {
	text = quotation.ReplaceAllStringFunc(text, func(q string) string { return strings.Repeat("x", len(q)) })
	for _, at := range phrases.FindAllStringIndex(text, -1) {
		words := strings.Join(strings.Fields(text[at[0]:at[1]]), " ")
		findings = append(findings, fmt.Sprintf("%s:%d: %q", name, line+strings.Count(text[:at[0]], "\n"), words))
	}
	return findings
}

var quotation = regexp.MustCompile(`"[^"\n]*"`)

// alone reports whether a comment line has no code. A comment behind code may be as wide as the
// code requires. Directives cannot be broken.
func alone(line string) bool {
	line = strings.TrimSpace(line)
	return strings.HasPrefix(line, "//") && !strings.HasPrefix(line, "//go:")
}

func width(line string) int {
	return utf8.RuneCountInString(strings.TrimRight(line, "\r")) + strings.Count(line, "\t")*(tabWidth-1)
}
