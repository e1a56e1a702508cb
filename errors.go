package zklocks

import (
	"github.com/zklocks/zklocks/internal/hold"
	"github.com/zklocks/zklocks/internal/wire"
)

// Errors that report the state of a lock, to be matched with errors.Is. The packages semaphore,
// leader and once have further errors.
var (
	// ErrBusy is returned by the Try methods when the lock cannot be granted at once: a conflicting
	// caller holds it or waits for it.
	ErrBusy error
	// ErrLost is returned by the methods of a [Hold] that has ended without being released.
	ErrLost error
	// ErrReleased is returned by the methods of a [Hold] that has been released.
	ErrReleased error
	// ErrNoAnswer is returned together with ctx's error if no server answers when ctx is canceled:
	// there is no connection, the server is silent, or it drops requests because of its load.
	ErrNoAnswer error
)

// Set here, or the documentation would show where they come from.
func init() {
	ErrBusy, ErrLost, ErrReleased, ErrNoAnswer = hold.ErrBusy, hold.ErrLost, hold.ErrReleased, wire.ErrNoAnswer
}
