package venue

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/leaks"
)

func TestMain(m *testing.M) { leaks.Main(m) }

// A program that takes the first name of a listing for the oldest node must fail at both venues.
func TestListingsHaveOneOrder(t *testing.T) {
	acl := zk.WorldACL(zk.PermAll)
	list := func(t *testing.T, v Venue) (all [][]string) {
		conn, dir := v.Connect(t, 10*time.Second), test.Path(t)
		do := func(ops ...any) {
			t.Helper()
			if _, err := conn.Client().Multi(ops...); err != nil {
				t.Fatal(err)
			}
			names, _, err := conn.Client().Children(dir)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, names)
		}
		do(&zk.CreateRequest{Path: dir, Acl: acl})
		var made []string
		for i := range 60 {
			name := fmt.Sprintf("%s/_c_%08x-0000-4000-8000-%012x-lock-%010d", dir, uint32(i)*2654435761, i*7919, i)
			if i%3 == 0 {
				name = fmt.Sprintf("%s/lock-%010d", dir, i)
			}
			do(&zk.CreateRequest{Path: name, Acl: acl})
			made = append(made, name)
		}
		var siblings []any // some share a bucket
		for i := range 40 {
			siblings = append(siblings, &zk.CreateRequest{Path: fmt.Sprintf("%s/%d-%d", dir, i*i*7919, i), Acl: acl})
		}
		do(siblings...)
		do(&zk.CreateRequest{Path: dir + "/замок-", Acl: acl})
		for _, name := range made[:55] {
			do(&zk.DeleteRequest{Path: name, Version: -1})
		}
		return all
	}
	var virtual, real [][]string
	t.Run("virtual", func(t *testing.T) { InMemory(t, func(t *testing.T, v Venue) { virtual = list(t, v) }) })
	if last := virtual[60]; strings.HasSuffix(last[0], "0000000000") || slices.IsSorted(last) {
		t.Errorf("in the order of creation: %q", last)
	}
	t.Run("real", func(t *testing.T) { OnReal(t, func(t *testing.T, v Venue) { real = list(t, v) }) })
	for i, names := range real {
		if !slices.Equal(names, virtual[i]) {
			t.Fatalf("listing %d is\n%q, in memory\n%q", i, names, virtual[i])
		}
	}
}
