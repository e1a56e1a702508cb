package zklocks

import (
	"github.com/zklocks/zklocks/internal/hold"
	"github.com/zklocks/zklocks/internal/wire"
)

// Errors that report the state of a lock, to be matched with errors.Is. The packages semaphore,
// leader and once have further errors.
var (
	// ErrBusy is matched by the error of a Try method if the lock cannot be granted at once: a
	// conflicting caller holds it or waits for it.
	ErrBusy error
	// ErrLost is matched by the errors of a [Hold] that has ended without being released.
	ErrLost error
	// ErrReleased is matched by the errors of a [Hold] that has been released.
	ErrReleased error
	// ErrNoAnswer is matched together with ctx's error if no server answers until ctx is canceled:
	// there is no connection, the server is silent, or it drops requests because of its load.
	ErrNoAnswer error
)

// Set here, so that the documentation does not show the internal packages.
func init() {
	ErrBusy, ErrLost, ErrReleased, ErrNoAnswer = hold.ErrBusy, hold.ErrLost, hold.ErrReleased, wire.ErrNoAnswer
}
