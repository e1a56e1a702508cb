// Package ablation shows that the shortcuts of internal/queue save requests and nothing else: with
// all of them patched away the contract and the explorer pass, but for the scenarios that count
// requests.
//
//	make ablation
package ablation

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/zklocks/zklocks/internal/test/patch"
)

func TestWithoutShortcuts(t *testing.T) {
	if os.Getenv("ABLATION") == "" {
		t.Skip("takes a minute: make ablation runs it")
	}
	root, err := patch.Root()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range patch.Shortcuts { // make ablation measures each of them alone
		overlay, err := patch.Variant(root, t.TempDir(), s.Patches...)
		if err != nil {
			t.Fatal(err)
		}
		build := exec.Command("go", "build", "-overlay", overlay, "./...")
		build.Dir = root
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("without %s: %v\n%s", s.Name, err, out)
		}
	}
	var patches []patch.Patch
	for _, s := range patch.Shortcuts {
		for _, p := range s.Patches {
			if p.Pkg == "internal/queue" {
				patches = append(patches, p)
			}
		}
	}
	overlay, err := patch.Variant(root, t.TempDir(), patches...)
	if err != nil {
		t.Fatal(err)
	}
	const (
		contracts = "^(TestWriteLock|TestReadLock|TestMutex|TestOnePermit|TestTwoOfThreePermits|TestElection|TestAll)$"
		costs     = ".*/takes_as_few_requests_as_promised"
		// These know by the number of requests when a waiter has set its watches.
		waits = ".*/a_release_wakes_only_the_next_in_line"
	)
	run := func(args ...string) (string, error) {
		cmd := exec.Command("go", append([]string{"test", "-overlay", overlay, "-count=1", "-timeout", "5m"}, args...)...)
		cmd.Dir = root
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	for _, pkg := range []string{".", "./rwlock", "./reentrant", "./semaphore", "./leader"} {
		if out, err := run("-run", contracts, "-skip", costs+"|"+waits, pkg); err != nil {
			t.Errorf("the contract of %s, without shortcuts: %v\n%s", pkg, err, out)
		}
		// Or nothing was switched off.
		if out, err := run("-run", contracts+strings.TrimPrefix(costs, ".*"), pkg); err == nil {
			t.Errorf("%s takes as few requests without shortcuts\n%s", pkg, out)
		}
	}
	if out, err := run("-run", "^TestExplore$", "./internal/test/explore"); err != nil {
		t.Errorf("the explorer, without shortcuts: %v\n%s", err, out)
	}
}
