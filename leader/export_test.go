package leader

import (
	"context"

	"github.com/zklocks/zklocks"
)

// Locker is the election as the lock that it is, for the scenarios of all recipes. A candidate that
// does not wait is of no use to programs, so there is no public method for it.
type Locker struct{ *Election }

func (l Locker) Lock(ctx context.Context) (*zklocks.Hold, error) { return l.Campaign(ctx) }

func (l Locker) TryLock(ctx context.Context) (*zklocks.Hold, error) {
	return l.campaign(ctx, "try to campaign", false)
}
