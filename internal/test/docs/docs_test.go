package docs

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/zklocks/zklocks/internal/test/leaks"
	"github.com/zklocks/zklocks/internal/test/realzk"
)

// TestMain runs the tests in the root of the module: the documents' paths are relative to it.
func TestMain(m *testing.M) {
	if err := os.Chdir("../../.."); err != nil {
		panic(err)
	}
	leaks.Main(m)
}

func read(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.FromSlash(file))
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(b), "\r\n", "\n")
}

// flat removes indentation, so that a function's body can be found in it.
func flat(code string) string {
	lines := strings.Split(strings.TrimSpace(code), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimSpace(line)
	}
	return strings.Join(lines, "\n")
}

var goBlock = regexp.MustCompile("(?s)```go\n(.*?)```")

// The program in the README can be pasted whole: it ends if no server answers, and with a server it
// prints what the README says.
func TestTheProgramInTheReadmeRuns(t *testing.T) {
	blocks := goBlock.FindAllStringSubmatch(read(t, "README.md"), -1)
	if len(blocks) != 1 {
		t.Fatalf("README.md has %d blocks of Go, want one program", len(blocks))
	}
	program := blocks[0][1]
	vet(t, program)
	const address = `"127.0.0.1:2181"`
	if strings.Count(program, address) != 1 {
		t.Fatalf("the program does not connect to %s once:\n%s", address, program)
	}
	for name, servers := range map[string][]string{"a server": realzk.Some(t), "no server": {"127.0.0.1:1"}} {
		pasted := filepath.Join(t.TempDir(), "main.go")
		code := strings.Replace(program, address, `"`+strings.Join(servers, `", "`)+`"`, 1)
		if err := os.WriteFile(pasted, []byte(code), 0o644); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command("go", "run", pasted).CombinedOutput()
		granted := regexp.MustCompile(`^holding, token [0-9]+\n$`).Match(out)
		refused := strings.Contains(string(out), "after 5") && strings.Contains(string(out), "connection refused")
		if (err == nil) != granted || granted == refused || granted != (name == "a server") {
			t.Errorf("with %s: %v\n%s", name, err, out)
		}
	}
}

// The package comment shows an example that runs.
func TestThePackageCommentShowsAnExample(t *testing.T) {
	blocks := codeIn(t, "doc.go")
	if len(blocks) != 1 {
		t.Fatalf("doc.go has %d blocks of Go, want 1", len(blocks))
	}
	imports, code, found := strings.Cut(blocks[0], "\n)\n\n")
	if !found || !strings.HasPrefix(imports, "import (\n") {
		t.Fatalf("the code in doc.go does not begin with its imports:\n%s", blocks[0])
	}
	const example = "rwlock/example_test.go"
	if !strings.Contains(read(t, example), code) {
		t.Errorf("the code in doc.go is not that of %s:\n%s", example, code)
	}
	vet(t, "package pasted\n\n"+blocks[0]+"\nfunc rewrite(context.Context, int64) error { return nil }\n")
}

