package takeover

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/zklocks/zklocks/internal/zktest"
	"github.com/zklocks/zklocks/internal/zktest/history"
)

// A leader that stood still for a while, and was deposed meanwhile, does not know
// that. Until it finds out it answers handshakes, all by itself: the session that
// a client resumes there is not prolonged for anybody else. Those who come back
// to it, and reach no other server, must not count from that handshake.
func TestLeaderDeposed(t *testing.T) {
	beside(t)
	watchTimers(t)
	const (
		tick    = 500 * time.Millisecond
		timeout = 8 * time.Second
	)
	e := zktest.Cluster(t, 3, zktest.Options{Tick: tick, Config: map[string]string{"syncLimit": "2"}})
	old, err := e.Leader()
	if err != nil {
		t.Fatal(err)
	}
	others := slices.DeleteFunc(e.Addrs(), func(addr string) bool { return addr == old.Addr() })
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	p := zktest.ProxyFor(t, old.Addr())
	next := zktest.Connect(t, lasting, others...)
	var sittings []*sitting
	for _, r := range recipes {
		sittings = append(sittings, newSeat(t, r, timeout, zktest.Connect(t, timeout, p.Addr()), next).sit(ctx))
	}

	fault := history.Now()
	if err := old.Pause(); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Leader(); err != nil { // the others have elected one
		t.Fatal(err)
	}
	elected := history.Now()
	linger(3 * tick)
	came := p.Seen(zktest.ConnectOp)
	p.Cut()
	zktest.Eventually(t, patience, "all have come back", func() bool { return p.Seen(zktest.ConnectOp) >= came+int64(len(sittings)) })
	held := 0 // on a busy machine all may have lost by now, and the test shows nothing
	for _, a := range sittings {
		if a.hold.Held() {
			held++
		}
	}
	if err := old.Resume(); err != nil {
		t.Fatal(err)
	}
	zktest.Eventually(t, patience, "the old leader has stepped down", func() bool {
		followers, err := e.Followers()
		return err == nil && len(followers) == 2
	})
	p.Mute()
	t.Logf("another leader after %v; %d of %d still held when the old one was back", time.Duration(elected-fault), held, len(sittings))
	var results tally
	for _, a := range sittings {
		a.lost("leader deposed", fault, &results)
	}
	results.print(t)
	p.Unmute()
	for _, a := range sittings {
		a.back()
		a.done()
		a.empty()
	}
}
