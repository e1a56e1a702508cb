// Package docs_test keeps the documents true: the code in them is that of the
// examples, which run, and their links lead somewhere.
package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

func read(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.FromSlash(file))
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(b), "\r\n", "\n")
}

// flat drops indentation, so that a function's body can be found in it.
func flat(code string) string {
	lines := strings.Split(strings.TrimSpace(code), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimSpace(line)
	}
	return strings.Join(lines, "\n")
}

var goBlock = regexp.MustCompile("(?s)```go\n(.*?)```")

func TestReadmeShowsAnExample(t *testing.T) {
	blocks := goBlock.FindAllStringSubmatch(read(t, "README.md"), -1)
	if len(blocks) != 1 {
		t.Fatalf("README.md has %d blocks of Go, want the one of the example", len(blocks))
	}
	const example = "rwlock/example_test.go"
	if !strings.Contains(read(t, example), blocks[0][1]) {
		t.Errorf("the code in README.md is not that of %s:\n%s", example, blocks[0][1])
	}
}

func TestPackageCommentsShowExamples(t *testing.T) {
	for _, pkg := range []string{"rwlock", "semaphore", "reentrant"} {
		var code []string
		for line := range strings.Lines(read(t, pkg+"/doc.go")) {
			rest, ok := strings.CutPrefix(strings.TrimRight(line, "\n"), "//\t")
			switch {
			case ok:
				code = append(code, rest)
			case strings.HasPrefix(line, "//\n") && len(code) > 0:
				code = append(code, "")
			case len(code) > 0: // the block is over
				if !strings.Contains(flat(read(t, pkg+"/example_test.go")), flat(strings.Join(code, "\n"))) {
					t.Errorf("the code in %s/doc.go is not that of its examples:\n%s", pkg, strings.Join(code, "\n"))
				}
				code = nil
			}
		}
		if !strings.Contains(read(t, pkg+"/doc.go"), "//\t") {
			t.Errorf("%s/doc.go shows no code", pkg)
		}
	}
}

var (
	link      = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	fenced    = regexp.MustCompile("(?s)```.*?```|`[^`\n]*`")
	scheme    = regexp.MustCompile(`^[a-z]+:`)
	heading   = regexp.MustCompile(`(?m)^#+ +(.+)$`)
	markup    = regexp.MustCompile("`|\\*|\\[|\\]\\([^)]*\\)")
	documents = []string{"*.md", "docs/*.md"}
)

// slug is the anchor that forges make of a heading.
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

func TestRelativeLinksLeadSomewhere(t *testing.T) {
	seen := 0
	for _, pattern := range documents {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text := fenced.ReplaceAllStringFunc(read(t, file), func(code string) string {
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
		}
	}
	if seen == 0 {
		t.Error("no link was found: nothing was checked")
	}
}
