// Package examples_test runs the examples as readers do.
package examples_test

import (
	"bufio"
	"bytes"
	"flag"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/leaks"
	"github.com/zklocks/zklocks/internal/test/loopback"
	"github.com/zklocks/zklocks/internal/test/realzk"
)

const (
	maxLines = 100         // of an example; few read a longer one
	limit    = time.Minute // an example ends by itself earlier

	// The demo first compiles the examples, on a fresh machine also the standard library, and then
	// runs six examples.
	demoLimit = 5 * time.Minute
)

var examples = []string{"joblimit", "inventory", "treewalk", "transfer", "leader", "fencing"}

func TestMain(m *testing.M) {
	flag.Parse()
	// Examples mostly wait, and each runs several processes.
	_ = flag.Set("test.parallel", "4")
	leaks.Main(m)
}

func TestExamplesAreShort(t *testing.T) {
	for _, name := range examples {
		src, err := os.ReadFile(filepath.Join(name, "main.go"))
		if err != nil {
			t.Fatal(err)
		}
		if n := bytes.Count(src, []byte("\n")); n > maxLines {
			t.Errorf("%s has %d lines, more than %d", name, n, maxLines)
		}
	}
}

func TestExamples(t *testing.T) {
	dir := build(t)
	t.Run("failures", func(t *testing.T) { t.Parallel(); fail(t, dir) })
	t.Run("on a real server", func(t *testing.T) { t.Parallel(); succeed(t, dir) })
	t.Run("demo", func(t *testing.T) { t.Parallel(); demo(t, dir) })
}

// fail runs the examples that must fail.
func fail(t *testing.T, dir string) {
	servers := loopback.For(t).Addr()
	t.Run("all", func(t *testing.T) { // returns when the parallel subtests have ended
		for _, c := range []struct {
			title, example string
			args           []string
			lastLine       string // prefix
		}{
			{"without the lock a reader sees half a rewrite", "inventory", []string{"-unlocked"}, "inventory: FAILED: "},
			{"locks that are taken one after the other stop all", "transfer", []string{"-loop"}, "transfer: FAILED: "},
			{"without the locks money is lost", "transfer", []string{"-unlocked"}, "transfer: FAILED: "},
			{"more permits than workers are never all in use", "joblimit", []string{"-limit=9"}, "joblimit: FAILED: there were never 9"},
			{"no server is a failure", "treewalk", []string{"-servers=127.0.0.1:1"}, "treewalk: FAILED: no ZooKeeper at 127.0.0.1:1: "},
			{"too late a takeover is a failure", "joblimit", []string{"-within=100ms"}, "joblimit: FAILED: no worker took the place"},
		} {
			t.Run(c.title, func(t *testing.T) {
				t.Parallel()
				run(t, limit, command(dir, servers, c.example, c.args...), 1, c.lastLine)
			})
		}
		t.Run("an interrupt ends an example and its workers", func(t *testing.T) {
			t.Parallel()
			interrupt(t, command(dir, servers, "joblimit"))
		})
	})
	nothingLeft(t, servers)
}

func succeed(t *testing.T, dir string) {
	servers := strings.Join(realzk.Servers(t), ",")
	t.Run("all", func(t *testing.T) {
		for _, name := range examples {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				run(t, limit, command(dir, servers, name), 0, "PROVED: ")
			})
		}
	})
	if os.Getenv("ZK_SERVERS") == "" { // others may be running examples there, too
		nothingLeft(t, servers)
	}
}

// demo runs the examples that must succeed, also on the server in memory.
func demo(t *testing.T, dir string) {
	for name, c := range map[string]struct {
		env, servers string
		status       int
		lastLine     string
	}{
		"a server in memory is the default": {"", "", 0, "recursion had one owner, no money was lost, a killed leader was replaced, and a late write was refused."},
		"the environment names servers":     {"127.0.0.1:1", "", 1, "demo: joblimit: exit status 1"},
		"the flag wins":                     {loopback.For(t).Addr(), "127.0.0.1:1", 1, "demo: joblimit: exit status 1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command(filepath.Join(dir, "demo"))
			if c.servers != "" {
				cmd.Args = append(cmd.Args, "-servers", c.servers)
			}
			cmd.Env = append(os.Environ(), "ZK_SERVERS="+c.env)
			run(t, demoLimit, cmd, c.status, c.lastLine)
		})
	}
}

// run asserts how an example ends, and its last line.
func run(t *testing.T, limit time.Duration, cmd *exec.Cmd, status int, lastLine string) {
	t.Helper()
	var out []byte
	test.Within(t, limit, cmd.String(), func() { out, _ = cmd.CombinedOutput() })
	if got := cmd.ProcessState.ExitCode(); got != status {
		t.Errorf("exit status %d, want %d", got, status)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if last := lines[len(lines)-1]; !strings.HasPrefix(last, lastLine) {
		t.Errorf("says last %q, want %q", last, lastLine)
	}
	if t.Failed() {
		t.Logf("%s\n%s", cmd, out)
	}
}

func nothingLeft(t *testing.T, servers string) {
	t.Helper()
	for _, node := range test.Children(t, realzk.Connect(t, 5*time.Second, servers).Client(), "/") {
		if strings.HasPrefix(node, "zklocks-") {
			t.Errorf("an example has left /%s behind", node)
		}
	}
}

// interrupt waits until the example works, and interrupts it.
func interrupt(t *testing.T, cmd *exec.Cmd) {
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	test.Within(t, limit, "an interrupted example", func() {
		lines := bufio.NewReader(out)
		first, err := lines.ReadString('\n')
		if err != nil {
			t.Errorf("nothing printed: %v", err)
		}
		_ = cmd.Process.Signal(os.Interrupt)
		// Its workers have not inherited this pipe; only the example writes to it. The example
		// waits for its workers, so its exit shows that they have ended.
		_, _ = io.Copy(io.Discard, lines)
		_ = cmd.Wait()
		if got := cmd.ProcessState.ExitCode(); got != 130 || errs.String() != "joblimit: interrupted\n" {
			t.Errorf("after %q: exit status %d, want 130, and it says %q", first, got, &errs)
		}
	})
}

func command(dir, servers, example string, args ...string) *exec.Cmd {
	return exec.Command(filepath.Join(dir, example), append([]string{"-servers", servers}, args...)...)
}

// build builds the examples without the race detector, which only the library's tests need.
func build(t *testing.T) (dir string) {
	dir = t.TempDir()
	args := []string{"build", "-o", dir, "./demo"}
	for _, name := range examples {
		args = append(args, "./"+name)
	}
	if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return dir
}
