package rwlock_test

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/test/contract"
	"github.com/zklocks/zklocks/internal/test/locks"
	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/rwlock"
)

// load is a workload: each worker acquires, works, releases and rests.
type load struct {
	sessions, keys int // each worker has a session, and uses a random one of so many locks
	writes         int // of a thousand cycles
	work, rest     time.Duration
	visits         int // one worker uses the sessions: 1: in turn, 2: at random
	seconds        int // of the measurement; 0: 2
}

// requestsOf returns how many requests a cycle takes.
func requestsOf(s *contract.Stage, l load, d time.Duration) float64 {
	var all []*client
	for range l.sessions {
		all = append(all, behind(s))
	}
	values := make([][]*rwlock.RWMutex, l.sessions)
	for i, c := range all {
		for k := range max(1, l.keys) {
			values[i] = append(values[i], rwlock.New(locks.On(c.conn), fmt.Sprintf("%s-%v-%d", s.Path, d, k), rwlock.WithMaxIdle(d)))
		}
	}
	ctx, stop := context.WithCancel(s.Ctx)
	var mu sync.Mutex
	cycles := 0
	cycle := func(i int, r *rand.Rand) {
		m := values[i][r.IntN(len(values[i]))]
		take := m.RLock
		if r.IntN(1000) < l.writes {
			take = m.Lock
		}
		h, err := take(ctx)
		if err != nil {
			return
		}
		time.Sleep(l.work) // virtual, as all pauses here
		s.Must(h.Release(s.Ctx))
		mu.Lock()
		cycles++
		mu.Unlock()
		time.Sleep(l.rest) // virtual
	}
	var workers sync.WaitGroup
	begin := func(i int) {
		workers.Go(func() {
			r := rand.New(rand.NewPCG(uint64(i), 51))
			for n := 0; ctx.Err() == nil; n++ {
				switch l.visits {
				case 1:
					i = n % l.sessions
				case 2:
					i = r.IntN(l.sessions)
				}
				cycle(i, r)
			}
		})
	}
	begin(0)
	for i := 1; i < l.sessions && l.visits == 0; i++ {
		begin(i)
	}
	time.Sleep(time.Second) // virtual: the directories exist, and the habits are known
	seen := func() (n int64) {
		for _, c := range all {
			n += requests(c)
		}
		return n
	}
	mu.Lock()
	before, done := seen(), cycles
	mu.Unlock()
	time.Sleep(time.Duration(cmp.Or(l.seconds, 2)) * time.Second) // virtual
	mu.Lock()
	asked, did := seen()-before, cycles-done
	mu.Unlock()
	stop()
	workers.Wait()
	for _, c := range all {
		c.conn.Close()
	}
	return float64(asked) / float64(did)
}

// What a lock costs that is kept when it is idle: nothing while one process uses it, and not more
// than otherwise where others want it.
func TestWhatIdleLocksCost(t *testing.T) {
	const ms = time.Millisecond
	for name, row := range map[string]struct {
		load
		most float64 // requests per cycle
		more float64 // or in relation to those without the option
	}{
		"one session writes":         {load{sessions: 1, writes: 1000, work: ms}, 0.02, 0},
		"one session reads":          {load{sessions: 1, work: ms}, 0.02, 0},
		"16 sessions read":           {load{sessions: 16, work: ms, rest: ms}, 0.02, 0},
		"one write in 1,000":         {load{sessions: 16, work: ms, rest: ms, writes: 1, seconds: 5}, 0.12, 0},
		"one write in 100":           {load{sessions: 16, work: ms, rest: ms, writes: 10}, 1.1, 0},
		"one write in 10":            {load{sessions: 16, work: ms, rest: ms, writes: 100}, 4.05, 0},
		"2 sessions fight":           {load{sessions: 2, writes: 1000, work: ms}, 0, 1.03},
		"16 sessions fight":          {load{sessions: 16, writes: 1000, work: ms}, 0, 1.03},
		"2 sessions in turn":         {load{sessions: 2, writes: 1000, work: ms, visits: 1}, 0, 1.03},
		"2 sessions at random":       {load{sessions: 2, writes: 1000, work: ms, visits: 2}, 0, 1.03},
		"4 sessions, long pauses":    {load{sessions: 4, writes: 1000, work: ms, rest: 20 * ms, seconds: 10}, 0, 1.03},
		"100 keys of all, at random": {load{sessions: 8, keys: 100, writes: 1000, work: ms, rest: ms, seconds: 10}, 0, 1.03},
	} {
		t.Run(name, func(t *testing.T) {
			contract.InMemory(t, "", func(s *contract.Stage) {
				s.Venue.Latency(200 * time.Microsecond)
				defer s.Venue.Latency(0)
				with, without := requestsOf(s, row.load, time.Second), 0.0
				if row.more > 0 || testing.Verbose() {
					without = requestsOf(s, row.load, 0)
				}
				s.Logf("%s: %.3f requests per cycle, without the option %.3f", name, with, without)
				if row.most > 0 && with > row.most || row.more > 0 && with > row.more*without {
					s.Errorf("%.3f requests per cycle, without the option %.3f", with, without)
				}
			})
		})
	}
}

