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

// leftOut is the message of package realzk for a test that is skipped because no ZooKeeper is
// installed.
const leftOut = "needs a real ZooKeeper: make test installs one"

// event is a line of go test -json. See go doc test2json.
type event struct {
	Action      string
	Package     string
	Test        string
	Output      string
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
	tests  map[string]*testcase
	output strings.Builder // all of it, in order
	own    strings.Builder // what belongs to no test
	state  string          // pass, fail, skip (no tests); empty: no end was seen
}

// report is the result of one run of go test -json.
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
		p = &pack{tests: map[string]*testcase{}}
		r.packs[e.Package] = p
	}
	p.output.WriteString(e.Output)
	if e.Test == "" {
		switch e.Action {
		case "output":
			p.own.WriteString(e.Output)
		case "pass", "fail", "skip":
			p.state = e.Action
			if b := r.builds[e.FailedBuild]; b != nil {
				p.output.WriteString(b.String())
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
