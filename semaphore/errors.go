package semaphore

import "errors"

var (
	// ErrMismatch is returned when the node at the path was created with another number of permits,
	// or has no valid number; when no number is stored yet and a lock of another kind has a holder
	// or a waiter at the path; and by a semaphore of New with 0 permits when there is no stored
	// number.
	ErrMismatch = errors.New("number of permits does not match")
	// ErrTooMany is returned when a caller asks for more permits than there are.
	ErrTooMany = errors.New("more than there are")
)
