package main

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

func TestPhrasesAndWidth(t *testing.T) {
	wide := "// " + strings.Repeat("x", 98) + "\n"
	full := "\t// " + strings.Repeat("ü", 93) + "\n" // 100 columns
	got, err := read(fstest.MapFS{
		"a.go": {Data: []byte("//go:build !" + strings.Repeat("x", 100) + "\n\n" +
			"// Package a is Told of news, for\n// ever; TestBeside is a name.\npackage a\n\n" + wide +
			"var x = \"beside\" // the latter\n")},
		"a_test.go":       {Data: []byte("/* hears\nof */\npackage a\n\nfunc f() {\n" + full + full[:len(full)-1] + "ü\n}\n")},
		"q/q.go":          {Data: []byte("package q // one thing\n\nvar Y = 1 " + wide)},
		"a/testdata/a.go": {Data: []byte("package a // beside\n")},
		".hidden/a.go":    {Data: []byte("package a // beside\n")},
		"docs/guide.md":   {Data: []byte("# What is beside\n\nthe node of which, \"no news\"\n")},
		"docs/data.txt":   {Data: []byte("beside\n")},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		`a.go:3: "is Told"`, `a.go:3: "news"`, `a.go:3: "for ever"`, `a.go:8: "the latter"`, "a.go:7: a comment of 101 columns, the limit is 100",
		`a_test.go:1: "hears of"`, "a_test.go:7: a comment of 101 columns, the limit is 100",
		`docs/guide.md:1: "beside"`, `docs/guide.md:3: "of which"`,
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A test that lets real time pass needs a reason. Limits of waits and virtual time need none.
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
	got, err := read(tree)
	if err != nil {
		t.Fatal(err)
	}
	var places []string
	for _, place := range got {
		places = append(places, strings.TrimSuffix(place, " does not say why real time passes"))
	}
	want := []string{
		"a_test.go:4: time.Sleep", "a_test.go:9: time.Sleep", "a_test.go:10: time.After", "a_test.go:12: time.After",
		"b_test.go:10: time.Sleep", "b/b_test.go:3: time.Sleep",
	}
	if !slices.Equal(places, want) {
		t.Errorf("got %q, want %q", places, want)
	}
}
