package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// mutant is one bug, put in on purpose, and the test that must notice.
type mutant struct {
	name string
	file string // from the root of the module
	why  string // it is wrong
	old  string // what stands in the file, exactly once
	new  string // what the mutant has in its place
	test target

	// unexplored says why the explorer cannot find it: "" if it must.
	unexplored string
}

// target is what kills it: a package, and a -run.
type target struct{ pkg, run string }

// The targets of the packages, by the name of the test alone.
func inRoot(run string) target      { return target{".", run} }
func inZnode(run string) target     { return target{"internal/znode", run} }
func inHold(run string) target      { return target{"internal/hold", run} }
func inLink(run string) target      { return target{"internal/link", run} }
func inQueue(run string) target     { return target{"internal/queue", run} }
func inSession(run string) target   { return target{"internal/session", run} }
func inRwlock(run string) target    { return target{"rwlock", run} }
func inSemaphore(run string) target { return target{"semaphore", run} }
func inReentrant(run string) target { return target{"reentrant", run} }
func inWire(run string) target      { return target{"internal/wire", run} }
func inTakeover(run string) target  { return target{"internal/takeover", run} }
func inProxy(run string) target     { return target{"internal/proxy", run} }
func inMemnet(run string) target    { return target{"internal/memnet", run} }
func inKit(run string) target       { return target{"zktest", run} }
func inHistory(run string) target   { return target{"internal/test/history", run} }

// scenario is one of the contract, run over a recipe by the test of that name.
func scenario(in func(string) target, recipe, name string) target {
	return in(recipe + "/" + name)
}

// pattern is the -run of exactly this test: its name may have spaces, and parts.
func (t target) pattern() string {
	parts := strings.Split(t.run, "/")
	for i, part := range parts {
		parts[i] = "^" + regexp.QuoteMeta(strings.ReplaceAll(part, " ", "_")) + "$"
	}
	return strings.Join(parts, "/")
}

func (t target) String() string { return t.pkg + " " + t.run }

// all are the mutants, in the order of the layers.
func all() []mutant {
	return slices.Concat(ofTheLine, ofTheSession, ofTheHold, ofTheShared, ofTheRecipes, ofTheConnection, ofTheFrontDoor, ofTheJudges)
}

// patched returns the file with the bug in it.
func (m mutant) patched(root string) ([]byte, error) {
	src, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(m.file)))
	if err != nil {
		return nil, err
	}
	text := strings.ReplaceAll(string(src), "\r\n", "\n")
	if n := strings.Count(text, m.old); n != 1 {
		return nil, fmt.Errorf("its text stands %d times in %s, want once: the mutant has to follow the code", n, m.file)
	}
	return []byte(strings.Replace(text, m.old, m.new, 1)), nil
}
