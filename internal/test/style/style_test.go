package main

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// A test that lets real time pass needs a reason. Limits of waits and virtual time need none.
func TestSleeps(t *testing.T) {
	tree := fstest.MapFS{
		"a.go":                 {Data: []byte("package a\n\nfunc f() { time.Sleep(1) }\n")},
		"a/testdata/a_test.go": {Data: []byte("package a\n\nfunc f() { time.Sleep(1) }\n")},
		".hidden/a_test.go":    {Data: []byte("package a\n\nfunc f() { time.Sleep(1) }\n")},
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
