package rwlock

import (
	"context"
	"math"
	"sync/atomic"
	"time"

	"github.com/zklocks/zklocks/internal/queue"
)

// party is a read lock that goroutines of one process hold together, by one node.
type party struct {
	place   *queue.Place
	company *queue.Company
	linger  time.Duration
	current *atomic.Pointer[party] // the one to join, which need not be this one
	over    chan struct{}          // closed when it has ended

	kept      atomic.Bool  // there is, or was, a keeper
	idleSince atomic.Int64 // when the last member left, in nanoseconds since start

	// members counts those who hold. From ended on nobody joins any more, and
	// the node is on its way out. All who join and leave write here: what they
	// only read is not in the same cache line, nor in the one that is fetched with it.
	_       [128]byte
	members atomic.Int64
	_       [120]byte
}

func newParty(place *queue.Place, company *queue.Company, linger time.Duration, current *atomic.Pointer[party], members int) *party {
	p := &party{place: place, company: company, linger: linger, current: current, over: make(chan struct{})}
	p.members.Store(int64(members))
	return p
}

const ended = math.MinInt64

var start = time.Now()

// join makes the caller a member. It fails for good once the place is lost, a
// writer has come, the connection was made anew, or the party is over. The first
// who joins asks for the node; all others make no request.
func (p *party) join(ctx context.Context) bool {
	if p.place.Look() != nil {
		return false
	}
	if p.company.Welcome() {
		if p.place.Watched() {
			return p.enter()
		}
	} else if !p.company.IsBlind() {
		return false
	}
	// It takes requests to know more. Whoever makes them is a member meanwhile: those
	// who read for less time than a request takes would all have left before the
	// answer, and every party would be over before anybody could join it.
	if !p.enter() {
		return false
	}
	if p.ask(ctx) {
		return true
	}
	p.abandon()
	return false
}

// enter counts one more member, unless the party is over.
func (p *party) enter() bool {
	if p.members.Add(1) > 0 {
		return true
	}
	p.members.Add(-1)
	return false
}

// ask finds out whether the node is there, and no writer behind it.
func (p *party) ask(ctx context.Context) bool {
	if p.company.LookOut(ctx) && p.place.Look() != nil {
		return false
	}
	return p.place.Exists(ctx) && p.company.Welcome()
}

// end ends a party of which all members have left, and reports whether it did. Then
// the caller unlocks the place.
func (p *party) end() bool {
	if !p.members.CompareAndSwap(0, ended) {
		return false
	}
	close(p.over)
	return true
}

// leave ends one membership. The last one gives the place back, or leaves it for
// readers that come soon. If a reader joins before the end, that is the last one then.
//
// Readers find the current party only, so no other stays. Leave looks whether it is current
// after it has counted itself out; what replaces it looks whether members are left after it
// has done so. So one of the two ends the party.
func (p *party) leave(ctx context.Context) error {
	if p.linger > 0 && p.members.Load() == 1 {
		p.idleSince.Store(int64(time.Since(start))) // before the keeper can see that nobody is left
	}
	if p.members.Add(-1) > 0 {
		return nil
	}
	if p.linger > 0 && p.place.Look() == nil && p.company.Welcome() && p.current.Load() == p {
		p.keep()
		return nil
	}
	if p.end() {
		return p.place.Unlock(ctx)
	}
	return nil
}

// abandon is leave for those who do not wait for the answer.
func (p *party) abandon() {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = p.leave(ctx)
}

// keep sees to it that an idle party ends.
func (p *party) keep() {
	if p.kept.CompareAndSwap(false, true) {
		go p.keeper()
	} else if !p.company.Welcome() {
		p.retire() // the keeper goes when a writer comes
	}
}

// keeper ends the party when it has been idle for too long, or a writer comes.
// One that is lost needs no end.
func (p *party) keeper() {
	lost := p.place.Life().Lost()
	arrivals := p.company.Arrivals()
	timer := time.NewTimer(p.linger)
	defer timer.Stop()
	for {
		select {
		case <-p.over:
			return
		case <-lost:
			return
		case event, first := <-arrivals.C():
			arrivals.Event(event, first)
			p.retire() // if members are inside, the last one ends it
			return
		case <-timer.C:
		}
		left := p.linger
		if p.members.Load() == 0 {
			left -= time.Since(start) - time.Duration(p.idleSince.Load())
		}
		if left <= 0 {
			p.retire()
			left = p.linger
		}
		timer.Reset(left)
	}
}

// retire ends the party if it is idle.
func (p *party) retire() {
	if p.end() {
		p.place.Abandon()
	}
}