// vet compiles a program of one file.
func vet(t *testing.T, program string) {
	t.Helper()
	pasted := filepath.Join(t.TempDir(), "pasted.go")
	if err := os.WriteFile(pasted, []byte(program), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("go", "vet", pasted).CombinedOutput(); err != nil {
		t.Errorf("it cannot be pasted: %v\n%s\n%s", err, out, program)
	}
}

// go vet reports copies of the types that must not be copied.
func TestVetReportsCopies(t *testing.T) {
	types := []string{"zklocks.Hold", "zklocks.Conn", "rwlock.RWMutex", "reentrant.Mutex", "semaphore.Semaphore", "leader.Election"}
	program := "package pasted\n\n"
	for _, pkg := range []string{"", "/rwlock", "/reentrant", "/semaphore", "/leader"} {
		program += fmt.Sprintf("import %q\n", "github.com/zklocks/zklocks"+pkg)
	}
	for i, name := range types {
		program += fmt.Sprintf("func copy%d(v *%s) { other := *v; _ = &other }\n", i, name)
	}
	pasted := filepath.Join(t.TempDir(), "pasted.go")
	if err := os.WriteFile(pasted, []byte(program), 0o644); err != nil {
		t.Fatal(err)
	}
	out, _ := exec.Command("go", "vet", pasted).CombinedOutput() // fails
	for _, name := range types {
		if !strings.Contains(string(out), "copies lock value to other: github.com/zklocks/"+strings.Replace("zklocks/"+name, "zklocks/zklocks.", "zklocks.", 1)) {
			t.Errorf("no report of a copy of %s:\n%s", name, out)
		}
	}
}

// codeIn returns the blocks of code in a package comment.
func codeIn(t *testing.T, file string) (blocks []string) {
	t.Helper()
	var code []string
	for line := range strings.Lines(read(t, file)) {
		rest, ok := strings.CutPrefix(strings.TrimRight(line, "\n"), "//\t")
		switch {
		case ok:
			code = append(code, rest)
		case strings.HasPrefix(line, "//\n") && len(code) > 0:
			code = append(code, "")
		case len(code) > 0: // the block is over
			blocks = append(blocks, strings.TrimSpace(strings.Join(code, "\n")))
			code = nil
		}
	}
	return blocks
}

func TestPackageCommentsShowExamples(t *testing.T) {
	for _, pkg := range []string{"rwlock", "semaphore", "reentrant", "leader", "once", "zktest"} {
		blocks := codeIn(t, pkg+"/doc.go")
		for _, code := range blocks {
			if !strings.Contains(flat(read(t, pkg+"/example_test.go")), flat(code)) {
				t.Errorf("the code in %s/doc.go is not that of its examples:\n%s", pkg, code)
			}
		}
		if len(blocks) == 0 {
			t.Errorf("%s/doc.go shows no code", pkg)
		}
	}
}

// The examples import only public packages, so that readers can paste them.
func TestExamplesImportNothingInternal(t *testing.T) {
	files, err := filepath.Glob("*/example*_test.go")
	if err != nil || len(files) == 0 {
		t.Fatal(err, files)
	}
	for _, file := range append(files, "example_test.go") {
		if strings.HasPrefix(file, "examples/") {
			continue // programs
		}
		if strings.Contains(read(t, file), "/internal/") {
			t.Errorf("%s imports an internal package", file)
		}
	}
}

var (
	link      = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	fenced    = regexp.MustCompile("(?s)```.*?```|`[^`\n]*`")
	scheme    = regexp.MustCompile(`^[a-z]+:`)
	heading   = regexp.MustCompile(`(?m)^#+ +(.+)$`)
	markup    = regexp.MustCompile("`|\\*|\\[|\\]\\([^)]*\\)")
	documents = []string{"*.md", "docs/*.md", "docs/*/*.md", "examples/*.md", "examples/*/*.md", "metrics/*.md"}
)

// slug returns the anchor of a heading on GitHub and the like.
func slug(title string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ', r == '-':
			return '-'
		case r == '_', unicode.IsLetter(r), unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, markup.ReplaceAllString(title, ""))
}

func anchors(text string) map[string]bool {
	found := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(text, -1) {
		found[slug(m[1])] = true
	}
	return found
}

func eachDocument(t *testing.T, f func(file, text string)) {
	t.Helper()
	for _, pattern := range documents {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			f(file, read(t, file))
		}
	}
}

func TestRelativeLinksLeadSomewhere(t *testing.T) {
	seen := 0
	eachDocument(t, func(file, text string) {
		text = fenced.ReplaceAllStringFunc(text, func(code string) string {
			return strings.Repeat("x", len(code))
		})
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			if scheme.MatchString(m[1]) {
				continue
			}
			seen++
			path, fragment, _ := strings.Cut(m[1], "#")
			target := file
			if path != "" {
				target = filepath.Join(filepath.Dir(file), filepath.FromSlash(path))
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s links to %s: %v", file, m[1], err)
				continue
			}
			if fragment != "" && !anchors(read(t, target))[fragment] {
				t.Errorf("%s links to %s, but %s has no such heading", file, m[1], target)
			}
		}
	})
	if seen == 0 {
		t.Error("no link was found: nothing was checked")
	}
}

