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
	all, err := spots("p/p.go", []byte(source))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range all {
		names = append(names, s.name)
		changed := source[:s.from] + s.new + source[s.to:]
		if _, err := format.Source([]byte(changed)); err != nil || changed == source {
			t.Errorf("%s: %v\n%s", s.name, err, changed)
		}
	}
	slices.Sort(names)
	want := []string{
		"p/p.go:11  f, drop: x.n > 1 && len(list) > 0",
		"p/p.go:11  f, negate: x.n > 1 && len(list) > 0",
		"p/p.go:11  f, off by one: len(list) > 0",
		"p/p.go:11  f, off by one: x.n > 1",
		"p/p.go:12  f, drop: x.g()",
		"p/p.go:15  f, drop: _ = y",
		"p/p.go:6  f, drop: defer x.g()",
		"p/p.go:7  f, negate: i < len(list)",
		"p/p.go:7  f, off by one: i < len(list)",
		"p/p.go:8  f, drop: x.n = list[i]",
		"p/p.go:8  f, swap: x.n = list[i] x.g()",
		"p/p.go:9  f, drop: x.g()",
	}
	if !slices.Equal(names, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(names, "\n"), strings.Join(want, "\n"))
	}
}
