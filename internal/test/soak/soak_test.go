package soak

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test/leaks"
	"github.com/zklocks/zklocks/internal/test/realzk"
)

func TestMain(m *testing.M) {
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

var (
	kindFlag   = flag.String("kind", "", "takeover, moves or leaks at full size (default: a short cell of each)")
	lengthFlag = flag.Duration("for", time.Minute, "how long; leaks always takes ten minutes")
	seedFlag   = flag.Uint64("seed", 0, "the seed of the random choices (default: random)")
)

// options are the size of a run.
type options struct {
	kind string // "" in a plain go test, which runs a short cell of each kind
	For  time.Duration
	Seed uint64
}

func (o options) short() bool { return o.kind == "" }

// TestSoak runs the kind that -kind names, or a short cell of each kind. The kind hammer is in
// internal/test/explore.
func TestSoak(t *testing.T) {
	o := options{*kindFlag, *lengthFlag, cmp.Or(*seedFlag, rand.Uint64()>>32)}
	found := false
	for _, k := range []struct {
		name string
		run  func(*testing.T, options)
	}{
		{"leaks", leaksNothing}, // first, because it counts what the process has
		{"takeover", takeovers},
		{"moves", moves},
	} {
		if o.short() || o.kind == k.name {
			found = true
			t.Run(k.name, func(t *testing.T) { k.run(t, o) })
		}
	}
	if !found {
		t.Errorf("-kind %s: there is no such kind", o.kind)
	}
}
