package semaphore

import "errors"

var (
	// ErrMismatch is returned when the node at the path was created with another number of permits,
	// has no valid number, or belongs to a semaphore of another library.
	ErrMismatch = errors.New("number of permits does not match")
	// ErrTooMany is returned when a caller asks for more permits than there are.
	ErrTooMany = errors.New("more than there are")
)
