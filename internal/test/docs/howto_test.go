//go:build unix

package docs

import (
	"bufio"
	"cmp"
	"fmt"
	"go/format"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

const patience = time.Minute // for a line of output, on a busy machine

var (
	fence    = regexp.MustCompile("(?ms)^( *)```(\\w+) ?(\\w*)\n(.*?)^ *```$")
	fileName = regexp.MustCompile(`^// ([\w./-]+\.go)\n`)
	// What differs between runs: durations, times of day, sessions with their tokens, tokens, host
	// names, and numbers of four or more digits.
	variable = regexp.MustCompile(`\b[0-9.]+(?:ms|[smh])(?:[0-9]+[sm])*\b|\b\d\d:\d\d:\d\d\b|0x[0-9a-f]+(?: \d+)?|` +
		`\btoken \d+|"host":"[^"]*"|\b\d{4,}\b`)
	longNumber = regexp.MustCompile(`\b\d{4,}\b`)
	killed     = regexp.MustCompile(`^bash: line \d+: \d+ Killed .*`)
)

type block struct{ kind, terminal, text string }

// starts is the beginning of a page that does not start a server itself.
var starts = []block{{"sh", "server", "zklock dev\n"}, {"text", "server", "" +
	"An in-memory ZooKeeper to try things out, not for production: it is one process, and its data is gone when it ends.\n" +
	"Use it: export ZK_SERVERS=127.0.0.1:2181, or zklock run -servers 127.0.0.1:2181 /jobs/nightly -- ./nightly.sh\n"}}

func TestPages(t *testing.T) {
	files, err := filepath.Glob("docs/how-to/*.md")
	must(t, err)
	module := t.TempDir() // with a directory for each page
	pages := map[string][]block{}
	for _, file := range append(files, "docs/tutorial.md") {
		text := read(t, file)
		page := filepath.Join(module, strings.TrimSuffix(filepath.Base(file), ".md"))
		if filepath.Base(page) == "test-your-code" {
			continue // its own module, tested by TestAProgramOutsideOfTheModule in zktest
		}
		must(t, os.Mkdir(page, 0o755))
		for _, m := range fence.FindAllStringSubmatch(text, -1) {
			code := strings.ReplaceAll("\n"+m[4], "\n"+m[1], "\n")[1:] // without the indentation of a list
			pages[page] = append(pages[page], block{m[2], m[3], code})
		}
		for i, b := range pages[page] {
			if b.kind == "go" {
				formatted, err := format.Source([]byte(b.text))
				if err != nil || string(formatted) != b.text {
					t.Errorf("%s: %v, or not formatted:\n%s", file, err, b.text)
				}
				save(t, page, i, b.text)
			}
		}
	}
	gomod, gosum := "module example.com\n\ngo 1.25.0\n", ""
	for _, path := range []string{"", "/kerberos", "/metrics", "/examples/tracing"} {
		dir, err := filepath.Abs("." + path)
		must(t, err)
		if sums, err := os.ReadFile(dir + "/go.sum"); err == nil {
			gosum += string(sums)
			gomod += fmt.Sprintf("require github.com/zklocks/zklocks%s v0.1.0\nreplace github.com/zklocks/zklocks%[1]s => %q\n", path, dir)
		}
	}
	must(t, os.WriteFile(filepath.Join(module, "go.mod"), []byte(gomod), 0o644))
	must(t, os.WriteFile(filepath.Join(module, "go.sum"), []byte(gosum), 0o644))
	if out, err := command(module, "go", "vet", "./...").CombinedOutput(); err != nil {
		t.Fatalf("the code of the pages: %v\n%s", err, out)
	}
	build := exec.Command("go", "build", "-o", filepath.Join(module, "bin", "zklock"), ".")
	build.Dir = "cmd/zklock"
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building zklock: %v\n%s", err, out)
	}
	for page, blocks := range pages {
		if slices.ContainsFunc(blocks, func(b block) bool { return b.kind == "sh" }) {
			t.Run(filepath.Base(page), func(t *testing.T) {
				t.Parallel()
				r := &reader{T: t, page: page, terminals: map[string]*terminal{}, seen: map[string]string{}}
				if !slices.Contains(blocks, block{"sh", "", starts[0].text}) {
					r.follow(starts)
				}
				r.follow(blocks)
				r.leave()
			})
		}
	}
}

