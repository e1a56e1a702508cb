package bench

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/patch"
	"github.com/zklocks/zklocks/internal/test/realzk"
)

// TestBench is the measurement of make bench.
func TestBench(t *testing.T) {
	s := fromFlags(t)
	switch {
	case s.rounds == 0:
		t.Log("no -rounds: TestHarness runs the harness on a small scale")
		return
	case *againstFlag != "" || *shortcutsFlag:
		compareVariants(t, s)
		return
	}
	l := newLaboratory(t, s, append([]string{kept, keptAgain}, everyone...)...)
	for _, part := range []struct {
		title     string
		workloads []workload
		patient   bool
	}{{"speed", workloads, false}, {"idle locks", idles, false}, {"waiters", queues, true}, {"permits", crowds, true}} {
		if part.patient {
			l.settings = s.patient()
		}
		if results := l.measure(t, s.chosen(part.workloads)); len(results) > 0 {
			fmt.Printf("%s\n\n%s\n", part.title, table(results))
		}
	}
	l.leave(t)
}

// compareVariants measures our locks and variants of them: with -against the library at a commit,
// with -shortcuts the library without each of its shortcuts.
func compareVariants(t *testing.T, s settings) {
	root, err := patch.Root()
	if err != nil {
		t.Fatal(err)
	}
	programs := map[string]string{} // by the name of the variant
	if ref := *againstFlag; ref != "" {
		dir := t.TempDir()
		command(t, root, "git", "archive", "-o", dir+"/all.tar", ref)
		command(t, dir, "tar", "-xf", "all.tar")
		programs["at "+ref] = build(t, dir)
	}
	if *shortcutsFlag {
		for _, shortcut := range patch.Shortcuts {
			changed, err := patch.All(root, shortcut.Patches...)
			if err != nil {
				t.Fatalf("%s: %v", shortcut.Name, err)
			}
			overlay, err := patch.Overlay(root, t.TempDir(), changed)
			if err != nil {
				t.Fatal(err)
			}
			programs["without "+shortcut.Name] = build(t, root, "-overlay", overlay)
		}
	}
	l := newLaboratory(t, s, ours, again)
	variants := map[string][]string{ours: {ours}, again: {again}}
	for name, program := range programs {
		for library := range variants {
			order, err := json.Marshal(library)
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(program)
			cmd.Env = append(os.Environ(), childEnv+"="+string(order))
			l.peers[library+" "+name] = startPeer(library+" "+name, realzk.StartProgram(t, cmd))
			variants[library] = append(variants[library], library+" "+name)
		}
	}
	var all []workload
	for _, w := range s.chosen(workloads) {
		for _, library := range []string{ours, again} {
			if slices.Contains(w.peers, library) {
				all = append(all, workload{w.name + strings.TrimPrefix(library, ours), w.job, variants[library]})
			}
		}
	}
	results := l.measure(t, all)
	l.leave(t)
	fmt.Print(table(results))
}

// build builds the driver of a copy of the module.
func build(t *testing.T, dir string, args ...string) (program string) {
	t.Helper()
	program = filepath.Join(t.TempDir(), "driver")
	command(t, dir, "go", slices.Concat([]string{"test", "-c", "-o", program}, args, []string{"./internal/test/bench"})...)
	return program
}

func command(t *testing.T, dir, name string, args ...string) {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", name, args, err, out)
	}
}

// TestHarness runs a measurement on a small scale, so that the harness works when it is needed. It
// checks figures that do not depend on time: the requests of a cycle without contention.
func TestHarness(t *testing.T) {
	l := newLaboratory(t, settings{rounds: 1, length: 300 * time.Millisecond}, ours, again, zkLock)
	var results []result
	test.Eventually(t, 30*time.Second, "operations of each worker", func() bool { // on a busy machine no cycle may end in time
		results = l.measure(t, workloads[:1])
		return !slices.ContainsFunc(results, func(r result) bool { return r.median[speed] == 0 })
	})
	l.leave(t)
	want := map[string]float64{ours: 2, again: 2, zkLock: 3}
	if len(results) != len(want) {
		t.Fatalf("%d results, want %d", len(results), len(want))
	}
	for _, r := range results {
		if r.median[p50] <= 0 || r.median[p99] < r.median[p50] {
			t.Errorf("%s: %v", r.peer, r.median)
		}
		if got := rounded(r.median[requests], 0.1); got != want[r.peer] {
			t.Errorf("%s: %v requests a cycle, want %v", r.peer, r.median[requests], want[r.peer])
		}
	}
}
