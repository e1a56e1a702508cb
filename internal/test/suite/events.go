package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
)

const module = "github.com/zklocks/zklocks/"

// leftOut is the message of package realzk for a test that is skipped because no ZooKeeper is
// installed.
const leftOut = "needs a real ZooKeeper: make test installs one"

// event is a line of go test -json. See go doc test2json.
type event struct {
	Action      string
	Package     string
	Test        string
	Output      string
	Elapsed     float64
	ImportPath  string // of what a build-output event is about
	FailedBuild string
}

// testcase is a test or a part of one.
type testcase struct {
	state  string // the last action: run, pause, cont, pass, fail, skip
	output strings.Builder
}

// pack is the result of a package's tests.
type pack struct {
	name    string // relative to the module, or "."
	tests   map[string]*testcase
	output  strings.Builder // all of it, in order
	own     strings.Builder // what belongs to no test
	state   string          // pass, fail, skip (no tests); empty: no end was seen
	unbuilt bool
	seconds float64
}

// report is the result of one run of go test -json, or of several whose output was joined.
type report struct {
	packs  map[string]*pack
	builds map[string]*strings.Builder // what the compiler said, by import path
	other  strings.Builder             // lines that are no events
}

// read reads the output of go test -json to its end. ended is called with each package that ends.
func read(r io.Reader, ended func(*report, *pack)) (*report, error) {
	rep := &report{packs: map[string]*pack{}, builds: map[string]*strings.Builder{}}
	in := bufio.NewReader(r) // a Scanner would end at a line that is too long
	for {
		line, err := in.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			if json.Unmarshal(line, &e) != nil || e.Action == "" {
				rep.other.Write(line)
			} else if p := rep.add(e); p != nil && ended != nil {
				ended(rep, p)
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return rep, nil
		case err != nil:
			return rep, err
		}
	}
}

// add returns the package that ends with this event.
func (r *report) add(e event) *pack {
	if e.Action == "build-output" {
		b := r.builds[e.ImportPath]
		if b == nil {
			b = &strings.Builder{}
			r.builds[e.ImportPath] = b
		}
		b.WriteString(e.Output)
		return nil
	}
	if e.Package == "" {
		return nil
	}
	p := r.packs[e.Package]
	if p == nil {
		p = &pack{name: strings.TrimPrefix(e.Package, module), tests: map[string]*testcase{}}
		if p.name+"/" == module {
			p.name = "."
		}
		r.packs[e.Package] = p
	}
	p.output.WriteString(e.Output)
	if e.Test == "" {
		switch e.Action {
		case "output":
			p.own.WriteString(e.Output)
		case "pass", "fail", "skip":
			// A package may be tested in two goes, each with some of its tests.
			if p.state != "fail" {
				p.state = e.Action
			}
			if e.Action == "pass" {
				p.passed()
			}
			p.seconds += e.Elapsed
			if e.FailedBuild != "" {
				p.unbuilt = true
				if b := r.builds[e.FailedBuild]; b != nil {
					p.output.WriteString(b.String())
				}
			}
			return p
		}
		return nil
	}
	t := p.tests[e.Test]
	if t == nil {
		t = &testcase{}
		p.tests[e.Test] = t
	}
	if e.Action == "output" {
		t.output.WriteString(e.Output)
	} else {
		t.state = e.Action
	}
	return nil
}

// passed ends the benchmarks of a package that has passed: go test reports no end of one.
func (p *pack) passed() {
	for name, t := range p.tests {
		if t.state == "run" && strings.HasPrefix(name, "Benchmark") {
			t.state = "pass"
		}
	}
}

// sorted are the packages by name.
func (r *report) sorted() []*pack {
	return slices.SortedFunc(maps.Values(r.packs), func(a, b *pack) int { return strings.Compare(a.name, b.name) })
}

// failures name what has failed in a package: the smallest parts of tests; where no test has, what
// else went wrong.
func (p *pack) failures() []string {
	if p.state == "pass" || p.state == "skip" {
		return nil
	}
	failed := p.deepest(func(t *testcase) bool { return t.state == "fail" })
	// A program that panics or runs out of time ends the tests that run, and go test reports
	// nothing of them.
	for _, name := range p.deepest(func(t *testcase) bool { return t.state == "run" || t.state == "cont" }) {
		failed = append(failed, name+" (did not end)")
	}
	switch {
	case len(failed) > 0:
	case p.unbuilt:
		failed = []string{"(does not build)"}
	case p.state == "":
		failed = []string{"(did not end)"}
	default:
		failed = []string{"(outside of its tests)"}
	}
	return failed
}

// deepest are the tests that are so and have no part that is.
func (p *pack) deepest(so func(*testcase) bool) []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(p.tests)) {
		if !so(p.tests[name]) {
			continue
		}
		// A test comes before its parts, but what sorts in between may have nothing to do with it.
		names = slices.DeleteFunc(names, func(whole string) bool { return strings.HasPrefix(name, whole+"/") })
		names = append(names, name)
	}
	return names
}

// skipped counts the tests that were left out because no ZooKeeper is installed, and all others
// that were skipped.
func (p *pack) skipped() (left, others int) {
	for _, t := range p.tests {
		switch {
		case t.state != "skip":
		case strings.Contains(t.output.String(), leftOut):
			left++
		default:
			others++
		}
	}
	return left, others
}
