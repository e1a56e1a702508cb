package bench

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"text/tabwriter"

	"github.com/zklocks/zklocks/internal/test/patch"
	"github.com/zklocks/zklocks/internal/test/realzk"
)

// TestVariants measures variants: BENCH_AGAINST=ref is the library at a commit, BENCH_ABLATION=1
// the library without each of its shortcuts.
func TestVariants(t *testing.T) {
	s, asked := fromEnv(t)
	ref, shortcuts := variants()
	if !asked || ref == "" && !shortcuts {
		t.Log("neither BENCH_AGAINST nor BENCH_ABLATION is set: no variant is measured")
		return
	}
	root := moduleRoot(t)
	programs := map[string]string{}
	knows := func(string) bool { return true } // reports whether the program has this kind of lock
	if ref != "" {
		programs["at "+ref], knows = atCommit(t, root, ref)
	}
	if shortcuts {
		for _, s := range patch.Shortcuts {
			programs["without "+s.Name] = without(t, root, s)
		}
	}
	l := newLaboratory(t, s, ours, again)
	var names []string
	for name, program := range programs {
		for _, library := range []string{ours, again} {
			p := l.start(t, program, library, name)
			names = append(names, p.name)
		}
	}
	var all []workload
	for _, w := range s.chosen(workloads) {
		if !knows(w.job.Mode) {
			continue
		}
		for _, library := range []string{ours, again} {
			v := workload{name: w.name, job: w.job, peers: []string{library}}
			if library == again {
				v.name += ", reentrant"
			}
			for _, name := range names {
				if l.peers[name].library == library && slices.Contains(w.peers, library) {
					v.peers = append(v.peers, name)
				}
			}
			if len(v.peers) > 1 {
				all = append(all, v)
			}
		}
	}
	l.warmUp(t, all)
	results := l.measure(t, all)
	l.leave()
	printVariants(os.Stdout, results)
}

// start starts another build of this package as a peer.
func (l *laboratory) start(t *testing.T, program, library, name string) *peer {
	t.Helper()
	order, err := json.Marshal(library)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), childEnv+"="+string(order))
	p := &peer{name: library + " " + name, library: library, driver: realzk.StartProgram(t, cmd)}
	p.version = p.driver.Hears("hello")
	l.peers[p.name] = p
	return p
}

func moduleRoot(t *testing.T) string {
	t.Helper()
	root, err := patch.Root()
	if err != nil {
		t.Fatal(err)
	}
	return root
}

// without builds the driver with the library without a shortcut.
func without(t *testing.T, root string, shortcut patch.Shortcut) string {
	t.Helper()
	overlay, err := patch.Variant(root, t.TempDir(), shortcut.Patches...)
	if err != nil {
		t.Fatalf("%s: %v", shortcut.Name, err)
	}
	return driverOf(t, root, "./internal/test/bench", "-overlay", overlay)
}

// atCommit builds the driver at a commit. knows reports whether that driver has a kind of lock. Ask
// it first: an old driver measures another kind in place of a kind that it does not know.
func atCommit(t *testing.T, root, ref string) (program string, knows func(mode string) bool) {
	t.Helper()
	dir := t.TempDir()
	archive := exec.Command("git", "archive", ref)
	archive.Dir = root
	text, err := archive.Output()
	if err != nil {
		t.Fatalf("git archive %s: %v", ref, err)
	}
	extract := exec.Command("tar", "-x", "-C", dir)
	extract.Stdin = bytes.NewReader(text)
	if out, err := extract.CombinedOutput(); err != nil {
		t.Fatalf("tar: %v\n%s", err, out)
	}
	pkg := "./internal/test/bench"
	if _, err := os.Stat(filepath.Join(dir, pkg)); err != nil {
		pkg = "./internal/bench" // its old place
	}
	sources, err := filepath.Glob(filepath.Join(dir, pkg, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var all []byte
	for _, source := range sources {
		text, err := os.ReadFile(source)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, text...)
	}
	return driverOf(t, dir, pkg), func(mode string) bool { return bytes.Contains(all, []byte(strconv.Quote(mode))) }
}

func driverOf(t *testing.T, dir, pkg string, args ...string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "driver")
	cmd := exec.Command("go", append(append([]string{"test", "-c", "-o", program}, args...), pkg)...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go test -c: %v\n%s", err, out)
	}
	return program
}

// printVariants prints the ratio of the library's speed to each variant's: above 1 the library is
// faster.
func printVariants(w io.Writer, results []result) {
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "workload\tvariant\tours / variant\tour requests per cycle\tits requests")
	for _, r := range results {
		own, there := find(results, r.workload.name, r.workload.peers[0])
		if !there || r.peer == own.peer {
			continue
		}
		ratio := "–"
		if f := own.against(r); !math.IsNaN(f) {
			ratio = fmt.Sprintf("%.2f", f)
		}
		fmt.Fprintf(out, "%s\t%s\t%s\t%s\t%s\n", r.workload.name, r.peer, ratio, perCycle(own.requests), perCycle(r.requests))
	}
	out.Flush()
}

// variants returns what TestVariants measures: the library at a commit, and without its shortcuts.
func variants() (ref string, shortcuts bool) {
	return os.Getenv("BENCH_AGAINST"), os.Getenv("BENCH_ABLATION") != ""
}
