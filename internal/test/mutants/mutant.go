package main

import (
	"regexp"
	"slices"
	"strings"

	"github.com/zklocks/zklocks/internal/test/patch"
)

// mutant is one bug, put in on purpose, and the test that must notice.
type mutant struct {
	name string
	pkg  string // the directory of the package, from the root of the module
	why  string // it is wrong
	in   string // the function, as "claim" or "Client.claim"; "" where the package has the fragment but once
	old  string // what stands there, exactly once: a fragment of Go, see patch.Patch
	new  string // what the mutant has in its place
	test target

	// unexplored says why the explorer cannot find it: "" if it must.
	unexplored string
	// kind is that of the worlds in which the explorer looks for it: "" if all take turns.
	kind string
}

// target is what kills it: a package, and a -run.
type target struct{ pkg, run string }

// The targets of the packages, by the name of the test alone.
func inRoot(run string) target      { return target{".", run} }
func inZnode(run string) target     { return target{"internal/znode", run} }
func inHold(run string) target      { return target{"internal/hold", run} }
func inQueue(run string) target     { return target{"internal/queue", run} }
func inSession(run string) target   { return target{"internal/zkclient", run} }
func inRwlock(run string) target    { return target{"rwlock", run} }
func inSemaphore(run string) target { return target{"semaphore", run} }
func inReentrant(run string) target { return target{"reentrant", run} }
func inLeader(run string) target    { return target{"leader", run} }
func inOnce(run string) target      { return target{"once", run} }
func inWire(run string) target      { return target{"internal/wire", run} }
func inTakeover(run string) target  { return target{"internal/test/takeover", run} }
func inProxy(run string) target     { return target{"internal/test/proxy", run} }
func inMemnet(run string) target    { return target{"internal/memnet", run} }
func inKit(run string) target       { return target{"zktest", run} }
func inHistory(run string) target   { return target{"internal/test/history", run} }
func inTool(run string) target      { return target{"cmd/zklock", run} }

// scenario is one of the contract, run over a recipe by the test of that name.
func scenario(in func(string) target, recipe, name string) target {
	return in(recipe + "/" + name)
}

// pattern is the -run of exactly this test: its name may have spaces, and parts.
func (t target) pattern() string {
	if t.run == "" {
		return "." // all tests
	}
	parts := strings.Split(t.run, "/")
	for i, part := range parts {
		parts[i] = "^" + regexp.QuoteMeta(strings.ReplaceAll(part, " ", "_")) + "$"
	}
	return strings.Join(parts, "/")
}

func (t target) String() string { return t.pkg + " " + t.run }

// all are the mutants, in the order of the layers.
func all() []mutant {
	return slices.Concat(ofTheLine, ofTheSession, ofTheHold, ofTheShared, ofSeveral, ofTheRecipes, ofTheElection, ofTheJob, ofTheConnection, ofTheFrontDoor, ofTheAsking, ofTheTool, ofTheJudges)
}

// patched returns the file that the mutant changes, from the root of the module, with the bug in
// it.
func (m mutant) patched(root string) (file string, src []byte, err error) {
	return patch.Patch{Pkg: m.pkg, In: m.in, Old: m.old, New: m.new}.Apply(root)
}
