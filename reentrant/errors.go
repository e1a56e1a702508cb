package reentrant

import "github.com/zklocks/zklocks/internal/hold"

// What callers match with errors.Is. The same values serve all recipes.
var (
	// ErrBusy: somebody else has the lock, and the call does not wait.
	ErrBusy = hold.ErrBusy
	// ErrLost: the hold has ended without having been released.
	ErrLost = hold.ErrLost
	// ErrReleased: the hold has been released.
	ErrReleased = hold.ErrReleased
)
