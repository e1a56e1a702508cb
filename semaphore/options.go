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

// WithStoredPermits makes the stored number of permits win: the number given to New is stored if
// there is none yet, and is not compared with the stored one otherwise. So programs that start
// after a [Semaphore.Resize] need not know of it. If the node is deleted, a value that has read it
// stores the last number it read. The default is to refuse another number with [ErrMismatch].
func WithStoredPermits() Option { return option(func(cfg *config) { cfg.stored = true }) }