var source = regexp.MustCompile("`((?:internal|cmd|scripts|rwlock|examples)/[\\w/.-]+\\.[a-z]+)`")

func TestTheFilesInTheDocumentsExist(t *testing.T) {
	seen := 0
	eachDocument(t, func(file, text string) {
		for _, m := range source.FindAllStringSubmatch(text, -1) {
			seen++
			if _, err := os.Stat(m[1]); err != nil {
				t.Errorf("%s names %v", file, err)
			}
		}
	})
	if seen == 0 {
		t.Error("no file was found: nothing was checked")
	}
}

var testCommand = regexp.MustCompile("`([^`\n]*go test [^`\n]*)`(?: in `([^`\n]*)`)?")

func TestTheCommandsInTheDocumentsRunTests(t *testing.T) {
	commands := 0
	eachDocument(t, func(file, text string) {
		for _, m := range testCommand.FindAllStringSubmatch(text, -1) {
			_, arguments, _ := strings.Cut(m[1], "go test ")
			var run string
			if _, rest, found := strings.Cut(arguments, "-run "); found {
				if rest, quoted := strings.CutPrefix(rest, "'"); quoted {
					run, _, _ = strings.Cut(rest, "'")
				} else {
					run, _, _ = strings.Cut(rest, " ")
				}
				run, _, _ = strings.Cut(run, "/")
			}
			for _, pkg := range strings.Fields(arguments) {
				if !strings.HasPrefix(pkg, ".") || strings.HasSuffix(pkg, "...") {
					continue
				}
				commands++
				matches := false
				for name := range names(t, testFunc, filepath.Join(m[2], pkg, "*_test.go")) {
					matches = matches || regexp.MustCompile(run).MatchString(name)
				}
				if !matches {
					t.Errorf("%s: `%s` runs no test in %s", file, m[1], filepath.Join(m[2], pkg))
				}
			}
		}
	})
	if commands == 0 {
		t.Error("no command was found: nothing was checked")
	}
	t.Logf("%d packages in commands", commands)
}

// Commands in the documents: a target of make, or a run of the suite.
var targetCommand = regexp.MustCompile("(?m)(?:`|^    )(?:[A-Z]+=\\S+ )?(make|go run \\./internal/test/suite) ([a-z]+)")

func TestTheTargetsInTheDocumentsExist(t *testing.T) {
	exist := map[string]map[string]bool{
		"make":                         names(t, regexp.MustCompile(`(?m)^([a-z]+):`), "Makefile"),
		"go run ./internal/test/suite": names(t, regexp.MustCompile(`\bname: "([a-z]+)", what: "`), "internal/test/suite/*.go"),
	}
	seen := map[string]int{}
	eachDocument(t, func(file, text string) {
		for _, m := range targetCommand.FindAllStringSubmatch(text, -1) {
			seen[m[1]]++
			if !exist[m[1]][m[2]] {
				t.Errorf("%s: there is no `%s %s`", file, m[1], m[2])
			}
		}
	})
	for command := range exist {
		if seen[command] == 0 {
			t.Errorf("no `%s` was found: nothing was checked", command)
		}
	}
}

var (
	ofPackage = regexp.MustCompile("`([a-z.][a-z/]*) ((?:Test|Fuzz|Example)\\w*(?:, (?:Test|Fuzz|Example)\\w*)*)`")
	quoted    = regexp.MustCompile(`"([^"]*)"`)
	testFunc  = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Example)\w*)\(`)
	scenario  = regexp.MustCompile(`(?m)^\t\{"([^"]+)", \w+, [^}]+\},$`)
	anyTest   = regexp.MustCompile(`\b(?:Test|Fuzz|Example)[A-Z]\w*`)
)

