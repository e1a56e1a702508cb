package hammer

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// bug is a bug of the library: a file, and the text to replace in it.
type bug struct{ name, file, old, new string }

var bugs = []bug{
	{
		"a lost create is not searched for", "internal/zkclient/claim.go",
		`	retry := c.retry()
	for {
		before := c.server()
`, `	return nil, nil
	retry := c.retry()
	for {
		before := c.server()
`,
	},
	{
		"granted without a look at the line", "internal/queue/enter.go",
		`int(dir.NumChildren)-len(m.nodes) <= terms.Rule.Tolerate &&`,
		`dir.NumChildren > 0 &&`,
	},
	{
		"unlocked by the name of the lock: whose node is first must be ours", "internal/zkclient/remove.go",
		`err = c.conn.Delete(dir+"/"+nodes[0].Name, -1)`,
		`names, _, _ := c.conn.Children(dir)
			names = slices.DeleteFunc(names, func(name string) bool { return len(name) < 10 })
			slices.SortFunc(names, func(a, b string) int { return strings.Compare(a[len(a)-10:], b[len(b)-10:]) })
			err = c.conn.Delete(dir+"/"+append(names, nodes[0].Name)[0], -1)`,
	},
}

const caughtWithin = time.Minute

// This shows that the stress finds bugs: it runs over a library that is broken. It builds the
// library three times and runs each for up to a minute, so it is skipped unless make stress-broken
// asks for it.
func TestTheStressFindsBugs(t *testing.T) {
	if os.Getenv("STRESS_BROKEN") == "" {
		t.Skip("takes minutes: STRESS_BROKEN=1")
	}
	root, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range bugs {
		t.Run(b.name, func(t *testing.T) {
			program := b.build(t, strings.TrimSpace(string(root)))
			took, what := b.caught(t, program)
			t.Logf("caught after %v: %s", took.Round(100*time.Millisecond), what)
		})
	}
}

// build compiles this test program with the bug in it. The files in the tree are not changed: the
// compiler reads a copy in place of one.
func (b bug) build(t *testing.T, root string) (program string) {
	t.Helper()
	original := filepath.Join(root, filepath.FromSlash(b.file))
	text, err := os.ReadFile(original)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(text), b.old); n != 1 {
		t.Fatalf("what it replaces stands %d times in %s: the bug has to follow the code", n, b.file)
	}
	broken := strings.Replace(string(text), b.old, b.new, 1)
	if strings.Contains(b.new, "strings.") && !strings.Contains(broken, "\"strings\"") {
		broken = strings.Replace(broken, "import (\n", "import (\n\t\"strings\"\n", 1)
	}
	dir := t.TempDir()
	copied, overlay := filepath.Join(dir, "broken.go"), filepath.Join(dir, "overlay.json")
	program = filepath.Join(dir, "stress.test")
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {original: copied}})
	if err != nil {
		t.Fatal(err)
	}
	for file, text := range map[string][]byte{copied: []byte(broken), overlay: replace} {
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.Command("go", "test", "-c", "-o", program, "-overlay", overlay, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return program
}

// finding matches the stress's report of two holders at once, of a holder that does not know of its
// loss, and of a node that no process deletes.
var finding = regexp.MustCompile(`seed \d+: (orphan: |\S+: (overlap|too many|token order): |\S+: token \d+ was given|\S+: \S+ with token \d+ was still sure).*`)

// caught runs the stress until it finds something, which it must.
func (b bug) caught(t *testing.T, program string) (after time.Duration, what string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*caughtWithin)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, "-test.v", "-test.run=^TestStress$")
	cmd.Env = append(os.Environ(), "STRESS="+caughtWithin.String(), "STRESS_SERVERS=1", "STRESS_PROCESSES=3", "STRESS_GOROUTINES=32",
		"STRESS_LOCKS=32", "STRESS_FAULTS=40", "STRESS_ROUND=5s", "STRESS_PATIENCE=10s", "STRESS_FIRST=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var all []string
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		all = append(all, lines.Text())
		if found := finding.FindString(lines.Text()); found != "" && what == "" {
			after, what = time.Since(began), found
		}
	}
	failed := cmd.Wait() != nil
	if what == "" || !failed || after > caughtWithin {
		t.Fatalf("not caught within %v (after %v: %q; failed: %v)\n%s", caughtWithin, after, what, failed, strings.Join(all, "\n"))
	}
	return after, what
}
