package contract

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/queue"
	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/proxy"
)

var waiting = []scenario{
	{"the lock is given in the order of arrival", inOrder, 0},
	{"a release wakes only the next in line", wakesOne, exclusive | chain | single},
	{"a waiter that dies in the middle lets no waiter in", diesInTheMiddle, 0},
	{"a deadline ends the wait and nothing else", deadline, 0},
	{"TryLock on a taken lock is busy and writes nothing", tryTaken, 0},
	{"TryLock does not overtake a waiter", tryBehind, 0},
	{"of many tries at once one succeeds", tryMany, exclusive},
}

func inOrder(s *scene) {
	h := s.client().block()
	var line []*attempt
	var clients []*client
	for i := range 5 {
		c := s.client()
		clients = append(clients, c)
		if i%2 == 0 {
			line = append(line, c.wait(i+2))
		} else {
			line = append(line, c.waitToBlock(i+2))
		}
	}
	for i, next := range line {
		for j := i; j < len(line); j++ {
			clients[j].waits(line[j])
		}
		s.release(h)
		h = next.Granted()
	}
	s.release(h)
}

func wakesOne(s *scene) {
	const waiters = 20
	// On one connection the waiters share their watches, so a test would not show that too many of
	// them wake.
	clients := []*client{s.behind(), s.behind(), s.behind()}
	sum := func(count func(*client) int) (all int) {
		for _, c := range clients {
			all += count(c)
		}
		return all
	}
	heard := func(c *client) int { c.catchUp(); return int(c.proxy.Notifications()) }
	h := clients[len(clients)-1].block()
	began := time.Now()
	var line []*attempt
	for i := range waiters {
		line = append(line, clients[i%len(clients)].wait(i+2))
	}
	// Each waiter watches the node of the waiter ahead, and the first waiter its own node, too. If
	// releases leave markers, all waiters watch their own nodes, and all but the first watch for
	// markers.
	watches := waiters + 1
	if s.r.Markers {
		watches = 3*waiters - 1
	}
	test.Eventually(s, soon, "all waiters watch", func() bool {
		return sum(func(c *client) (nodes int) {
			for _, path := range s.Venue.Watched(s, c.conn.Session()) {
				if strings.HasPrefix(path, s.Dir+"/") { // not the nodes that concern the whole queue
					nodes++
				}
			}
			return nodes
		}) == watches
	})
	if n := sum(heard); n != 0 {
		s.Errorf("%d notifications before the first release", n)
	}
	for i, next := range line {
		bystander := clients[(i+1)%len(clients)]
		before := heard(bystander)
		s.release(h)
		h = next.Granted()
		if n := heard(bystander) - before; n != 0 {
			s.Fatalf("release %d: %d notifications to one who is not next", i, n)
		}
		// The next waiter receives the event of each release. A holder that has waited receives the
		// event of its own release. The next waiter also receives the event of the marker, which the
		// first two releases do not leave.
		want := i + 1 + min(i, 1)
		if s.r.Markers {
			want = max(1, 3*i)
		}
		if time.Since(began) > queue.FirstRecheck/2 {
			continue // on a slow machine: waiters may have listed again, and watch more
		}
		if n := sum(heard); n != want {
			s.Fatalf("%d notifications after %d releases", n, i+1)
		}
	}
	s.release(h)
}

func diesInTheMiddle(s *scene) {
	holder, victim, closer, last := s.client(), s.client(), s.client(), s.client()
	h := holder.block()
	v := victim.waitToBlock(2)
	w := closer.waitToBlock(3)
	a := last.wait(4)

	victim.conn.Close()
	v.Failed()
	s.inLine(3)
	last.waits(a)

	s.Expire(closer.conn)
	closer.catchUp() // the client is back, in a new session, at the tail
	last.waits(a)
	if !h.Held() {
		s.Error("the holder lost its lock to a waiter's death")
	}
	w.Stop()
	s.release(h)
	s.release(a.Granted())
}

func deadline(s *scene) {
	holder, c := s.client(), s.client()
	h := holder.block()
	ctx, cancel := context.WithTimeout(s.Ctx, 2*time.Second)
	defer cancel()
	end, _ := ctx.Deadline()
	a := Begin(s, ctx, c.Lock)
	err := a.Failed()
	s.Is(err, context.DeadlineExceeded)
	if want := s.r.Package + ": " + s.r.Lock + " " + s.r.named(s.Path) + ": context deadline exceeded: "; !strings.HasPrefix(err.Error(), want) || !strings.HasSuffix(err.Error(), " ahead in the queue; this connection holds none") {
		s.Errorf("error %q, want %q and the place in the queue", err, want)
	}
	if a.At.Before(end) || s.Virtual() && a.At.After(end) {
		s.Errorf("returned %v before the deadline", end.Sub(a.At))
	}
	a.Prompt()
	s.inLine(1)
	s.Must(h.Verify(s.Ctx))
	s.release(h)
}

func tryTaken(s *scene) {
	c := s.behind()
	h := s.client().block()
	for range 5 {
		_, err := c.TryLock(s.Ctx)
		s.Is(err, zklocks.ErrBusy)
	}
	for _, op := range []proxy.Op{proxy.CreateOp, proxy.DeleteOp, proxy.SetOp, proxy.MkdirOp} {
		if n := c.proxy.Seen(op); n != 0 {
			s.Errorf("%d requests to %v", n, op)
		}
	}
	s.Must(h.Verify(s.Ctx))
	s.release(h)
	got, err := c.TryLock(s.Ctx)
	s.Must(err)
	s.release(got)
}

// tryBehind queues a waiter behind a holder. If the lock can be shared, the holder does not exclude
// the client that tries.
func tryBehind(s *scene) {
	holder, waiter, c := s.client(), s.client(), s.client()
	h := holder.lock()
	a := waiter.waitToBlock(2)
	_, err := c.TryLock(s.Ctx)
	s.Is(err, zklocks.ErrBusy)
	s.inLine(2)
	s.release(h)
	s.release(a.Granted())
}

func tryMany(s *scene) {
	c := s.client()
	var mu sync.Mutex
	var holds []*zklocks.Hold
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			h, err := c.TryLock(s.Ctx)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				holds = append(holds, h)
				return
			}
			s.Is(err, zklocks.ErrBusy)
		})
	}
	all.Wait()
	if len(holds) != 1 {
		s.Errorf("%d tries succeeded, want 1", len(holds))
	}
	s.inLine(len(holds))
	for _, h := range holds {
		s.release(h)
	}
}
