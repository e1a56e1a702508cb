package znode

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

var all = []Kind{Read, Write, Lock, Permit}

const (
	dashed = "0f8fad5b-d9cb-469f-a165-70867728950e"
	hex32  = "076e6e61c0cde965b0859f41aaeb74ff"
)

func TestParseReadsTheNamesOfEveryPeer(t *testing.T) {
	curators, kazoos := []Kind{CuratorRead, CuratorWrite}, []Kind{KazooRead, KazooLock}
	for name, want := range map[string]struct {
		kinds []Kind
		node  Node
	}{
		"_c_" + dashed + "-read-0000000000":   {all, Node{ID: dashed, Kind: Read}},
		"_c_" + dashed + "-write-0000000017":  {all, Node{ID: dashed, Kind: Write, Seq: 17}},
		"_c_" + dashed + "-lock-2147483647":   {all, Node{ID: dashed, Kind: Lock, Seq: 2147483647}},  // Curator's InterProcessMutex
		"_c_" + hex32 + "-lock-0000000003":    {all, Node{ID: hex32, Kind: Lock, Seq: 3}},            // zk.Lock
		"lock-0000000009":                     {all, Node{Kind: Lock, Seq: 9}},                       // unprotected
		"_c_" + dashed + "-lock--2147483648":  {all, Node{ID: dashed, Kind: Lock, Seq: -2147483648}}, // past 2^31
		"_c_" + dashed + "-lock--000000001":   {all, Node{ID: dashed, Kind: Lock, Seq: -1}},          // %010d of -1
		"_c_" + dashed + "-permit-0000000001": {all, Node{ID: dashed, Kind: Permit, Seq: 1}},

		"_c_" + dashed + "-__READ__0000000001": {curators, Node{ID: dashed, Kind: CuratorRead, Seq: 1}},
		"__WRIT__-2147483648":                  {curators, Node{Kind: CuratorWrite, Seq: -2147483648}},

		hex32 + "__lock__0000000007":  {kazoos, Node{ID: hex32, Kind: KazooLock, Seq: 7}}, // the digits of a UUID, without a prefix
		hex32 + "__rlock__0000000000": {kazoos, Node{ID: hex32, Kind: KazooRead}},
		hex32 + "__lock__-2147483648": {kazoos, Node{ID: hex32, Kind: KazooLock, Seq: -2147483648}},
		"__rlock__0000000001":         {kazoos, Node{Kind: KazooRead, Seq: 1}},

		"_c_" + hex32 + "-lock-000001":                       {kazoos, Node{}}, // not a name
		"_c_" + hex32 + "-__lock__0000000001":                {kazoos, Node{}},
		hex32[1:] + "__lock__0000000001":                     {kazoos, Node{}},
		hex32 + "-__lock__0000000001":                        {kazoos, Node{}},
		"076e6e61-c0cd-e965-b085-9f41aaeb__lock__0000000001": {kazoos, Node{}}, // 32 characters
		hex32 + "_lock__0000000001":                          {kazoos, Node{}},
	} {
		if want.node.Kind != "" {
			want.node.Name = name
		}
		if got, ok := Parse(name, want.kinds...); ok != (want.node.Kind != "") || got != want.node {
			t.Errorf("Parse(%q) = %+v, %v; want %+v", name, got, ok, want.node)
		}
	}
	if got := Prefix(dashed, KazooLock); got != "0f8fad5bd9cb469fa16570867728950e__lock__" {
		t.Errorf("prefix %q", got)
	}
}

func TestParseIgnoresWhatIsNotOurs(t *testing.T) {
	for _, name := range []string{
		"", "README", "_c_x", "_c_", "lock-", "lock", "-lock-0000000001", "lock-00000001", "lock-00000000001",
		"lock-123456789",                      // nine digits without a sign
		"lock--0000000001", "lock--000000000", // no server pads like this
		"_c_" + dashed + "-lock-",     // no number
		"_c_" + dashed + "-lock-abcd", // wrong digits
		"_c_" + dashed + "lock-0000000001",
		"_c_zzzzzzzz-d9cb-469f-a165-70867728950e-lock-0000000001",
		"clock-0000000001",
		"076e6e61c0cde965b0859f41aaeb74ff__lock__0000000001",           // kazoo
		"_c_" + dashed + "-__WRIT__0000000001",                         // Curator's read/write lock
		"_c_" + dashed + "-lease-0000000001",                           // Curator's semaphore
		"лок-0000000001", "0000000001", "10", strings.Repeat("9", 400), // junk
	} {
		if got, ok := Parse(name, all...); ok {
			t.Errorf("Parse(%q) = %+v, want it ignored", name, got)
		}
	}
	if _, ok := Parse("lock-0000000001", Read, Write); ok {
		t.Error("a kind that was not asked for was read")
	}
}

