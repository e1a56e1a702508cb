// Words counts, in comments and documents, the words that do not say who acts: in a distributed
// lock it matters whether that is a goroutine, a process, a session or a server. It also looks for
// comments that are too wide, and for tests in which real time passes for no given reason.
//
//	go run ./internal/test/words [-library N] [-rest N] [-documents N] [-wide N] [DIR]
//
// It prints each place and a total by group, and fails if a group has more than its limit.
package main

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// phrases are the words that are counted.
var phrases = [][]string{
	{"whoever"}, {"whomever"},
	{"somebody"}, {"someone"},
	{"nobody"}, {"no", "one"},
	{"anybody"}, {"anyone"},
	{"everybody"}, {"everyone"},
	{"those", "who"},
	{"anew"}, {"for", "ever"},
}

// library are the packages that users import, and those that they are made of.
var library = []string{
	".", "rwlock", "semaphore", "reentrant", "leader", "observe", "internal/queue", "internal/zkclient",
	"internal/liveness", "internal/hold", "internal/slot", "internal/wire", "internal/znode", "internal/goid",
}

const (
	maxWidth = 100
	tabWidth = 4
)

// A group is what one limit is for.
type group struct {
	name   string
	limit  int
	places []string // file:line: what
}

// tally holds the groups, in the order in which they are printed.
type tally struct {
	library, rest, documents, wide, sleeps group

	tests map[string][]testFile // by directory
}

func (t *tally) groups() []*group {
	return []*group{&t.library, &t.rest, &t.documents, &t.wide, &t.sleeps}
}

func main() {
	t := tally{library: group{name: "library"}, rest: group{name: "rest"}, documents: group{name: "documents"}, wide: group{name: "wide"}, sleeps: group{name: "sleeps"}}
	flag.IntVar(&t.library.limit, "library", 10, "how many words the comments of the library may have")
	flag.IntVar(&t.rest.limit, "rest", 40, "how many words the comments of all other Go files may have, tests among them")
	flag.IntVar(&t.documents.limit, "documents", 10, "how many words the documents may have")
	flag.IntVar(&t.wide.limit, "wide", 0, fmt.Sprintf("how many lines of comments may be wider than %d columns", maxWidth))
	flag.Parse()
	root := "."
	if flag.NArg() > 0 {
		root = flag.Arg(0)
	}
	if err := t.read(os.DirFS(root)); err != nil {
		fmt.Fprintln(os.Stderr, "words:", err)
		os.Exit(2)
	}
	if !t.report(os.Stdout) {
		os.Exit(1)
	}
}

// report prints the groups and returns whether all are within their limits.
func (t *tally) report(out io.Writer) bool {
	ok := true
	for _, g := range t.groups() {
		for _, place := range g.places {
			fmt.Fprintln(out, place)
		}
	}
	for _, g := range t.groups() {
		verdict := "ok"
		if len(g.places) > g.limit {
			ok, verdict = false, "too many"
		}
		fmt.Fprintf(out, "%-9s %4d of %4d  %s\n", g.name, len(g.places), g.limit, verdict)
	}
	return ok
}

// read counts all of a tree. Test data, and directories that the go command ignores, are left out.
func (t *tally) read(tree fs.FS) error {
	t.tests = make(map[string][]testFile)
	defer func() {
		for _, dir := range slices.Sorted(maps.Keys(t.tests)) {
			t.sleeps.sleep(t.tests[dir])
		}
	}()
	return fs.WalkDir(tree, ".", func(name string, entry fs.DirEntry, err error) error {
		switch base := path.Base(name); {
		case err != nil:
			return err
		case entry.IsDir():
			if name != "." && (base == "testdata" || base == "bin" || strings.ContainsRune("._", rune(base[0]))) {
				return fs.SkipDir
			}
			return nil
		case strings.HasSuffix(name, ".go"):
			src, err := fs.ReadFile(tree, name)
			if err != nil {
				return err
			}
			return t.source(name, src)
		case strings.HasSuffix(name, ".md") && (path.Dir(name) == "." || path.Dir(name) == "docs"):
			text, err := fs.ReadFile(tree, name)
			if err != nil {
				return err
			}
			t.documents.count(name, 1, string(text))
		}
		return nil
	})
}

// source counts the comments of a Go file.
func (t *tally) source(name string, src []byte) error {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, filepath.FromSlash(name), src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	t.test(testFile{name, files, file})
	words := &t.rest
	if slices.Contains(library, path.Dir(name)) && !strings.HasSuffix(name, "_test.go") {
		words = &t.library
	}
	lines := strings.Split(string(src), "\n")
	for _, comments := range file.Comments {
		first := files.Position(comments.Pos()).Line
		words.count(name, first, text(comments))
		for line := first; line <= files.Position(comments.End()).Line; line++ {
			if w := width(lines[line-1]); w > maxWidth && alone(lines[line-1]) {
				t.wide.add(name, line, fmt.Sprintf("%d columns", w))
			}
		}
	}
	return nil
}

// text is that of a comment group, with as many lines as it has in the file.
func text(comments *ast.CommentGroup) string {
	var b strings.Builder
	for _, c := range comments.List {
		b.WriteString(strings.TrimPrefix(c.Text, "//"))
		b.WriteByte('\n')
	}
	return b.String()
}

// alone reports whether a line has no code in front of its comment. One that has is as wide as its
// code. Directives cannot be broken.
func alone(line string) bool {
	line = strings.TrimSpace(line)
	return strings.HasPrefix(line, "//") && !strings.HasPrefix(line, "//go:")
}

func width(line string) int {
	tabs := strings.Count(line, "\t")
	return utf8.RuneCountInString(strings.TrimRight(line, "\r")) + tabs*(tabWidth-1)
}

var word = regexp.MustCompile(`\w+`)

// count adds the phrases of a text that begins at a line. They may go over the end of a line.
func (g *group) count(name string, line int, text string) {
	type found struct {
		line int
		word string
	}
	var all []found
	for l := range strings.Lines(text) {
		for _, w := range word.FindAllString(l, -1) {
			all = append(all, found{line, strings.ToLower(w)})
		}
		line++
	}
	for i, f := range all {
		for _, phrase := range phrases {
			n := 0
			for n < len(phrase) && i+n < len(all) && all[i+n].word == phrase[n] {
				n++
			}
			if n == len(phrase) {
				g.add(name, f.line, strings.Join(phrase, " "))
			}
		}
	}
}

func (g *group) add(name string, line int, what string) {
	g.places = append(g.places, fmt.Sprintf("%s:%d: %s", name, line, what))
}
