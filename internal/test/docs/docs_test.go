package docs

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
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

// inputs names the test's files to the go command, which reuses a result until such a file changes.
// It sees neither the directory that TestMain has chosen nor the files that go build reads.
var inputs = sync.OnceFunc(func() {
	_ = os.Chdir(".")
	_ = filepath.WalkDir(".", func(path string, d fs.DirEntry, _ error) error {
		if path == ".git" || path == "bin" {
			return filepath.SkipDir
		}
		_, _ = os.Stat(path)
		return nil
	})
})

func read(t *testing.T, file string) string {
	t.Helper()
	inputs()
	b, err := os.ReadFile(filepath.FromSlash(file))
	must(t, err)
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
	const address = `"127.0.0.1:2181"`
	if strings.Count(program, address) != 1 {
		t.Fatalf("the program does not connect to %s once:\n%s", address, program)
	}
	patient := strings.ReplaceAll(program, "5*time.Second", "time.Minute") // on a busy machine
	for name, program := range map[string]string{
		"a server":  strings.Replace(patient, address, `"`+strings.Join(realzk.Some(t), `", "`)+`"`, 1),
		"no server": strings.Replace(program, address, `"127.0.0.1:1"`, 1),
	} {
		pasted := paste(t, program)
		if out, err := exec.Command("go", "vet", pasted).CombinedOutput(); err != nil {
			t.Errorf("it cannot be pasted: %v\n%s", err, out)
		}
		out, err := exec.Command("go", "run", pasted).CombinedOutput()
		granted := regexp.MustCompile(`^holding, token [0-9]+\n$`).Match(out)
		refused := regexp.MustCompile(`after [0-9.]+s`).Match(out) && strings.Contains(string(out), "connection refused")
		if (err == nil) != granted || granted == refused || granted != (name == "a server") {
			t.Errorf("with %s: %v\n%s", name, err, out)
		}
	}
}

// paste writes a program of one file.
func paste(t *testing.T, program string) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "pasted.go")
	must(t, os.WriteFile(file, []byte(program), 0o644))
	return file
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
	out, _ := exec.Command("go", "vet", paste(t, program)).CombinedOutput() // fails
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
	for pkg, examples := range map[string]string{
		".": "rwlock", "rwlock": "rwlock", "semaphore": "semaphore", "reentrant": "reentrant", "leader": "leader", "once": "once", "zktest": "zktest",
	} {
		blocks := codeIn(t, pkg+"/doc.go")
		for _, code := range blocks {
			if _, rest, found := strings.Cut(code, "\n)\n\n"); found && strings.HasPrefix(code, "import (\n") {
				code = rest
			}
			if !strings.Contains(flat(read(t, examples+"/example_test.go")), flat(code)) {
				t.Errorf("the code in %s/doc.go is not that of the examples in %s:\n%s", pkg, examples, code)
			}
		}
		if len(blocks) == 0 {
			t.Errorf("%s/doc.go shows no code", pkg)
		}
	}
}

// The examples import only public packages, so that readers can paste them.
func TestExamplesImportNothingInternal(t *testing.T) {
	files, err := filepath.Glob("*/example_test.go")
	if err != nil || len(files) == 0 {
		t.Fatal(err, files)
	}
	for _, file := range append(files, "example_test.go") {
		if strings.Contains(read(t, file), "/internal/") {
			t.Errorf("%s imports an internal package", file)
		}
	}
}

