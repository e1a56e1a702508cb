package main

import (
	"go/format"
	"slices"
	"strings"
	"testing"
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
		changed := source[:s.from] + s.new + source[s.to:]
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
