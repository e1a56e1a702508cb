package main

import (
	"go/format"
	"slices"
	"strings"
	"testing"

	"github.com/zklocks/zklocks/internal/test/patch"
)

const source = `package p

type t struct{ n int }

func (x *t) f(list []int) {
	defer x.g()
	for i := 0; i < len(list); i++ {
		x.n = list[i]
		x.g()
	}
	if x.n > 1 && len(list) > 0 {
		x.g()
	}
	y := 1
	_ = y
}

func (*t) g() {}
`

func TestSpots(t *testing.T) {
	all, err := spots("p", "p/p.go", []byte(source))
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, s := range all {
		ids = append(ids, s.id())
		changed := source[:s.site[0]] + s.new + source[s.site[1]:]
		if _, err := format.Source([]byte(changed)); err != nil || changed == source {
			t.Errorf("%s: %v\n%s", s.id(), err, changed)
		}
	}
	slices.Sort(ids)
	want := []string{
		"p t.f, drop: _ = y",
		"p t.f, drop: defer x.g()",
		"p t.f, drop: x.g()",
		"p t.f, drop: x.g() #2",
		"p t.f, drop: x.n = list[i]",
		"p t.f, drop: x.n > 1 && len(list) > 0",
		"p t.f, negate: i < len(list)",
		"p t.f, negate: x.n > 1 && len(list) > 0",
		"p t.f, off by one: i < len(list)",
		"p t.f, off by one: len(list) > 0",
		"p t.f, off by one: x.n > 1",
		"p t.f, swap: x.n = list[i] x.g()",
	}
	if !slices.Equal(ids, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(ids, "\n"), strings.Join(want, "\n"))
	}
}

// A seed draws the same mutants again, another seed draws others, and no mutant is drawn twice.
func TestSample(t *testing.T) {
	root, err := patch.Root()
	if err != nil {
		t.Fatal(err)
	}
	all, err := allSpots(root, "")
	if err != nil {
		t.Fatal(err)
	}
	ids := func(some []spot) (list []string) {
		for _, s := range some {
			list = append(list, s.id())
		}
		return list
	}
	one, same, other := ids(sample(all, 1, 50)), ids(sample(all, 1, 50)), ids(sample(all, 2, 50))
	if len(one) != 50 || !slices.Equal(one, same) || slices.Equal(one, other) {
		t.Errorf("seeds 1, 1 and 2:\n%q\n%q\n%q", one, same, other)
	}
	every := ids(sample(all, 1, len(all)+1))
	slices.Sort(every)
	if n := len(every); n < 100 || n != len(all) || len(slices.Compact(every)) != n {
		t.Errorf("%d of %d are drawn, some twice", n, len(all))
	}
}

// Each entry of survivors.txt has a reason.
func TestSurvivorsHaveReasons(t *testing.T) {
	_, entries, _ := strings.Cut(survivors, "\n\n")
	if lines := strings.Count(entries, "\n"); len(reasons()) != lines {
		t.Errorf("%d reasons in %d lines", len(reasons()), lines)
	}
}
