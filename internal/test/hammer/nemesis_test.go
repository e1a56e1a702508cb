package hammer

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/zklocks/zklocks/internal/test/history"
	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/internal/test/realzk"
	"github.com/zklocks/zklocks/internal/wire"
)

// nemesis injects faults while the children lock. Each of its hands is a goroutine for one client,
// for the servers, or for the nodes. A hand injects one fault at a time, and draws its kind from a
// deck, so that each kind has its turn.
type nemesis struct {
	t       *testing.T
	rate    float64       // faults per second, of all hands except that of the servers
	lull    time.Duration // between two faults of the servers
	session time.Duration
	tick    time.Duration
	seed    uint64

	servers []string // their own addresses
	clients []*client
	members *realzk.Ensemble // nil: one server
	admin   *wire.Conn

	mu     sync.Mutex
	decks  map[string]*deck
	fired  map[string]int64
	events []*event
	byHand byHand
}

// client is a child, with the proxies by which it reaches the servers.
type client struct {
	name    string
	process *process
	proxies []*proxy.Proxy
}

// event is a fault, for the reader of a violation.
type event struct {
	at, over int64  // over is 0 while it lasts
	whom     string // a client or a path; "": the servers
	text     string
}

// hand is one goroutine of the nemesis.
type hand struct {
	*nemesis
	ctx    context.Context
	random *rand.Rand
}

// deck is dealt in a random order, without repetition until it is through. A rare card is in every
// fourth deal only.
type deck struct {
	often, rarely []string
	deals         int
	left          []string
}

func (d *deck) next(random *rand.Rand) string {
	if len(d.left) == 0 {
		d.left = append(d.left, d.often...)
		if d.deals%4 == 0 {
			d.left = append(d.left, d.rarely...)
		}
		d.deals++
		random.Shuffle(len(d.left), func(i, j int) { d.left[i], d.left[j] = d.left[j], d.left[i] })
	}
	card := d.left[0]
	d.left = d.left[1:]
	return card
}

func (n *nemesis) deal(kind string, random *rand.Rand) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.decks[kind].next(random)
}

// again returns a card whose fault had no effect.
func (n *nemesis) again(kind, card string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.decks[kind].left = append(n.decks[kind].left, card)
}

// say records the fault that is about to be injected, and its target; the returned function records
// its end.
func (n *nemesis) say(whom, format string, args ...any) (over func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	e := &event{at: history.Now(), whom: whom, text: fmt.Sprintf(format, args...)}
	n.events = append(n.events, e)
	return func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		e.over = history.Now()
	}
}

func (n *nemesis) struck(card string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.fired[card]++
}

// rage injects faults until ctx ends, and repairs all of them.
func (n *nemesis) rage(ctx context.Context, round int, paths []string) {
	var hands sync.WaitGroup
	hook := func(id uint64, share float64, kind string, play func(h *hand, card string) bool) {
		h := &hand{nemesis: n, ctx: ctx, random: rand.New(rand.NewPCG(n.seed+uint64(round)<<32, id))}
		hands.Go(func() {
			for h.rest(share) {
				card := n.deal(kind, h.random)
				if play(h, card) {
					n.struck(card)
				} else {
					n.again(kind, card)
				}
			}
		})
	}
	// Nine of ten faults are of connections.
	for i, c := range n.clients {
		hook(1_000_000+uint64(i), 0.9/float64(len(n.clients)), "client", func(h *hand, card string) bool { return h.strike(c, card) })
	}
	hook(2_000_000, 0.1, "nodes", func(h *hand, card string) bool { return h.meddle(paths, card) })
	if n.members != nil {
		hook(3_000_000, 0, "members", func(h *hand, card string) bool { return h.assail(card) })
	}
	hands.Wait()
}

// rest waits between two faults, for the hand's share of the rate, or after a fault of the servers
// for some locks to be granted. It returns false when the run is over.
func (h *hand) rest(share float64) bool {
	mean := h.lull
	if share > 0 {
		mean = time.Duration(float64(time.Second) / (share * h.rate))
	}
	return h.pause(time.Duration(float64(mean) * min(h.random.ExpFloat64(), 4)))
}

// pause returns true after that time, false when the run is over.
func (h *hand) pause(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-h.ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// upTo is a random time.
func (h *hand) upTo(d time.Duration) time.Duration { return time.Duration(h.random.Int64N(int64(d))) }
