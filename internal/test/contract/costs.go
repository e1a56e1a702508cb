package contract

import (
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/queue"
	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/proxy"
)

var costs = []scenario{
	{"an uncontended cycle takes as few requests as promised", slowly(fewRequests), 0},
	{"a cycle behind the holder takes as few requests as promised", slowly(fewBehind), 0},
	{"calls of one value at once take few requests each", fewAtOnce, 0},
	{"a cycle in the queue of one connection takes as few requests as promised", slowly(fewOnOneConnection), markers},
}

// slowly plays a scenario a second time, in memory with latency: more is under way at the same time.
func slowly(play func(*scene)) func(*scene) {
	return func(s *scene) {
		play(s)
		s.Empty()
		s.move(test.Path(s))
		s.Venue.Latency(5 * time.Millisecond)
		defer s.Venue.Latency(0)
		play(s)
	}
}

func fewRequests(s *scene) {
	const cycles = 100
	s.makeDir(zk.WorldACL(zk.PermAll)) // a persistent node, because the server may delete a container between two cycles
	c := s.with(s.BehindFor(quietSession))
	for range 3 {
		s.release(c.lock())
	}
	before := c.proxy.Seen(proxy.AnyOp)
	for range cycles {
		s.release(c.lock())
	}
	if n := c.proxy.Seen(proxy.AnyOp) - before; n != int64(cycles*s.r.Requests) {
		s.Errorf("%d requests in %d cycles, want %d each", n, cycles, s.r.Requests)
	}
}

func fewBehind(s *scene) {
	s.makeDir(zk.WorldACL(zk.PermAll))
	holder, c := s.client(), s.behind()
	c.observed() // an observer costs no request
	cycle := func() {
		h := holder.block()
		reads := c.proxy.Seen(proxy.ReadOp)
		a := c.wait(2)
		test.Eventually(s, soon, "it watches the holder", func() bool {
			return c.proxy.Seen(proxy.ReadOp) >= reads+int64(s.r.Behind-2-len(s.dirs())) // create, delete, lists
		})
		c.catchUp()
		s.release(h)
		got := a.Granted()
		if lost := got.Lost(); Closed(lost) { // the nodes that Lost needs watched are watched already
			s.Error("lost")
		}
		c.catchUp()
		s.release(got)
	}
	for range 3 { // after that readers no longer check for writers each time
		cycle()
	}
	const cycles = 4
	before, listed := c.requests(), c.proxy.Seen(proxy.ListOp)
	for range cycles {
		began := time.Now()
		if cycle(); s.slow(began) {
			return
		}
	}
	n := c.requests() - before
	if lists := c.proxy.Seen(proxy.ListOp) - listed; lists != int64(cycles*len(s.dirs())) {
		s.Errorf("%d listings in %d cycles", lists, cycles)
	}
	if n != int64(cycles*s.r.Behind) {
		s.Errorf("%d requests in %d cycles, want %d each", n, cycles, s.r.Behind)
	}
}

// fewAtOnce is about requests that are under way at the same time, so that none knows the result of
// another.
func fewAtOnce(s *scene) {
	s.makeDir(zk.WorldACL(zk.PermAll))
	c := s.with(s.BehindFor(quietSession))
	s.release(c.lock())
	s.Pass(queue.FirstRecheck + time.Second)
	s.Venue.Latency(time.Millisecond)
	defer s.Venue.Latency(0)
	const callers = 100
	before, began := c.requests(), time.Now()
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			h, err := c.Lock(s.Ctx)
			if err == nil {
				err = h.Release(s.Ctx)
			}
			if err != nil {
				s.Error(err)
			}
		})
	}
	all.Wait()
	if s.slow(began) {
		return
	}
	if n, most := c.requests()-before, int64(callers*(s.r.Behind+1)); n > most {
		s.Errorf("%d requests of %d callers, want at most %d", n, callers, most)
	}
}

// fewOnOneConnection is about watches that several waiters share.
func fewOnOneConnection(s *scene) {
	s.makeDir(zk.WorldACL(zk.PermAll))
	holder, c := s.client(), s.with(s.BehindFor(quietSession))
	s.release(c.lock())
	h := holder.block()
	before, listed, began := c.requests(), c.proxy.Seen(proxy.ListOp), time.Now()
	const waiters = 16
	var line []*attempt
	for i := range waiters {
		line = append(line, c.again().wait(i+2))
		c.catchUp()
	}
	for _, a := range line {
		s.release(h)
		h = a.Granted()
	}
	s.release(h)
	if s.slow(began) {
		return
	}
	dirs := len(s.dirs())
	want := int64(waiters*s.r.Behind + dirs) // the second waiter lists again, because the first leaves no marker
	if n, lists := c.requests()-before, c.proxy.Seen(proxy.ListOp)-listed; n != want || lists != int64((waiters+1)*dirs) {
		s.Errorf("%d requests and %d listings in %d cycles, want %d and %d", n, lists, waiters, want, (waiters+1)*dirs)
	}
}

// slow reports whether, on a real server and a busy machine, waiters may have listed again because
// no event has come for so long.
func (s *scene) slow(began time.Time) bool {
	return !s.Virtual() && time.Since(began) > queue.FirstRecheck/2
}

// requests returns how many requests the client's locks have sent. It does not count the requests
// that keep the session alive, nor exists, which catchUp sends and a lock never does.
func (c *client) requests() (n int64) {
	for _, op := range []proxy.Op{proxy.CreateOp, proxy.ListOp, proxy.ReadOp, proxy.SetOp, proxy.DeleteOp} {
		n += c.proxy.Seen(op)
	}
	return n
}
