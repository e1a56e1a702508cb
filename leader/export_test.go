package leader

import (
	"context"

	"github.com/zklocks/zklocks"
)

// Locker gives the election the methods of a lock, for the tests that all recipes share. TryLock is
// not public: programs have no use for a candidate that does not wait.
type Locker struct{ *Election }

func (l Locker) Lock(ctx context.Context) (*zklocks.Hold, error) { return l.Campaign(ctx) }

func (l Locker) TryLock(ctx context.Context) (*zklocks.Hold, error) {
	return l.campaign(ctx, "try to campaign", false)
}
