package leader

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/zklocks/zklocks/internal/zkclient"
)

// backoff draws the pauses between the failures of one Run. Each is between min and max, and at
// most three times the last: "decorrelated jitter", after AWS, "Exponential Backoff And Jitter". So
// the candidates of a cluster whose function fails everywhere do not come back all at once.
type backoff struct {
	min, max time.Duration
	last     time.Duration // 0: the last term did not fail
}

// next is the pause after one more failure.
func (b *backoff) next() time.Duration {
	most := b.max
	if last := max(b.last, b.min); last < b.max/3 {
		most = 3 * last
	}
	b.last = b.min + time.Duration(rand.Int64N(int64(most-b.min)+1))
	return b.last
}

// wait pauses after a failure, as long as ctx lives.
func (b *backoff) wait(ctx context.Context) error {
	timer := time.NewTimer(b.next())
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return zkclient.Ended(ctx)
	}
}
