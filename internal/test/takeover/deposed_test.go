package takeover

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/internal/test/venue"
)

// A leader that stood still for a while, and was deposed meanwhile, does not know that. Until it
// finds out it answers handshakes by itself: the other members do not prolong the session that a
// client resumes there. Clients that reconnect to it, and reach no other server, must not count
// from that handshake.
func leaderDeposed(t *testing.T) {
	watchTimers(t)
	v := venue.Real()
	e := v.Cluster(t, 3, deposing)
	var results tally
	shown := 0
	for range setting(t, "DEPOSED", 1, 4) {
		t.Run("round", func(t *testing.T) { shown += depose(t, v, e, 0, &results) })
	}
	results.print(t)
	t.Logf("%d still held when the old leader was back", shown) // on a busy machine it may come too late to show anything
}

// deposing makes the followers drop a paused leader soon.
var deposing = venue.Options{Tick: 500 * time.Millisecond, SyncLimit: time.Second}

// depose lets the old leader run again some time after it was deposed. It returns how many still
// held at that time.
func depose(t *testing.T, v venue.Venue, e venue.Ensemble, more time.Duration, to *tally) (held int) {
	const timeout = 8 * time.Second
	old, err := e.Leader()
	if err != nil {
		t.Fatal(err)
	}
	others := slices.DeleteFunc(e.Addrs(), func(addr string) bool { return addr == old.Addr() })
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	p := v.Proxy(t, old.Addr())
	next := v.Connect(t, lasting, others...)
	var sittings []*sitting
	for _, r := range recipes {
		sittings = append(sittings, newSeat(t, v, r, timeout, v.Connect(t, timeout, p.Addr()), next).sit(ctx))
	}

	if err := old.Pause(); err != nil {
		t.Fatal(err)
	}
	test.Eventually(t, patience, "the others have elected one", func() bool {
		leader, err := e.Leader()
		return err == nil && leader.Addr() != old.Addr()
	})
	linger(1500*time.Millisecond + more) // more than by what a server rounds the end of a session
	epochs := make(map[*sitting]uint64)
	for _, a := range sittings {
		epochs[a] = a.holder.Epoch()
	}
	came := p.Seen(proxy.ConnectOp)
	p.Cut()
	test.Eventually(t, patience, "all have come back", func() bool { return p.Seen(proxy.ConnectOp) >= came+int64(len(sittings)) })
	for _, a := range sittings {
		if a.hold.Held() {
			held++
		}
	}
	if err := old.Resume(); err != nil {
		t.Fatal(err)
	}
	test.Eventually(t, patience, "it answers", func() bool {
		return !slices.ContainsFunc(sittings, func(a *sitting) bool { return a.holder.Epoch() == epochs[a] })
	})
	p.Mute()
	fault := now(v) // no member reaches another from here on
	for _, a := range sittings {
		a.lost("leader deposed", fault, to)
	}
	p.Unmute()
	whole(t, e)
	for _, a := range sittings {
		a.back()
		a.done()
		a.empty()
	}
	return held
}