// What a lock costs that is used in a pattern, with the option and without, besides heartbeats.
// docs/explain/performance.md has the table.
func TestWhatAKeepCostsOverTime(t *testing.T) {
	const day = 24 * time.Hour
	for name, row := range map[string]struct {
		maxIdle     time.Duration
		locks, uses int           // uses of each lock in a row
		pause       time.Duration // after them
		other       bool          // the connection has another hold
		length      time.Duration
		with, least int64 // at most so many requests, and at least so many without the option
		beats       int64 // at most so many heartbeats
	}{
		"a use each 2 s":                {maxIdle: time.Minute, uses: 1, pause: 2 * time.Second, length: day / 96, with: 240, least: 900, beats: 500},
		"a use each minute":             {maxIdle: 2 * time.Minute, uses: 1, pause: time.Minute, length: day / 24, with: 135, least: 120, beats: 1990},
		"the same, another hold":        {maxIdle: 2 * time.Minute, uses: 1, pause: time.Minute, other: true, length: day / 24, with: 137, least: 120, beats: 1990},
		"a use each hour":               {maxIdle: 2 * time.Minute, uses: 1, pause: time.Hour, length: day / 4, with: 20, least: 12, beats: 40},
		"20 uses each hour":             {maxIdle: time.Minute, uses: 20, pause: time.Hour, length: day / 4, with: 260, least: 240, beats: 400},
		"5 uses each 10 minutes":        {maxIdle: 12 * time.Minute, uses: 5, pause: 10 * time.Minute, length: day / 24, with: 80, least: 60, beats: 1990},
		"the same, kept for a minute":   {maxIdle: time.Minute, uses: 5, pause: 10 * time.Minute, length: day / 24, with: 64, least: 60, beats: 100},
		"the same, and another hold":    {maxIdle: 12 * time.Minute, uses: 5, pause: 10 * time.Minute, other: true, length: day / 24, with: 82, least: 60, beats: 1990},
		"100 locks, a use each minute":  {maxIdle: 2 * time.Minute, locks: 100, uses: 1, pause: time.Minute, length: day / 144, with: 2600, least: 2000, beats: 340},
		"100 locks, a use each 2 s":     {maxIdle: time.Minute, locks: 100, uses: 1, pause: 2 * time.Second, length: day / 720, with: 5000, least: 12000, beats: 80},
		"kept and not used for an hour": {maxIdle: 2 * time.Hour, uses: 10, pause: time.Hour, other: true, length: day / 24, with: 85, least: 20, beats: 1990},
	} {
		t.Run(name, func(t *testing.T) {
			contract.InMemory(t, "", func(s *contract.Stage) {
				s.Ctx = context.Background()
				measure := func(maxIdle time.Duration) (asked, beats int64) {
					p := s.Venue.Proxy(s, s.Server)
					conn := s.Venue.Connect(s, 10*time.Second, p.Addr())
					defer conn.Close()
					if row.other {
						h, err := rwlock.New(locks.On(conn), s.Path+"-other").Lock(s.Ctx)
						s.Must(err)
						defer func() { _ = h.Release(s.Ctx) }()
					}
					var all []*rwlock.RWMutex
					for i := range max(1, row.locks) {
						path := fmt.Sprint(s.Path, "-", i) // not a container, which the server would delete in a pause
						_, _ = s.Witness.Client().Create(path, nil, zk.FlagPersistent, zk.WorldACL(zk.PermAll))
						all = append(all, rwlock.New(locks.On(conn), path, rwlock.WithMaxIdle(maxIdle)))
					}
					for began := time.Now(); time.Since(began) < row.length; time.Sleep(row.pause) { // virtual
						for _, m := range all {
							for range row.uses {
								h, err := m.Lock(s.Ctx)
								s.Must(err)
								s.Must(h.Release(s.Ctx))
							}
						}
					}
					for _, op := range []proxy.Op{proxy.CreateOp, proxy.ListOp, proxy.ReadOp, proxy.ExistsOp, proxy.SetOp, proxy.DeleteOp} {
						asked += p.Seen(op)
					}
					return asked, p.Seen(proxy.CheckOp)
				}
				with, beats := measure(row.maxIdle)
				without, _ := measure(0)
				s.Logf("%-30s %5v: %6d requests and %6d heartbeats, without the option %6d requests", name, row.length, with, beats, without)
				if with > row.with || without < row.least || beats > row.beats {
					s.Errorf("%d requests and %d heartbeats, without %d; want at most %d and %d, and at least %d", with, beats, without, row.with, row.beats, row.least)
				}
			})
		})
	}
}
