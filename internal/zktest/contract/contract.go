// Package contract is what every recipe promises, as tests on a real server:
// one suite, run over all of them.
//
// A scenario is a function of a scene: a lock path of its own, clients that
// come and go, and a witness who looks at the directory without a lock. When
// it ends, while its clients are still connected, nobody may be left in line.
package contract

import (
	"context"
	"flag"
	"slices"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/zktest"
	"github.com/zklocks/zklocks/observe"
)

// Hold is what the holds of all recipes have in common.
type Hold interface {
	Unlock(context.Context) error
	Held() bool
	Lost() <-chan struct{}
	Deadline() (deadline time.Time, known bool)
	Context(context.Context) context.Context
	Token() int64
	Guard() *zk.CheckVersionRequest
	Verify(context.Context) error
}

// Member is what the queues of all recipes tell.
type Member struct {
	Name    string
	Holding bool
	Since   time.Time
	Session int64
	Token   int64
	Data    []byte
	Host    string
	Pid     int
}

// Locker is one value of a recipe.
type Locker interface {
	Lock(context.Context) (Hold, error)
	TryLock(context.Context) (Hold, error)
	// Block takes the same lock in the way that makes Lock wait. It is Lock
	// itself, but for locks that are shared.
	Block(context.Context) (Hold, error)
	Queue(context.Context) ([]Member, error)
}

// Settings are the options that all recipes have; zero values are not passed.
type Settings struct {
	ACL   []zk.ACL // one that is empty, but not nil, is
	Data  []byte
	Grace time.Duration
	// Observer, if not nil, is told.
	Observer *observe.Observer
}

// Recipe is one way to lock.
type Recipe struct {
	Package string // in front of its errors
	Lock    string // what its errors call Lock
	TryLock string // and TryLock

	New func(conn *zk.Conn, path string, s Settings) Locker

	Kind observe.Kind // that observers are told of Lock

	Below  string // the directory in which nodes stand, below the lock's path
	Stored string // what the node at the path holds, if the directory is below it

	Nodes     int  // per Lock, and per Block
	Shared    bool // several may Lock at once
	Joins     bool // and do so by one node, if they are of one value
	Announces bool // Lock fails without the right to write the directory's data
	Marks     bool // in a long line a release has a mark
	Requests  int  // of an uncontended Lock and Unlock
	Behind    int  // of one that waits for the holder alone
}

// As turns the result of a recipe into that of a Locker.
func As[H Hold](h H, err error) (Hold, error) {
	if err != nil {
		return nil, err
	}
	return h, nil
}

// Main is zktest.Main for packages whose tests mostly wait: for expiries, for
// servers to come back. More of them at a time than there are processors does
// no harm. A -parallel on the command line wins.
func Main(m *testing.M) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		_ = flag.Set("test.parallel", "8")
	}
	zktest.Main(m)
}

type scenario struct {
	name string
	run  func(*scene)
	only only
}

// only says to which recipes a scenario applies, and how it runs.
type only int

const (
	exclusive only = 1 << iota // recipes of which one can hold at a time
	alone                      // not beside other tests: it counts or measures
)

var suite = slices.Concat(
	holding, waiting, trying, canceling, replies, losing, outages, fencing, inputs, rights, secured, secrets, directories, names, surroundings, costs, observing,
)

// Run runs the suite over one recipe.
func Run(t *testing.T, r Recipe) {
	for _, sc := range suite {
		if sc.only&exclusive != 0 && r.Shared {
			continue
		}
		t.Run(sc.name, func(t *testing.T) {
			if sc.only&alone == 0 {
				t.Parallel()
			}
			s := newScene(t, r)
			sc.run(s)
			s.Empty()
		})
	}
}
