package yields

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/zklocks/zklocks/internal/test/yields/checks"
)

func TestInsert(t *testing.T) {
	const src = `package p

type chain struct {
	mu sync.Mutex // guards n
	n  int
}

func (c *chain) f() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n.Load() > 0 {
		return
	}
	c.mu.Unlock()
	c.x = 1 // a reader may come before
	//invariant 6: c.x == 1
	go c.g(func() { c.mu.Lock() })
	for range 3 {
		select {
		case <-c.done:
			c.ch <- 1
		default:
		}
	}
	select {
	case <-c.done:
	}
	y := 2
	_ = y
}
`
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
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	src, err := os.ReadFile(filepath.Join(root, "internal/hold/hold.go"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	overlay, err := Write(root, dir, map[string][]byte{
		"internal/hold/hold.go": append(src, "\nconst changed = true\n"...),
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, pkg := range Packages {
		found := false
		names, _ := filepath.Glob(filepath.Join(dir, strings.ReplaceAll(pkg, "/", "-")+"-*.go"))
		for _, name := range names {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			found = found || strings.Contains(string(text), call)
		}
		if !found {
			t.Errorf("%s: no goroutine yields in it", pkg)
		}
	}
	if text, _ := os.ReadFile(filepath.Join(dir, "internal-hold-hold.go")); !strings.Contains(string(text), "const changed") {
		t.Error("the changed file is not in it")
	}
	args := []string{"build", "-overlay", overlay}
	for _, pkg := range Packages {
		args = append(args, "./"+pkg)
	}
	cmd := exec.Command("go", args...)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

func TestEveryMutexHasATier(t *testing.T) {
	var found []string
	for _, pkg := range Packages {
		names, _ := filepath.Glob("../../../" + pkg + "/*.go")
		for _, name := range names {
			src, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			_, mutexes, err := Insert(name, src)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range mutexes {
				if !strings.HasSuffix(name, "_test.go") {
					found = append(found, filepath.Base(pkg)+"."+strings.ReplaceAll(m, "_", "."))
				}
			}
		}
	}
	listed := slices.Concat(checks.Tiers...)
	slices.Sort(found)
	slices.Sort(listed)
	if !slices.Equal(found, listed) {
		t.Errorf("the library has\n%q, package checks lists\n%q", found, listed)
	}
}
