package semaphore

import (
	"errors"

	"github.com/zklocks/zklocks/internal/hold"
)

// What callers match with errors.Is. The same values serve all recipes, but for
// ErrMismatch.
var (
	// ErrBusy: too few permits are free, and the call does not wait.
	ErrBusy = hold.ErrBusy
	// ErrLost: the hold has ended without having been released.
	ErrLost = hold.ErrLost
	// ErrReleased: the hold has been released.
	ErrReleased = hold.ErrReleased
	// ErrMismatch: the node at the path was made with another number of
	// permits, or holds none, or belongs to a semaphore of another library.
	ErrMismatch = errors.New("number of permits does not match")
)
