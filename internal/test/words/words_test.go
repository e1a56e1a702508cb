package main

import (
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

func TestCount(t *testing.T) {
	wide := "// " + strings.Repeat("x", 98) + "\n"
	full := "\t// " + strings.Repeat("ü", 93) + "\n" // 100 columns
	tree := fstest.MapFS{
		"a.go": {Data: []byte("//go:build !" + strings.Repeat("x", 100) + "\n\n" +
			"// Package a: nobody reads, No One\n// writes, for\n// ever; TestNobody is a name.\npackage a\n\n" + wide +
			"var x = \"whoever\" // anew\n")},
		"a_test.go":              {Data: []byte("// those who\n/* those\nwho */\npackage a\n\nfunc f() {\n" + full + full[:len(full)-1] + "ü\n}\n")},
		"internal/queue/q.go":    {Data: []byte("package queue // somebody's\n\nvar Y = 1 " + wide)},
		"internal/memzk/m.go":    {Data: []byte("package memzk // someone, everyone\n")},
		"a/testdata/a.go":        {Data: []byte("package a // nobody\n")},
		".hidden/a.go":           {Data: []byte("package a // nobody\n")},
		"README.md":              {Data: []byte("# Nobody\n\nreads for ever.\n")},
		"docs/guide.md":          {Data: []byte("anyone\n")},
		"examples/README.md":     {Data: []byte("anybody\n")},
		"docs/drafts/unread.md":  {Data: []byte("anybody\n")},
		"docs/benchmarks.txt":    {Data: []byte("anybody\n")},
		"internal/goid/empty.go": {Data: []byte("package goid\n")},
	}
	var got tally
	if err := got.read(tree); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		got  group
		want []string
	}{
		{"library", got.library, []string{"a.go:3: nobody", "a.go:3: no one", "a.go:4: for ever", "a.go:9: anew", "internal/queue/q.go:1: somebody"}},
		{"rest", got.rest, []string{"a_test.go:1: those who", "a_test.go:2: those who", "internal/memzk/m.go:1: someone", "internal/memzk/m.go:1: everyone"}},
		{"documents", got.documents, []string{"README.md:1: nobody", "README.md:3: for ever", "docs/guide.md:1: anyone"}},
		{"wide", got.wide, []string{"a.go:8: 101 columns", "a_test.go:8: 101 columns"}},
	} {
		if !slices.Equal(c.got.places, c.want) {
			t.Errorf("%s: got %q, want %q", c.name, c.got.places, c.want)
		}
	}
}

// A test that lets real time pass says why. Limits of waits need no reason, nor does virtual time.
func TestSleeps(t *testing.T) {
	tree := fstest.MapFS{
		"a.go": {Data: []byte("package a\n\nfunc f() { time.Sleep(1) }\n")},
		"a_test.go": {Data: []byte(`package a

func TestA(t *testing.T) {
	time.Sleep(1)
	time.Sleep(1) // real: a reason
	// real: a reason
	time.Sleep(1)

	time.Sleep(1)
	<-time.After(1)
	select {
	case <-time.After(1):
	case <-time.After(2):
		t.Fatal("late")
	}
	pause := time.NewTimer(1)
	<-pause.C
	late := time.NewTimer(1)
	defer late.Stop()
}
`)},
		"b_test.go": {Data: []byte(`package a

func bubble(t *testing.T, f func(t *testing.T)) { synctest.Test(t, f) }

func outer(t *testing.T, f func(t *testing.T)) { bubble(t, f) }

func TestB(t *testing.T) {
	outer(t, func(t *testing.T) { time.Sleep(1) })
	venue.InMemory(t, func(t *testing.T, v venue.Venue) { time.Sleep(1) })
	venue.Both(t, func(t *testing.T, v venue.Venue) { time.Sleep(1) })
}
`)},
		"b/b_test.go": {Data: []byte("package b\n\nfunc TestB(t *testing.T) { bubble(t, func(t *testing.T) { time.Sleep(1) }) }\n")},
	}
	var got tally
	if err := got.read(tree); err != nil {
		t.Fatal(err)
	}
	var places []string
	for _, place := range got.sleeps.places {
		places = append(places, strings.TrimSuffix(place, " does not say why real time passes"))
	}
	want := []string{
		"a_test.go:4: time.Sleep", "a_test.go:9: time.Sleep", "a_test.go:10: time.After", "a_test.go:12: time.After",
		"a_test.go:16: time.NewTimer", "b_test.go:10: time.Sleep", "b/b_test.go:3: time.Sleep",
	}
	if !slices.Equal(places, want) {
		t.Errorf("got %q, want %q", places, want)
	}
	if got.report(io.Discard) {
		t.Error("let through")
	}
}

func TestReport(t *testing.T) {
	count := tally{library: group{name: "library", limit: 1, places: []string{"a.go:1: anew"}}, wide: group{name: "wide"}}
	var out strings.Builder
	if !count.report(&out) {
		t.Errorf("as many as the limit: refused\n%s", &out)
	}
	count.wide.places = []string{"b.go:2: 101 columns"}
	out.Reset()
	if count.report(&out) {
		t.Error("more than the limit: let through")
	}
	for _, line := range []string{"a.go:1: anew\n", "b.go:2: 101 columns\n", "library      1 of    1  ok\n", "wide         1 of    0  too many\n"} {
		if !strings.Contains(out.String(), line) {
			t.Errorf("no line %q in\n%s", line, &out)
		}
	}
}

// The packages of the library are where they are looked for.
func TestLibraryIsThere(t *testing.T) {
	for _, dir := range library {
		if files, err := os.ReadDir("../../../" + dir); err != nil || len(files) == 0 {
			t.Errorf("%s: %d files, %v", dir, len(files), err)
		}
	}
}
