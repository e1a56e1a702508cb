package semaphore

import (
	"github.com/zklocks/zklocks/internal/queue"
	"github.com/zklocks/zklocks/internal/slot"
)

// Option changes a default of [New]. Every [zklocks.Option] is one.
type Option interface{ semaphoreOption }

type semaphoreOption = slot.SemaphoreOption

type option = slot.Semaphore[config]

type config struct {
	queue.Config
	stored bool
}

// WithStoredPermits keeps the number of permits at the path, and makes the stored number win: the
// number given to New is stored if there is none yet, and is not compared with the stored one
// otherwise. So programs that start after a [Semaphore.Resize] need not know of it. Give the option
// to all programs that use the path: the first program that stores a number decides whether it is
// kept. If the node is deleted, a value that has read it stores the last number it read.
//
// The default is to refuse another number with [ErrMismatch], and to keep no number when the
// semaphore is idle.
func WithStoredPermits() Option { return option(func(cfg *config) { cfg.stored = true }) }
