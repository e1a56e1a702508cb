package znode

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func TestSortRefusesAnOrderThatCannotBeTrusted(t *testing.T) {
	for name, c := range map[string]struct {
		children []string
		want     error
	}{
		"equal numbers":            {[]string{"_c_" + NewID() + "-lock-0000000003", "_c_" + NewID() + "-lock-0000000003"}, ErrTwice},
		"equal numbers at the end": {[]string{"_c_" + NewID() + "-lock-2147483647", "_c_" + NewID() + "-lock-2147483647"}, ErrSequence},
		"negative number":          {[]string{"lock-0000000001", "lock--2147483648"}, ErrSequence},
	} {
		if _, err := Sort(c.children, Lock); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

func TestCuratorsDowngradeSharesANumber(t *testing.T) {
	curators := []Kind{CuratorRead, CuratorWrite}
	read, write := "__READ__0000000003", "__WRIT__0000000003"
	line, err := Sort([]string{read, "__WRIT__0000000004", write, "__WRIT__0000000002"}, curators...)
	if err != nil || len(line) != 4 || line[0].Seq != 2 || line[1].Seq != 3 || line[2].Seq != 3 || line[3].Seq != 4 {
		t.Errorf("%v, %v", line, err)
	}
	for _, n := range line {
		if err := n.Alone(line); errors.Is(err, ErrTwice) != (n.Seq == 3) {
			t.Errorf("%s: %v", n.Name, err)
		}
	}
	for _, two := range [][]string{{write, "_c_" + NewID() + "-" + write}, {read, "_c_" + NewID() + "-" + read}} {
		if _, err := Sort(two, curators...); !errors.Is(err, ErrTwice) {
			t.Errorf("%q: %v", two, err)
		}
	}
	if _, err := Sort([]string{"read-0000000003", "write-0000000003"}, all...); !errors.Is(err, ErrTwice) {
		t.Errorf("ours: %v", err)
	}
}

func TestUsableAroundTheEndOfTheCounter(t *testing.T) {
	for _, c := range []struct {
		seq          int64
		usable, near bool
	}{
		{0, true, false},
		{1<<30 - 1, true, false},
		{1 << 30, true, true},
		{1<<31 - 1<<20 - 1, true, true},
		{1<<31 - 1<<20, false, true},
		{1<<31 - 1, false, true},
		{-1 << 31, false, false},
		{-1, false, false},
	} {
		n := Node{Seq: c.seq}
		if got := n.Usable() == nil; got != c.usable {
			t.Errorf("sequence %d: usable %v", c.seq, got)
		}
		if n.NearSequenceLimit() != c.near {
			t.Errorf("sequence %d: near %v", c.seq, n.NearSequenceLimit())
		}
	}
}

func TestValidatePath(t *testing.T) {
	for _, good := range []string{"/a", "/a/b", "/a.b/..c", "/ü/日本", "/a b"} {
		if err := ValidatePath(good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for _, bad := range []string{
		"", "relative", "/", "/trailing/", "//a", "/a//b", "/a/./b", "/a/../b", "/.", "/..", "/a\x00b", "/a\x1fb",
		"/a\x7fb", "/\ue000", "/\ufff0", "/\xff", "/zookeeper", "/zookeeper/quota", "/😀",
	} {
		if ValidatePath(bad) == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
	if err := ValidatePath("/" + strings.Repeat("x", maxPath-1)); err != nil {
		t.Error(err)
	}
	if err := ValidatePath("/" + strings.Repeat("x", maxPath)); err == nil || len(err.Error()) > 100 {
		t.Errorf("a path that is too long: %v", err)
	}
	for path, want := range map[string]string{"/a": "/", "/a/b": "/a", "/a/b/c": "/a/b"} {
		if got := Parent(path); got != want {
			t.Errorf("Parent(%q) = %q", path, got)
		}
	}
}

func TestOrderIsThatOfTheNumbers(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for n := range 200 {
		line := make([]Node, n)
		for i := range line {
			line[i].Seq = random.Int64N(1<<33) - 1<<32
			if i > 0 && random.IntN(8) == 0 {
				line[i].Seq = line[random.IntN(i)].Seq
			}
			line[i].Name = fmt.Sprint(line[i].Seq, " ", i)
		}
		want := slices.Clone(line)
		slices.SortStableFunc(want, func(a, b Node) int { return cmp.Compare(a.Seq, b.Seq) })
		if order(line); !slices.Equal(line, want) {
			t.Fatalf("%d nodes are in the order %v, and not %v", n, line, want)
		}
	}
}

func BenchmarkLine1000(b *testing.B) {
	children := make([]string, 1000)
	for i := range children {
		children[i] = Prefix(NewID(), Lock) + fmt.Sprintf("%010d", (i*7919)%1000)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Sort(children, Lock); err != nil {
			b.Fatal(err)
		}
	}
}
