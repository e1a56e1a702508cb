package semaphore

import "errors"

var (
	// ErrMismatch is matched by the error of a call if
	//   - the node at the path has another number of permits, or no valid number;
	//   - no number is stored, and a lock of another kind has a holder or a waiter at the path;
	//   - New was given 0 permits, and no number is stored.
	ErrMismatch = errors.New("number of permits does not match")
	// ErrTooMany is matched by the error of a caller that asks for more permits than there are.
	ErrTooMany = errors.New("more than there are")
)
