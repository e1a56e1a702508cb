package hammer

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/zklocks/zklocks/internal/test/patch"
)

// bug is a bug of the library.
type bug struct {
	name string
	patch.Patch
}

var bugs = []bug{
	{"a lost create is not searched for", patch.Patch{
		Pkg: "internal/zkclient", In: "Client.Claim",
		Old: "found, complete, err := try.search(ctx)",
		New: "found, complete, err := make([]Claimed, len(claims)), false, error(nil)",
	}},
	{"granted without a look at the line", patch.Patch{
		Pkg: "internal/queue", In: "waiter.roomInReply",
		Old: "return int(dir.NumChildren)-len(w.nodes) <= w.limit.AllowedAhead",
		New: "return dir.NumChildren > 0",
	}},
	{"unlocked by the name of the lock: whose node is first must be ours", patch.Patch{
		Pkg: "internal/zkclient", In: "Client.RemoveNow",
		Old: `paths = append(paths, r.Dir+"/"+n.Name)`,
		New: `queued, _, _ := c.conn.Children(r.Dir)
			first := n.Name
			for _, name := range queued {
				if end := func(name string) string { return name[max(0, len(name)-10):] }; end(name) < end(first) {
					first = name
				}
			}
			paths = append(paths, r.Dir+"/"+first)`,
	}},
	{"several locks are granted at the turn of one", patch.Patch{
		Pkg: "internal/queue", In: "waiters.waitTurn",
		Old: "for i, w := range behind {\n\t\t\tif next",
		New: "for i, w := range behind[:1] {\n\t\t\tif next",
	}},
}

// The patches follow the code.
func TestEveryBugFits(t *testing.T) {
	for _, b := range bugs {
		if _, _, err := b.Apply(root(t)); err != nil {
			t.Errorf("%s: %v", b.name, err)
		}
	}
}

func root(t *testing.T) string {
	t.Helper()
	dir, err := patch.Root()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

const caughtWithin = time.Minute

// This shows that the stress finds bugs: it runs over a library that is broken. It builds the
// library with each bug and runs it for up to a minute, so it is skipped unless `suite broken`
// asks for it.
func TestTheStressFindsBugs(t *testing.T) {
	if os.Getenv("STRESS_BROKEN") == "" {
		t.Skip("takes minutes: STRESS_BROKEN=1")
	}
	for _, b := range bugs {
		t.Run(b.name, func(t *testing.T) {
			program := b.build(t)
			took, what := b.caught(t, program)
			t.Logf("caught after %v: %s", took.Round(100*time.Millisecond), what)
		})
	}
}

// build compiles this test program with the bug in it. The files in the tree are not changed: the
// compiler reads a copy in place of one.
func (b bug) build(t *testing.T) (program string) {
	t.Helper()
	dir := t.TempDir()
	program = filepath.Join(dir, "stress.test")
	overlay, err := patch.Variant(root(t), dir, b.Patch)
	if err != nil {
		t.Fatal(err)
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