var (
	link      = regexp.MustCompile("(?s:```.*?```)|`[^`\n]*`|\\]\\(([^)\\s]+)\\)") // or code
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

// eachMatch calls f for each match of a pattern in the documents. There must be a match.
func eachMatch(t *testing.T, pattern *regexp.Regexp, f func(file string, m []string)) {
	t.Helper()
	seen := 0
	for _, documents := range documents {
		files, err := filepath.Glob(documents)
		must(t, err)
		for _, file := range files {
			for _, m := range pattern.FindAllStringSubmatch(read(t, file), -1) {
				seen++
				f(file, m)
			}
		}
	}
	if seen == 0 {
		t.Errorf("no match of %s: nothing was checked", pattern)
	}
}

func TestRelativeLinksLeadSomewhere(t *testing.T) {
	eachMatch(t, link, func(file string, m []string) {
		if m[1] == "" || scheme.MatchString(m[1]) { // code, or another site
			return
		}
		path, fragment, _ := strings.Cut(m[1], "#")
		target := file
		if path != "" {
			target = filepath.Join(filepath.Dir(file), filepath.FromSlash(path))
		}
		if _, err := os.Stat(target); err != nil {
			t.Errorf("%s links to %s: %v", file, m[1], err)
		} else if fragment != "" && !anchors(read(t, target))[fragment] {
			t.Errorf("%s links to %s, but %s has no such heading", file, m[1], target)
		}
	})
}

var source = regexp.MustCompile("`((?:internal|cmd|scripts|rwlock|examples)/[\\w/.-]+\\.[a-z]+)`")

func TestTheFilesInTheDocumentsExist(t *testing.T) {
	eachMatch(t, source, func(file string, m []string) {
		if _, err := os.Stat(m[1]); err != nil {
			t.Errorf("%s names %v", file, err)
		}
	})
}

var (
	testCommand = regexp.MustCompile("`[^`\n]*go test ([^`\n]*)`(?: in `([^`\n]*)`)?")
	runFlag     = regexp.MustCompile(`-run '?([^ '/]*)`)
)

func TestTheCommandsInTheDocumentsRunTests(t *testing.T) {
	eachMatch(t, testCommand, func(file string, m []string) {
		run := ""
		if flag := runFlag.FindStringSubmatch(m[1]); flag != nil {
			run = flag[1]
		}
		for _, pkg := range strings.Fields(m[1]) {
			if !strings.HasPrefix(pkg, ".") || strings.HasSuffix(pkg, "...") {
				continue
			}
			matches := false
			for name := range names(t, testFunc, filepath.Join(m[2], pkg, "*_test.go")) {
				matches = matches || regexp.MustCompile(run).MatchString(name)
			}
			if !matches {
				t.Errorf("%s: `%s` runs no test in %s", file, m[0], filepath.Join(m[2], pkg))
			}
		}
	})
}

// Commands in the documents: a target of make, or a run of the suite.
var targetCommand = regexp.MustCompile("(?m)(?:`|^    )(?:[A-Z]+=\\S+ )?make ([a-z]+)")

func TestTheTargetsInTheDocumentsExist(t *testing.T) {
	exist := names(t, regexp.MustCompile(`(?m)^([a-z]+):`), "Makefile")
	eachMatch(t, targetCommand, func(file string, m []string) {
		if !exist[m[1]] {
			t.Errorf("%s: there is no `make %s`", file, m[1])
		}
	})
}

var (
	ofPackage = regexp.MustCompile("`([a-z.][a-z/]*) ((?:Test|Fuzz|Example)\\w*(?:, (?:Test|Fuzz|Example)\\w*)*)`")
	quoted    = regexp.MustCompile(`"([^"]*)"`)
	testFunc  = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Example)\w*)\(`)
	scenario  = regexp.MustCompile(`(?m)^\t\{"([^"]+)", \w+, [^}]+\},$`)
	anyTest   = regexp.MustCompile(`\b(?:Test|Fuzz|Example)[A-Z]\w*`)
)

// names collects the matches of the first group of a pattern in a package's files.
func names(t *testing.T, pattern *regexp.Regexp, files string) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	paths, err := filepath.Glob(filepath.FromSlash(files))
	must(t, err)
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

// Each row of the tables of faults and of who excludes whom ends with an existing test, or with the
// reason why there is none.
func TestTheTestsInTablesExist(t *testing.T) {
	_, exclusion, _ := strings.Cut(read(t, "docs/reference/wire-format.md"), "\n## Who excludes whom\n")
	exclusion, _, _ = strings.Cut(exclusion, "\n## ")
	for name, text := range map[string]string{"faults": read(t, "docs/maintainers/faults.md"), "exclusion": exclusion} {
		rows := 0
		for line := range strings.Lines(text) {
			line = strings.TrimSpace(line)
			tests := testsIn(t, line)
			cells := strings.Split(strings.Trim(line, "| "), " | ")
			last := cells[len(cells)-1]
			if !strings.HasPrefix(line, "| ") || last == "test" || last == "shown by" {
				continue
			}
			rows++
			if tests == 0 && !strings.HasPrefix(last, "None") {
				t.Errorf("%s: neither a test nor a reason: %s", name, line)
			}
		}
		if rows == 0 {
			t.Errorf("no table of %s: nothing was checked", name)
		}
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
