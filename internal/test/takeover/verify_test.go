package takeover

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/zklocks/zklocks/internal/hold"
	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/history"
	"github.com/zklocks/zklocks/internal/test/realzk"
	"github.com/zklocks/zklocks/internal/test/venue"
)

// stale lets a follower that is cut off go on serving reads for 10 seconds.
var stale = venue.Options{Partitions: true, SyncLimit: 10 * time.Second}

// Behind a follower that is cut off a read still finds the node of a lock that another holder has
// had for long. Verify, which needs a quorum, does not say yes.
func verifyBehindStaleFollower(t *testing.T, short venue.Ensemble) {
	const (
		answer  = 200 * time.Millisecond
		timeout = 3 * time.Second
	)
	v := venue.Real()
	e := short
	if e == nil {
		e = v.Cluster(t, 3, stale)
	}
	followers, err := e.Followers()
	if err != nil {
		t.Fatal(err)
	}
	leader, err := e.Leader()
	if err != nil {
		t.Fatal(err)
	}
	if realzk.OlderThan(t, leader.Addr(), 3, 5) {
		t.Skip("left out on ZooKeeper 3.4: there a follower that waits for a commit answers no read, so none is stale")
	}
	victim := followers[0]
	reader := v.ConnectForeign(t, lasting, victim.Addr())
	g := sitTogether(t, v, rand.New(rand.NewPCG(1, 1)), victim.Addr(), []string{leader.Addr()}, 1, []time.Duration{timeout})
	for _, a := range g.sittings {
		if err := a.hold.Verify(t.Context()); err != nil && a.hold.Held() {
			t.Errorf("%s: held, and verify says %v", a.name, err)
		}
	}

	if err := e.Isolate(victim); err != nil {
		t.Fatal(err)
	}
	fault := history.Now()
	all := g.sittings
	g.sittings = slices.DeleteFunc(slices.Clone(all), func(a *sitting) bool { return !a.hold.Held() }) // lost before: the machine was busy
	if len(g.sittings) < len(all) {
		t.Logf("%d of %d holds were lost before the fault", len(all)-len(g.sittings), len(all))
	}
	verify := func(a *sitting) error {
		ctx, cancel := context.WithTimeout(t.Context(), answer)
		defer cancel()
		err := a.hold.Verify(ctx)
		if err == nil {
			t.Errorf("%s: verified %v after its server was cut off", a.name, time.Duration(history.Now()-fault))
		}
		return err
	}
	found := func(a *sitting, when string) {
		exists, _, err := reader.Exists(nodeOf(a.hold))
		if err != nil || !exists {
			t.Errorf("%s: %s the cut-off follower says that the node exists: %v, %v; this test has shown nothing", a.name, when, exists, err)
		}
	}
	for _, a := range g.sittings {
		found(a, "before the takeover")
		verify(a)
	}
	for _, a := range g.sittings {
		test.Within(t, patience, "the next one holds", func() { <-a.next.Done })
		a.must(a.next.Err)
		a.must(a.next.Hold.Verify(t.Context()))
		found(a, "after the takeover")
		held := a.hold.Held()
		if err := verify(a); held || !errors.Is(err, hold.ErrLost) {
			t.Errorf("%s: after the takeover held %v, verify %v", a.name, held, err)
		}
	}

	e.Heal()
	whole(t, e)
	g.sittings = all
	for _, a := range g.sittings {
		a.back()
		if err := a.hold.Verify(t.Context()); !errors.Is(err, hold.ErrLost) {
			t.Errorf("%s: verify when all is well again: %v", a.name, err)
		}
		test.Within(t, patience, "the next one holds", func() { <-a.next.Done })
		a.must(a.next.Hold.Release(t.Context()))
	}
	g.end()
}
