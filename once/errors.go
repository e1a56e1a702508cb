package once

import "errors"

var (
	// ErrDone is matched by the error of a call that has nothing to do: a process has already done
	// the work of this period or slot. It is the normal result in all processes but one.
	ErrDone = errors.New("done already")
	// ErrNever is matched by the error of [Job.Last] when no run has been completed.
	ErrNever = errors.New("it has never been run")
)
