package queue

import (
	"context"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/hold"
)

// Part is one of several holds on one place: the re-entries of an owner, the
// readers of a process, holders that hand the lock on. Each ends by itself, and
// all end when the place is lost. Whoever ends the last one unlocks the place.
type Part struct {
	Place *Place
	life  hold.Life
	call  *Call
}

// Begin begins a hold on a place.
func (p *Part) Begin(place *Place) {
	p.Place = place
	p.life.Begin(place.look)
}

// Granted tells the observers of this hold, which the call has come to.
func (p *Part) Granted(call *Call) {
	p.call = call
	call.Granted(p.Place)
}

// Released tells them how it has ended, by the error of its Unlock.
func (p *Part) Released(err error) { p.call.Released(err) }

// Bound is the context that bounds the wait of a call that ends this hold, see hold.Life.Bound.
func (p *Part) Bound(ctx context.Context) (context.Context, context.CancelFunc) {
	return p.life.Bound(ctx)
}

// End ends this hold. The error matches hold.ErrLost if the place had been lost
// first, and is hold.ErrReleased from the second call on.
func (p *Part) End() error { return p.life.Release() }

// Look returns nil while the hold lives, and otherwise what ended it.
func (p *Part) Look() error { return p.life.Look() }

// Life returns the hold's life, to which the loss of the place is told from now
// on. A hold that nobody asks costs no watch and no goroutine.
func (p *Part) Life() *hold.Life {
	p.life.Tie(p.Place.Life)
	return &p.life
}

// Deadline is the instant until which the place is known to be held; the zero time if this hold has ended.
func (p *Part) Deadline() time.Time {
	if p.life.Look() != nil {
		return time.Time{}
	}
	return p.Place.Deadline()
}

// Context returns a context that ends with parent or with this hold.
func (p *Part) Context(parent context.Context) context.Context { return p.Life().Context(parent) }

// Token is that of the place.
func (p *Part) Token() int64 { return p.Place.Token() }

// Guard is that of the place.
func (p *Part) Guard() *zk.CheckVersionRequest { return p.Place.Guard() }

// Multi makes a transaction that takes place only while the place is held. The end of this hold comes before
// whatever else is wrong, as in Verify.
func (p *Part) Multi(ctx context.Context, ops ...any) ([]zk.MultiResponse, error) {
	return p.Place.multi(ctx, p.Look, ops)
}

// Verify asks the quorum whether the place is still held. The end of this hold comes before
// whatever else is wrong: ctx may be its own, and the place may be another's by now.
func (p *Part) Verify(ctx context.Context) error {
	if err := p.Look(); err != nil {
		return err
	}
	err := p.Place.Verify(ctx)
	if end := p.Look(); end != nil {
		return end
	}
	return err
}
