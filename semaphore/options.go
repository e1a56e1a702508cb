package semaphore

import (
	"github.com/zklocks/zklocks/internal/queue"
	"github.com/zklocks/zklocks/internal/slot"
)

// Option changes a default of [New]. Every [zklocks.Option] is also an Option.
type Option interface{ semaphoreOption }

type semaphoreOption = slot.SemaphoreOption

type option = slot.Semaphore[config]

type config struct {
	queue.Config
	stored bool
}

// WithStoredPermits keeps the number of permits at the path while the semaphore is idle. The number
// given to New is stored only if there is none yet; otherwise the stored number is used. So a
// program that starts after a [Semaphore.Resize] follows it. Give the option to all programs that
// use the path: the first program that stores a number decides whether it is kept. If the node is
// deleted, a Semaphore that has read it stores the last number that it read.
//
// By default another number is refused with [ErrMismatch], and the number is deleted when the
// semaphore is idle.
func WithStoredPermits() Option { return option(func(cfg *config) { cfg.stored = true }) }