// namesIn caches the results of names.
var namesIn = map[string]map[string]bool{}

// names collects the matches of the first group of a pattern in a package's files.
func names(t *testing.T, pattern *regexp.Regexp, files string) map[string]bool {
	t.Helper()
	known := pattern.String() + files
	if found := namesIn[known]; found != nil {
		return found
	}
	found := map[string]bool{}
	namesIn[known] = found
	paths, err := filepath.Glob(filepath.FromSlash(files))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		for _, m := range pattern.FindAllStringSubmatch(read(t, path), -1) {
			found[m[1]] = true
		}
	}
	return found
}

// testsIn counts the tests that a line names, which must exist.
func testsIn(t *testing.T, line string) int {
	t.Helper()
	tests := 0
	rest := ofPackage.ReplaceAllStringFunc(line, func(span string) string {
		m := ofPackage.FindStringSubmatch(span)
		exist := names(t, testFunc, m[1]+"/*_test.go")
		for name := range strings.SplitSeq(m[2], ", ") {
			tests++
			if !exist[name] {
				t.Errorf("%s has no %s", m[1], name)
			}
		}
		return ""
	})
	for _, m := range quoted.FindAllStringSubmatch(rest, -1) {
		tests++
		if !names(t, scenario, "internal/test/contract/*.go")[m[1]] {
			t.Errorf("the contract has no scenario %q", m[1])
		}
	}
	if name := anyTest.FindString(rest); name != "" {
		t.Errorf("%s stands without its package", name)
	}
	return tests
}

// Each row of the table of faults ends with an existing test, or with the reason why there is none.
func TestTheTestsOfFaultsExist(t *testing.T) {
	rows, tests := 0, 0
	for line := range strings.Lines(read(t, "docs/maintainers/faults.md")) {
		line = strings.TrimSpace(line)
		known := testsIn(t, line)
		tests += known
		cells := strings.Split(strings.Trim(line, "|"), " | ")
		if !strings.HasPrefix(line, "| ") || strings.HasSuffix(line, "| test |") {
			continue
		}
		rows++
		if len(cells) != 3 || known == 0 && !strings.HasPrefix(strings.TrimSpace(cells[2]), "None") {
			t.Errorf("neither a test nor a reason: %s", line)
		}
	}
	if rows == 0 || tests < rows {
		t.Errorf("%d tests in %d rows: too few to be all", tests, rows)
	}
	t.Logf("%d rows, %d tests", rows, tests)
}

// Each row of the table of who excludes whom ends with a test.
func TestTheTestsOfExclusionExist(t *testing.T) {
	_, text, _ := strings.Cut(read(t, "docs/reference/wire-format.md"), "\n## Who excludes whom\n")
	text, _, _ = strings.Cut(text, "\n## ")
	rows := 0
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| ours |") {
			continue
		}
		rows++
		if testsIn(t, line) == 0 {
			t.Errorf("no test: %s", line)
		}
	}
	if rows == 0 {
		t.Error("no table: nothing was checked")
	}
}

var internal = regexp.MustCompile(`internal/|\b(link|queue|slot|wire|znode)\.[A-Z]`)

// The output of go doc for the public packages names nothing internal.
func TestGoDocShowsNothingInternal(t *testing.T) {
	for _, pkg := range []string{".", "./rwlock", "./reentrant", "./semaphore", "./leader", "./once", "./observe", "./zktest"} {
		t.Run(pkg, func(t *testing.T) {
			t.Parallel()
			out, err := exec.Command("go", "doc", "-all", pkg).CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			for line := range strings.Lines(string(out)) {
				if internal.MatchString(line) {
					t.Errorf("shows %q", strings.TrimSpace(line))
				}
			}
		})
	}
}
