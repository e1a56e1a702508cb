package yields

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestInsert(t *testing.T) {
	const src = `package p

func (c *chain) f() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n.Load() > 0 {
		return
	}
	c.mu.Unlock()
	c.x = 1 // a reader may come before
	go c.g(func() { c.mu.Lock() })
	for range 3 {
		select {
		case <-c.done:
			c.ch <- 1
		default:
		}
	}
	y := 2
	_ = y
}
`
	const want = `package p

func (c *chain) f() {
	yieldPoint(); c.mu.Lock()
	defer c.mu.Unlock()
	yieldPoint(); if c.n.Load() > 0 {
		return
	}
	c.mu.Unlock()
	yieldPoint(); c.x = 1 // a reader may come before
	yieldPoint(); go c.g(func() { yieldPoint(); c.mu.Lock() })
	for range 3 {
		yieldPoint(); select {
		case <-c.done:
			yieldPoint(); c.ch <- 1
		default:
		}
	}
	y := 2
	_ = y
}
`
	got, err := Insert("p.go", []byte(src))
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("got\n%s", got)
	}
}

// The copy of each package compiles, has calls, and has a changed file in place of the tree's.
func TestWrite(t *testing.T) {
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	src, err := os.ReadFile(filepath.Join(root, "internal/hold/state.go"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	overlay, err := Write(root, dir, map[string][]byte{
		"internal/hold/state.go": append(src, "\nconst changed = true\n"...),
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
	if text, _ := os.ReadFile(filepath.Join(dir, "internal-hold-state.go")); !strings.Contains(string(text), "const changed") {
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
