package memzk

import (
	"slices"
	"testing"
	"time"

	"github.com/zklocks/zklocks/internal/jute"
)

// What one request does is compared with real servers: internal/test/differ.

// At the end of the numbers the number does not grow, so the next name exists already.
func TestTheEndOfTheSequence(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, e *Ensemble) {
		r := rawSession(t, e.Members()[0], 10*time.Second)
		r.mustCreate("/a", 0)
		if !e.SetSequence("/a", 1<<31-2) || e.SetSequence("/none", 0) {
			t.Error("SetSequence")
		}
		next := func(want string) {
			t.Helper()
			if p := r.call(jute.OpCreate, createBody("/a/n-", jute.FlagSequential)); p.string() != want {
				t.Errorf("%d %q, want %q", p.code, p.string(), want)
			}
		}
		next("/a/n-2147483646")
		next("/a/n-2147483647")
		next("") // it exists
		e.SetSequence("/a", -5)
		next("/a/n--000000005")
	})
}

// A program that takes the first name of a listing for the oldest node must fail, as on a real server.
func TestAListingIsInNoOrder(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, e *Ensemble) {
		r := rawSession(t, e.Members()[0], 10*time.Second)
		r.mustCreate("/a", 0)
		for range 20 {
			r.mustCreate("/a/n-", jute.FlagSequential)
		}
		d := jute.Decoder{Rest: r.must(jute.OpGetChildren, pathBody("/a", false)).body}
		if names := d.Texts(); len(names) != 20 || slices.IsSorted(names) || names[0] == "n-0000000000" {
			t.Errorf("in the order of creation: %q", names)
		}
	})
}
