//go:build unix

// Package docs keeps the tutorial and the how-tos true. The word behind the fence of a block says
// what becomes of it:
//
//	go    compiled. A first line such as "// worker/main.go" says where the reader saves it
//	sh    typed into a shell, "sh 2" into that of a second terminal
//	text  what the terminal of the last sh block prints next; "text 2" is terminal 2
//
// Other blocks (console, yaml, ini) are only shown: they need systemd, Kubernetes or the network.
package docs

import (
	"bufio"
	"fmt"
	"go/format"
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

const (
	root     = "../../.."
	patience = time.Minute // for one line of output, on a busy machine
)

var (
	fence    = regexp.MustCompile("(?ms)^( *)```(\\w+) ?(\\w*)\n(.*?)^ *```$")
	fileName = regexp.MustCompile(`^// ([\w./-]+\.go)\n`)
	// variable is what differs from run to run: durations, times of day, sessions with their tokens,
	// tokens, long numbers and host names.
	variable = regexp.MustCompile(`\b[0-9.]+(?:ms|[smh])(?:[0-9]+[sm])*\b|\b\d\d:\d\d:\d\d(?:\.\d+)?\b|` +
		`0x[0-9a-f]+(?: +\d+)?|\btoken \d+|\b\d{4,}\b|"host":"[^"]*"`)
	longNumber = regexp.MustCompile(`\b\d{4,}\b`)
	killed     = regexp.MustCompile(`^bash: line \d+: \d+ (Killed) .*`)
	blanks     = regexp.MustCompile(`[ \t]+`)
)

type block struct{ language, terminal, text string }

// server is how a page begins that does not start a server itself.
var server = []block{{"sh", "server", "zklock dev\n"}, {"text", "server", "" +
	"An in-memory ZooKeeper to try things out, not for production: it is one process, and its data is gone when it ends.\n" +
	"Use it: export ZK_SERVERS=127.0.0.1:2181, or zklock run -servers 127.0.0.1:2181 /jobs/nightly -- ./nightly.sh\n"}}

// TestPages compiles what the pages show, and types and compares what they have a reader type.
func TestPages(t *testing.T) {
	files, err := filepath.Glob(root + "/docs/how-to/*.md")
	if err != nil {
		t.Fatal(err)
	}
	module := t.TempDir() // a directory for each page, and bin
	pages := map[string][]block{}
	for _, file := range append(files, root+"/docs/tutorial.md") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		page := filepath.Join(module, strings.TrimSuffix(filepath.Base(file), ".md"))
		if filepath.Base(page) == "test-your-code" {
			continue // a module of its own: zktest TestAProgramOutsideOfTheModule
		}
		for i, m := range fence.FindAllStringSubmatch(string(text), -1) {
			b := block{m[2], m[3], strings.TrimPrefix(strings.ReplaceAll("\n"+m[4], "\n"+m[1], "\n"), "\n")}
			pages[page] = append(pages[page], b)
			if b.language != "go" {
				continue
			}
			if formatted, err := format.Source([]byte(b.text)); err != nil || string(formatted) != b.text {
				t.Errorf("%s: %v, or not formatted:\n%s", file, err, b.text)
			}
			switch {
			case fileName.MatchString(b.text):
				save(t, page, b.text)
			case strings.HasPrefix(b.text, "package "):
				save(t, page, fmt.Sprintf("// block%d/pasted.go\n\n%s", i, b.text))
			default:
				save(t, page, fmt.Sprintf("// block%d/pasted.go\n\npackage pasted\n\n%s", i, b.text))
			}
		}
	}
	makeModule(t, module)
	run(t, module, "go", "vet", "./...")
	run(t, filepath.Join(root, "cmd/zklock"), "go", "build", "-o", filepath.Join(module, "bin", "zklock"), ".")
	for page, blocks := range pages {
		if !slices.ContainsFunc(blocks, func(b block) bool { return b.language == "sh" }) {
			continue
		}
		t.Run(filepath.Base(page), func(t *testing.T) {
			t.Parallel()
			r := &reader{T: t, dir: page, terminals: map[string]*terminal{}, seen: map[string]string{}}
			if !slices.ContainsFunc(blocks, func(b block) bool { return b.text == server[0].text }) {
				r.follow(server)
			}
			r.follow(blocks)
			r.leave()
		})
	}
}

// save writes a block of Go to the file that its first line names.
func save(t *testing.T, dir, code string) {
	file := filepath.Join(dir, fileName.FindStringSubmatch(code)[1])
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(code), 0o644); err != nil {
		t.Fatal(err)
	}
}

