package soak

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/leaks"
	"github.com/zklocks/zklocks/internal/test/realzk"
)

// childEnv has the order to a process that a test starts: a copy of the test's own program.
const childEnv = "SOAK_CHILD"

func TestMain(m *testing.M) {
	var c candidacy
	if realzk.Ordered(childEnv, &c) {
		if err := c.obey(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	var h holding
	if realzk.Ordered(holderEnv, &h) {
		if err := h.obey(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	leaks.Main(m)
}

// patience limits steps that take seconds. Only a test that hangs reaches this limit.
const patience = time.Minute

type acquire = func(context.Context) (*zklocks.Hold, error)

// options are the size of a run, which the flags of `make soak` set in the environment.
type options struct {
	kind string // "" in a plain go test, which runs a short cell of each kind
	For  time.Duration
	Seed uint64
}

func (o options) short() bool { return o.kind == "" }

// TestSoak runs the kind that SOAK_KIND names, or a short cell of each kind. The kinds hammer and
// lost are in internal/test/explore.
func TestSoak(t *testing.T) {
	o := options{os.Getenv("SOAK_KIND"), time.Minute, rand.Uint64() >> 32}
	test.Setting(t, "SOAK_FOR", &o.For, time.ParseDuration)
	test.Setting(t, "SOAK_SEED", &o.Seed, func(v string) (uint64, error) { return strconv.ParseUint(v, 10, 64) })
	found := o.kind == "hammer" || o.kind == "lost"
	for _, k := range []struct {
		name string
		run  func(*testing.T, options)
	}{
		{"leaks", leaksNothing}, // first, because it counts what the process has
		{"takeover", takeovers},
		{"failover", failovers},
		{"moves", moves},
	} {
		if o.short() || o.kind == k.name {
			found = true
			t.Run(k.name, func(t *testing.T) { k.run(t, o) })
		}
	}
	if !found {
		t.Errorf("SOAK_KIND=%s: there is no such kind", o.kind)
	}
}
