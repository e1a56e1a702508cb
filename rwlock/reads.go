package rwlock

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zklocks/zklocks/internal/queue"
	"github.com/zklocks/zklocks/internal/zkclient"
	"github.com/zklocks/zklocks/internal/znode"
)

// reads are the read locks of one RWMutex value: its goroutines share a place in
// line as long as no writer is known to stand behind it.
type reads struct {
	line   *queue.Line
	kind   znode.Kind
	alone  bool // everybody makes a node
	linger time.Duration

	// current is the party to join. It may be over by now.
	current atomic.Pointer[party]
	// calm saves the listing while no writer comes.
	calm queue.Calm

	mu     sync.Mutex
	queued *errand // on its way to a place that those who come now may share; or nil
}

// errand is one wait in line on behalf of several readers.
type errand struct {
	company *queue.Company
	callOff func() // by the last who waits; nil if one never leaves
	waiting int    // how many still wait for it; guarded by reads.mu

	done  chan struct{} // closed when one of these is known:
	party *party
	err   error
}

func (r *reads) entry() queue.Entry {
	e := readEntry(r.kind)
	if !r.alone {
		e.Company = &queue.Company{Overtakes: isWrite, Calm: &r.calm}
	}
	return e
}

// lock joins the party that holds the lock, or waits with others for a place.
func (r *reads) lock(ctx context.Context) (*party, error) {
	if err := zkclient.Ended(ctx); err != nil {
		return nil, err
	}
	if r.alone {
		return r.own(r.line.Wait(ctx, r.entry()))
	}
	if p := r.join(ctx); p != nil {
		return p, nil
	}
	r.lookOut(ctx)
	e := r.wait(ctx)
	select {
	case <-e.done:
	case <-ctx.Done():
		r.quit(e)
		return nil, r.line.GaveUp(ctx)
	}
	switch e.err {
	case nil:
	case errDeserted:
		return r.lock(ctx)
	default:
		return nil, e.err
	}
	if err := zkclient.Ended(ctx); err != nil {
		_ = e.party.leave(ctx)
		return nil, err
	}
	return e.party, nil
}

// try joins the party that holds the lock, or takes it if it is free.
func (r *reads) try(ctx context.Context) (*party, error) {
	if err := zkclient.Ended(ctx); err != nil {
		return nil, err
	}
	if r.alone {
		return r.own(r.line.Try(ctx, r.entry()))
	}
	if p := r.join(ctx); p != nil {
		return p, nil
	}
	e := r.entry()
	place, err := r.line.Try(ctx, e)
	if err != nil {
		return nil, err
	}
	return r.open(place, e.Company, 1), nil
}

// own is a party that nobody may join.
func (r *reads) own(place *queue.Place, err error) (*party, error) {
	if err != nil {
		return nil, err
	}
	return newParty(place, nil, 0, nil, 1), nil
}

// join is all that a shared read costs: no request, and no mutex.
func (r *reads) join(ctx context.Context) *party {
	if p := r.current.Load(); p != nil && p.join(ctx) {
		return p
	}
	return nil
}

// lookOut has those who wait already know whether more may come along.
func (r *reads) lookOut(ctx context.Context) {
	r.mu.Lock()
	e := r.queued
	r.mu.Unlock()
	if e != nil {
		e.company.LookOut(ctx)
	}
}

// wait returns the errand that the caller may wait for. If it takes a new one, somebody
// else is sent, as the caller may leave while others still wait for it; who can never
// leave goes himself, for a new goroutine has to grow its stack first.
func (r *reads) wait(ctx context.Context) *errand {
	r.mu.Lock()
	if e := r.queued; e != nil && e.company.Welcome() {
		e.waiting++
		r.mu.Unlock()
		return e
	}
	entry := r.entry()
	e := &errand{company: entry.Company, waiting: 1, done: make(chan struct{})}
	stays := ctx.Done() == nil
	if !stays {
		e.callOff = r.line.Send(entry, func(place *queue.Place, err error) { r.deliver(e, place, err) })
	}
	r.queued = e
	r.mu.Unlock()
	if stays {
		place, err := (*queue.Place)(nil), errDeserted
		defer func() { r.deliver(e, place, err) }() // even if an observer panics
		place, err = r.line.Wait(context.Background(), entry)
	}
	return e
}

// errDeserted tells those who wait that whoever stood in line for them will not come back.
var errDeserted = errors.New("a panic while standing in line")

// deliver gives the place to all who wait for it.
func (r *reads) deliver(e *errand, place *queue.Place, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.queued == e {
		r.queued = nil
	}
	switch {
	case err != nil:
		e.err = err
	case e.waiting == 0:
		place.Abandon()
	default:
		e.party = r.open(place, e.company, e.waiting)
	}
	close(e.done)
}

// quit is for one who does not wait any more.
func (r *reads) quit(e *errand) {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-e.done:
		if e.party != nil {
			e.party.abandon()
		}
		return
	default:
	}
	if e.waiting--; e.waiting == 0 {
		e.callOff()
		if r.queued == e {
			r.queued = nil
		}
	}
}

// open begins a party, which replaces the current one. Readers cannot find that any more: it
// ends now if it is idle, or with the last of its members.
func (r *reads) open(place *queue.Place, company *queue.Company, members int) *party {
	p := newParty(place, company, r.linger, &r.current, members)
	if old := r.current.Swap(p); old != nil && old.linger > 0 {
		old.retire()
	}
	return p
}

// retire gives an idle place back, for a writer of this process, and waits for it.
// Where none stays, whoever leaves it does that.
func (r *reads) retire(ctx context.Context) {
	if p := r.current.Load(); p != nil && p.linger > 0 && p.end() {
		_ = p.place.Unlock(ctx)
	}
}