// makeModule makes a module that requires those of the checkout.
func makeModule(t *testing.T, dir string) {
	text := "module example.com\n\ngo 1.25.0\n"
	for _, nested := range []string{"", "/metrics"} {
		path, err := filepath.Abs(root + nested)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(path + "/go.mod"); err == nil {
			text += fmt.Sprintf("require github.com/zklocks/zklocks%s v0.1.0\nreplace github.com/zklocks/zklocks%[1]s => %q\n", nested, path)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	run(t, dir, "go", "mod", "tidy")
}

// environment is for the go command: what a module needs is in the cache.
func environment() []string {
	return append(os.Environ(), "GOPROXY=off", "GOSUMDB=off", "GOFLAGS=-mod=mod "+os.Getenv("GOFLAGS"))
}

func run(t *testing.T, dir string, argv ...string) {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir = dir
	if !strings.HasPrefix(dir, root) {
		cmd.Env = environment()
	}
	start := time.Now()
	out, err := cmd.CombinedOutput()
	t.Log(argv, time.Since(start))
	if err != nil {
		t.Fatalf("%v: %v\n%s", argv, err, out)
	}
}

// A reader types what a page shows, and compares what the terminals print.
type reader struct {
	*testing.T
	dir       string
	terminals map[string]*terminal
	seen      map[string]string // long numbers of the page, ports and processes: what they are in this run
}

type terminal struct {
	input *os.File
	lines chan string // closed at the end of all that ran in it
}

func (r *reader) follow(blocks []block) {
	last := "1"
	for _, b := range blocks {
		if b.terminal == "" {
			b.terminal = last
		}
		// What a page shows as 2181 or 4711 was another number when the terminal printed it.
		text := longNumber.ReplaceAllStringFunc(b.text, func(n string) string {
			if now, ok := r.seen[n]; ok {
				return now
			}
			return n
		})
		switch b.language {
		case "go":
			if fileName.MatchString(text) {
				save(r.T, r.dir, text)
			}
		case "sh":
			last = b.terminal
			fmt.Fprint(r.terminal(last).input, strings.ReplaceAll(text, "zklock dev\n", "zklock dev -port 0 -tick 100ms\n"))
		case "text":
			for want := range strings.Lines(b.text) {
				r.expect(b.terminal, want)
			}
		}
	}
}

// expect fails if the next line in a terminal is not the one that the page shows.
func (r *reader) expect(name, want string) {
	var got string
	select {
	case got = <-r.terminals[name].lines:
	case <-time.After(patience):
	}
	flat := func(s string) string { return strings.TrimSpace(blanks.ReplaceAllString(s, " ")) }
	want, got = flat(want), killed.ReplaceAllString(flat(got), "$1")
	wants, gots := variable.FindAllString(want, -1), variable.FindAllString(got, -1)
	if !slices.Equal(variable.Split(want, -1), variable.Split(got, -1)) || len(wants) != len(gots) {
		r.Fatalf("terminal %s prints\n%s\nand the page shows\n%s", name, got, want)
	}
	numbers := longNumber.FindAllString(got, -1)
	for i, n := range longNumber.FindAllString(want, -1) {
		if i < len(numbers) {
			r.seen[n] = numbers[i]
		}
	}
}

// terminal opens a terminal when it is first needed.
func (r *reader) terminal(name string) *terminal {
	if r.terminals[name] != nil {
		return r.terminals[name]
	}
	script, input, err := os.Pipe()
	if err != nil {
		r.Fatal(err)
	}
	output, prints, err := os.Pipe()
	if err != nil {
		r.Fatal(err)
	}
	cmd := exec.Command("bash")
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = r.dir, script, prints, prints
	cmd.Env = append(environment(), "PATH="+filepath.Join(r.dir, "../bin")+":"+os.Getenv("PATH"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		r.Fatal(err)
	}
	script.Close()
	prints.Close()
	x := &terminal{input: input, lines: make(chan string, 10_000)}
	r.terminals[name] = x
	go func() {
		defer close(x.lines)
		for s := bufio.NewScanner(output); s.Scan(); {
			x.lines <- s.Text()
		}
	}()
	r.Cleanup(func() {
		input.Close()
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // what the page has left running
		cmd.Wait()
		for range x.lines { // until all has ended
		}
	})
	if name != "server" {
		r.follow([]block{{"sh", name, "export ZK_SERVERS=127.0.0.1:2181\n"}})
	}
	return x
}

// leave closes the terminals. Those in which nothing runs must have printed all that the page shows
// and no more.
func (r *reader) leave() {
	for name, x := range r.terminals {
		fmt.Fprintln(x.input, "exit")
		select {
		case line, more := <-x.lines:
			if more {
				r.Errorf("terminal %s prints more than the page shows: %s", name, line)
			}
		case <-time.After(200 * time.Millisecond): // a command runs there
		}
	}
}
