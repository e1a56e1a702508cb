package leader

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/zklocks/zklocks/internal/zkclient"
)

// backoff draws the pauses between the failures of one Run. Each pause is between min and max, and
// at most three times the previous pause: "decorrelated jitter", after AWS, "Exponential Backoff
// And Jitter". If the function fails in every process, the candidates do not all return at once.
type backoff struct {
	min, max time.Duration
	last     time.Duration // the previous pause; 0: the last term did not fail
}

// next returns the pause after another failure.
func (b *backoff) next() time.Duration {
	most := b.max
	if last := max(b.last, b.min); last < b.max/3 {
		most = 3 * last
	}
	b.last = b.min + time.Duration(rand.Int64N(int64(most-b.min)+1))
	return b.last
}

// wait pauses. It returns an error if ctx is canceled first.
func wait(ctx context.Context, pause time.Duration) error {
	if pause <= 0 {
		return nil
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return zkclient.Ended(ctx)
	}
}
