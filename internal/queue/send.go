package queue

import (
	"context"

	"github.com/zklocks/zklocks/internal/zkclient"
)

// Send has the place waited for on behalf of callers who may come and go, and
// handed to deliver. The returned function calls the wait off; a place that was
// granted nevertheless, or an error, is still delivered.
func (l *Line) Send(e Entry, deliver func(*Place, error)) (callOff func()) {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer cancel()
		deliver(l.Wait(zkclient.Unhurried(ctx), e))
	}()
	return cancel
}

// GaveUp is the error of a caller who does not wait any more for what was sent,
// because his ctx has ended.
func (l *Line) GaveUp(ctx context.Context) error {
	return l.client.Unreached(ctx, zkclient.Ended(ctx))
}

// Abandon gives the place back without waiting for the answer.
func (p *Place) Abandon() {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = p.Unlock(ctx)
}
