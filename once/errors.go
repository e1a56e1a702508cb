package once

import "errors"

var (
	// ErrDone is matched by the error of a call that has nothing to do: a process has already done
	// the work of this period or slot. It is the normal result in all processes but one.
	ErrDone = errors.New("done already")
	// ErrPassed is matched by the error of [Job.RunSlot] if a larger slot has been completed, and
	// the record does not show that this slot has. RunSlot did not run it. The error does not match
	// ErrDone, so a program that treats ErrDone as success reports the slot that was not run. To
	// miss no slot, run them in their order: see the example CatchUp of Job.
	ErrPassed = errors.New("slot passed")
	// ErrNever is matched by the error of [Job.Last] when no run has been completed.
	ErrNever = errors.New("it has never been run")
)