// A program of a page that finds no server says so, and an unset variable is named.
func TestProgramsDoNotWaitInSilence(t *testing.T) {
	files, err := filepath.Glob("docs/how-to/*.md")
	must(t, err)
	seen := 0
	for _, file := range append(files, "docs/tutorial.md") {
		for _, m := range fence.FindAllStringSubmatch(read(t, file), -1) {
			if m[2] != "go" || !strings.Contains(m[4], "zklocks.Connect(") || strings.Contains(m[4], `"testing"`) {
				continue
			}
			seen++
			if !strings.Contains(m[4], "zklocks.WithLogger(") && !strings.Contains(m[4], "zklocks.Connect(starting,") {
				t.Errorf("%s: Connect waits without a logger and without a limit:\n%s", file, m[4])
			}
			if strings.Contains(m[4], `Getenv("ZK_SERVERS")`) && !strings.Contains(m[4], `"ZK_SERVERS: `) {
				t.Errorf("%s: an unset ZK_SERVERS is not named:\n%s", file, m[4])
			}
		}
	}
	if seen == 0 {
		t.Error("no program was checked")
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// save saves block i of a page as Go: at the path in its first line, or in a package of its own.
func save(t *testing.T, page string, i int, code string) {
	file := fmt.Sprintf("block%d/pasted.go", i)
	if m := fileName.FindStringSubmatch(code); m != nil {
		file = m[1]
	} else if !strings.HasPrefix(code, "package ") {
		code = "package pasted\n\n" + code
	}
	file = filepath.Join(page, file)
	must(t, os.MkdirAll(filepath.Dir(file), 0o755))
	must(t, os.WriteFile(file, []byte(code), 0o644))
}

// command returns a command in the module of the pages, with the built zklock in its PATH.
func command(dir string, argv ...string) *exec.Cmd {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod "+os.Getenv("GOFLAGS"),
		"PATH="+filepath.Join(dir, "../bin")+":"+os.Getenv("PATH"))
	return cmd
}

// A reader types what a page shows, and compares the output of the terminals.
type reader struct {
	*testing.T
	page      string
	terminals map[string]*terminal
	seen      map[string]string // present values of numbers on the page, such as a port or a process id
}

type terminal struct {
	keyboard io.WriteCloser
	lines    chan string // closed when everything that ran in it has ended
}

func (r *reader) follow(blocks []block) {
	last := "1"
	for i, b := range blocks {
		now := longNumber.ReplaceAllStringFunc(b.text, func(n string) string { return cmp.Or(r.seen[n], n) })
		switch b.kind {
		case "go":
			save(r.T, r.page, i, now)
		case "sh":
			last = cmp.Or(b.terminal, last)
			io.WriteString(r.terminal(last).keyboard, strings.ReplaceAll(now, "zklock dev\n", "zklock dev -port 0 -tick 100ms\n"))
		case "text":
			for want := range strings.Lines(b.text) {
				r.expect(cmp.Or(b.terminal, last), want)
			}
		}
	}
}

// expect fails unless the terminal's next line is want, except for what differs between runs.
func (r *reader) expect(name, want string) {
	got := "nothing"
	select {
	case got = <-r.terminals[name].lines:
	case <-time.After(patience): // the terminal prints nothing
	}
	want, got = strings.Join(strings.Fields(want), " "), strings.Join(strings.Fields(got), " ")
	want, open := strings.CutSuffix(want, "...")
	got = killed.ReplaceAllString(got, "Killed") // as a shell at a terminal prints it
	literal := variable.Split(want, -1)
	for i := range literal {
		literal[i] = regexp.QuoteMeta(literal[i])
	}
	end := "$"
	if open { // the page omits the rest of the line
		end = ""
	}
	now := regexp.MustCompile("^" + strings.Join(literal, `([0-9a-z.: ]+|"host":"[^"]*")`) + end).FindStringSubmatch(got)
	if now == nil {
		r.Fatalf("terminal %s prints\n%s\nand the page shows\n%s", name, got, want)
	}
	for i, n := range variable.FindAllString(want, -1) {
		if longNumber.FindString(n) == n {
			r.seen[n] = now[i+1]
		}
	}
}

// terminal returns a terminal, and opens it at its first use.
func (r *reader) terminal(name string) *terminal {
	if r.terminals[name] != nil {
		return r.terminals[name]
	}
	cmd := command(r.page, "bash")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	keyboard, err := cmd.StdinPipe()
	must(r.T, err)
	output, err := cmd.StdoutPipe()
	must(r.T, err)
	cmd.Stderr = cmd.Stdout
	must(r.T, cmd.Start())
	x := &terminal{keyboard, make(chan string, 10_000)}
	r.terminals[name] = x
	go func() {
		defer close(x.lines)
		for s := bufio.NewScanner(output); s.Scan(); {
			x.lines <- s.Text()
		}
	}()
	r.Cleanup(func() {
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // with everything that the page has left running
		for range x.lines {
		}
		cmd.Wait()
	})
	r.follow([]block{{"sh", name, "export ZK_SERVERS=127.0.0.1:2181\n"}})
	return x
}

// leave closes the terminals. A terminal without a running command must not have printed anything
// that the page does not show.
func (r *reader) leave() {
	for name, x := range r.terminals {
		io.WriteString(x.keyboard, "exit\n")
		select {
		case line, more := <-x.lines:
			if more {
				r.Errorf("terminal %s prints more than the page shows: %s", name, line)
			}
		case <-time.After(200 * time.Millisecond): // a command runs there
		}
	}
}