func TestAsKeepsTheNumber(t *testing.T) {
	w, ok := Parse(Prefix(NewID(), Write)+"0000000042", all...)
	if !ok {
		t.Fatal("own name not read")
	}
	r := w.As(Read)
	k, ok := Parse(Prefix(NewID(), KazooLock)+"0000000042", KazooLock)
	if r := k.As(KazooRead); !ok || r.Name != k.ID+"__rlock__0000000042" {
		t.Fatalf("%+v became %+v", k, r)
	}
	back, ok := Parse(r.Name, all...)
	if !ok || back != r || back.Seq != w.Seq || back.ID != w.ID || back.Kind != Read {
		t.Fatalf("%+v became %+v, read back as %+v", w, r, back)
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"lock-0000000000", "lock--2147483648", "_c_x", "_c_0f8fad5b-d9cb-469f-a165-70867728950e-read-0000000001",
		"lock-9999999999", "__lock__0000000001", "\x00", "write-0000000001",
		"_c_0f8fad5b-d9cb-469f-a165-70867728950e-__READ__0000000001", "__WRIT__-2147483648", "__WRIT__-000000001",
		"076e6e61c0cde965b0859f41aaeb74ff__lock__0000000001", "__rlock__-2147483648", "076e6e61-c0cd-e965-b085-9f41aaeb__lock__0000000001",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		n, ok := Parse(name, all...)
		for _, peer := range [][]Kind{{CuratorRead, CuratorWrite}, {KazooRead, KazooLock}} {
			c, too := Parse(name, peer...)
			if too && ok {
				t.Fatalf("%q was read as %+v, and as %+v", name, n, c)
			}
			if too {
				n, ok = c, true
			}
		}
		if !ok {
			return
		}
		if n.Name != name {
			t.Fatalf("%q was read as %q", name, n.Name)
		}
		want := string(n.Kind) + fmt.Sprintf("%010d", n.Seq)
		if n.ID != "" {
			want = Prefix(n.ID, n.Kind) + fmt.Sprintf("%010d", n.Seq)
		}
		if want != name {
			t.Fatalf("%q was read as %+v, which is written %q", name, n, want)
		}
	})
}

// Sort returns all members of any listing in the order of their numbers, without duplicates, or an
// error.
func FuzzLine(f *testing.F) {
	const id = "_c_0f8fad5b-d9cb-469f-a165-70867728950e-"
	f.Add("lock-0000000001\nREADME\nlock-0000000000")
	f.Add(id + "read-0000000002\n" + id + "write-0000000001\n_c_x\n")
	f.Add("lock-2147483647\n" + id + "lock-2147483647")
	f.Add("permit--000000001\npermit-0000000000")
	f.Add(id + "write-0000000007\nREADME\n_c_x\nread-0000000003\n" + id + "read-0000000012\nlock-0000000001")
	f.Fuzz(func(t *testing.T, listing string) {
		children := strings.Split(listing, "\n")
		line, err := Sort(children, all...)
		if err != nil {
			if !errors.Is(err, ErrSequence) && !errors.Is(err, ErrTwice) {
				t.Fatal(err)
			}
			return
		}
		members := slices.DeleteFunc(slices.Clone(children), func(name string) bool { _, is := Parse(name, all...); return !is })
		if len(line) != len(members) {
			t.Fatalf("%d members of %q", len(line), members)
		}
		last := int64(-1)
		for _, n := range line {
			if n.Seq <= last || !slices.Contains(children, n.Name) {
				t.Fatalf("%+v behind number %d", n, last)
			}
			last = n.Seq
		}
	})
}
