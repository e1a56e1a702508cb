package leader

import (
	"fmt"
	"time"

	"github.com/zklocks/zklocks/internal/queue"
	"github.com/zklocks/zklocks/internal/slot"
	"github.com/zklocks/zklocks/internal/znode"
)

// Option changes a default of [New]. Every [zklocks.Option] is also an Option.
type Option interface{ leaderOption }

type leaderOption = slot.LeaderOption

type option = slot.Leader[config]

type config struct {
	queue.Config
	kind    znode.Kind
	backoff backoff
}

// WithBackoff sets how long [Election.Run] pauses after its function has failed: a random time
// between min and max. The first pause is at most three times min, each further pause at most three
// times the previous pause. min must be positive, and max not less than min. The default is
// 1 second and 1 minute.
func WithBackoff(min, max time.Duration) Option {
	return option(func(cfg *config) { cfg.backoff = backoff{min: min, max: max} })
}

// WithKazooNames gives the nodes the names that kazoo's Election and Lock use, so that Go and
// Python processes elect one leader. All users of the path must use these names. The default is the
// names of Curator's LeaderSelector. If several options set the names, the last one applies.
//
// With these names the empty directory is not deleted: kazoo creates it once, and fails forever
// after it is gone.
func WithKazooNames() Option {
	return option(func(cfg *config) { cfg.kind = znode.KazooLock })
}

// WithLatchNames gives the nodes the names that Curator's LeaderLatch uses, so that Go and JVM
// processes elect one leader. All users of the path must use these names. LeaderLatch shows the
// data of [zklocks.WithData] as the participant's id. See also [WithKazooNames].
func WithLatchNames() Option {
	return option(func(cfg *config) { cfg.kind = znode.Latch })
}

func (b backoff) wrong() error {
	if b.min <= 0 || b.max < b.min {
		return fmt.Errorf("WithBackoff: %v to %v: the first must be positive and not more than the second", b.min, b.max)
	}
	return nil
}
