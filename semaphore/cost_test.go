package semaphore_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/zklocks/zklocks/internal/test/contract"
	"github.com/zklocks/zklocks/internal/test/locks"
	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/semaphore"
)

// meanJob is the mean length of a job. A packet takes hop from the client to a proxy, and hop from
// there to the server.
const (
	meanJob = 100 * time.Millisecond
	hop     = 100 * time.Microsecond
)

// lengths are the distributions of the lengths of jobs.
var lengths = []struct {
	name string
	of   func(*rand.Rand) time.Duration
}{
	{"all equal", func(*rand.Rand) time.Duration { return meanJob }},
	{"0 to 2 times the mean", func(r *rand.Rand) time.Duration { return time.Duration(r.Int64N(int64(2 * meanJob))) }},
	{"one in ten 100 times longer", func(r *rand.Rand) time.Duration {
		if r.IntN(10) == 0 {
			return 1000 * meanJob / 109
		}
		return 10 * meanJob / 109
	}},
}

// However many permits and waiting processes there are, and in whatever order permits are released:
// a cycle sends at most six requests, two of them listings; a release causes at most twice as many
// notifications as there are permits; no permit is idle for longer than a handover takes.
// SEMAPHORE=full measures larger semaphores; docs/maintainers/semaphore.md has the figures.
func TestACycleCostsTheSameInWhateverOrderPermitsAreReleased(t *testing.T) {
	sizes := [][2]int{{4, 3}, {4, 20}, {10, 3}} // permits, and processes for each permit
	if os.Getenv("SEMAPHORE") == "full" {
		sizes = [][2]int{{4, 3}, {4, 20}, {10, 3}, {10, 20}, {50, 3}, {50, 20}, {200, 3}}
	}
	for _, size := range sizes {
		for _, l := range lengths {
			t.Run(fmt.Sprintf("%d permits, %d processes, %s", size[0], size[0]*size[1], l.name), func(t *testing.T) {
				contract.InMemory(t, "/queue", func(s *contract.Stage) {
					measureCycles(s, size[0], size[0]*size[1], l.of)
				})
			})
		}
	}
}

func measureCycles(s *contract.Stage, permits, processes int, length func(*rand.Rand) time.Duration) {
	var (
		mu      sync.Mutex
		inside  int
		since   time.Time
		idle    time.Duration // permits times the time for which they were not held
		cycles  int
		ends    = make(chan bool)
		all     sync.WaitGroup
		proxies []*proxy.Proxy
	)
	enter := func(n int) {
		mu.Lock()
		defer mu.Unlock()
		idle += time.Duration(permits-inside) * time.Since(since)
		inside, since = inside+n, time.Now()
		if n < 0 {
			cycles++
		}
		if inside > permits {
			s.Errorf("%d permits of %d are held", inside, permits)
		}
	}
	s.Venue.Latency(hop)
	for i := range processes {
		conn, p := s.BehindFor(time.Minute)
		proxies = append(proxies, p)
		sem := semaphore.New(locks.On(conn), s.Path, permits)
		random := rand.New(rand.NewPCG(uint64(i), 1))
		all.Go(func() {
			for {
				select {
				case <-ends:
					return
				default:
				}
				h, err := sem.Acquire(s.Context(), 1)
				if err != nil {
					s.Error(err)
					return
				}
				enter(1)
				time.Sleep(length(random)) // virtual
				enter(-1)
				s.Must(h.Release(s.Context()))
			}
		})
	}
	requests := func() (total, lists, notifications float64) {
		for _, p := range proxies {
			for _, op := range []proxy.Op{proxy.CreateOp, proxy.ListOp, proxy.ReadOp, proxy.SetOp, proxy.DeleteOp} {
				total += float64(p.Seen(op))
			}
			lists += float64(p.Seen(proxy.ListOp))
			notifications += float64(p.Notifications())
		}
		return total, lists, notifications
	}
	time.Sleep(2 * time.Second) // virtual: the first jobs have left the queue
	enter(0)
	mu.Lock()
	idle, cycles = 0, 0
	mu.Unlock()
	total, lists, notifications := requests()
	measured := 3 * time.Second
	time.Sleep(measured) // virtual
	enter(0)
	close(ends)
	mu.Lock()
	n := float64(cycles)
	waste := 100 * float64(idle) / float64(measured) / float64(permits)
	mu.Unlock()
	afterTotal, afterLists, afterNotifications := requests()
	total, lists, notifications = (afterTotal-total)/n, (afterLists-lists)/n, (afterNotifications-notifications)/n
	s.Logf("%.0f cycles: each %.2f requests, %.2f listings and %.1f notifications; permits were idle for %.2f %%",
		n, total, lists, notifications, waste)
	if total > 6.2 || lists > 2.1 || notifications > 2*float64(permits) || waste > 1 {
		s.Errorf("a cycle takes %.2f requests, %.2f listings and %.1f notifications; permits were idle for %.2f %%",
			total, lists, notifications, waste)
	}
	all.Wait()
}
