package yields

import (
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/zklocks/zklocks/internal/test/patch"
	"github.com/zklocks/zklocks/internal/test/yields/checks"
)

// The source is what is wanted, without what is inserted.
func TestInsert(t *testing.T) {
	const want = `package p

type chain struct {
	mu lock[lock_chain_mu] // guards n
	n  int
}

func (c *chain) f() {
	yieldPoint(); c.mu.Lock()
	defer c.mu.Unlock()
	yieldPoint(); if c.n.Load() > 0 {
		return
	}
	c.mu.Unlock()
	yieldPoint(); c.x = 1 // a reader may come before
	invariant(6, c.x == 1)
	yieldPoint(); go c.g(func() { yieldPoint(); c.mu.Lock() })
	for range 3 {
		yieldPoint(); select {
		case <-c.done:
			yieldPoint(); c.ch <- 1
		default:
		}
	}
	waitPoint(); select {
	case <-c.done:
	}
	y := 2
	_ = y
}

var _ sync.Locker
`
	src := strings.NewReplacer(
		"yieldPoint(); ", "", "waitPoint(); ", "", "lock[lock_chain_mu]", "sync.Mutex",
		"invariant(6, c.x == 1)", "//invariant 6: c.x == 1", "\nvar _ sync.Locker\n", "",
	).Replace(want)
	got, mutexes, err := Insert("p.go", []byte(src))
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("got\n%s", got)
	}
	if !slices.Equal(mutexes, []string{"chain_mu"}) {
		t.Errorf("mutexes %q", mutexes)
	}
}

// The copy of each package compiles, has calls, and contains a changed file instead of the tree's.
func TestWrite(t *testing.T) {
	root, err := patch.Root()
	if err != nil {
		t.Fatal(err)
	}
	src, err := os.ReadFile(filepath.Join(root, "internal/hold/hold.go"))
	if err != nil {
		t.Fatal(err)
	}
	changed := map[string][]byte{"internal/hold/hold.go": append(src, "\nconst changed = true\n"...)}
	all, mutexes, err := copies(root, changed)
	if err != nil {
		t.Fatal(err)
	}
	yield := map[string]bool{} // by package
	for name, text := range all {
		yield[path.Dir(name)] = yield[path.Dir(name)] || strings.Contains(string(text), call)
	}
	overlay, err := Write(root, t.TempDir(), changed)
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"build", "-overlay", overlay}
	for _, pkg := range Packages {
		if !yield[pkg] {
			t.Errorf("%s: no goroutine yields in it", pkg)
		}
		args = append(args, "./"+pkg)
	}
	if !strings.Contains(string(all["internal/hold/hold.go"]), "const changed") {
		t.Error("the changed file is not in it")
	}
	cmd := exec.Command("go", args...)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}

	// Every mutex has a tier.
	listed := slices.Concat(checks.Tiers...)
	slices.Sort(mutexes)
	slices.Sort(listed)
	if !slices.Equal(mutexes, listed) {
		t.Errorf("the library has\n%q, package checks lists\n%q", mutexes, listed)
	}
}
