package contract

import (
	"context"
	"flag"
	"slices"
	"testing"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test/leaks"
	"github.com/zklocks/zklocks/internal/test/realzk"
	"github.com/zklocks/zklocks/internal/test/venue"
	"github.com/zklocks/zklocks/observe"
)

// Locker is one value of a recipe.
type Locker struct {
	zklocks.Locker
	// Block takes the same lock in the way that makes Lock wait. It is Lock itself, except for
	// locks that are shared.
	Block lockFunc
	Queue func(context.Context) ([]zklocks.Member, error)
}

// look calls Queue, and returns only the error.
func (l Locker) look(ctx context.Context) error {
	_, err := l.Queue(ctx)
	return err
}

// lockFunc is a way to take a lock.
type lockFunc = func(context.Context) (*zklocks.Hold, error)

// only adapts a call that returns no hold to a lockFunc.
func only(call func(context.Context) error) lockFunc {
	return func(ctx context.Context) (*zklocks.Hold, error) { return nil, call(ctx) }
}

// Recipe is one way to lock.
type Recipe struct {
	Package string // in front of its errors
	Lock    string // the name of Lock in its errors
	TryLock string // and TryLock

	New func(conn *zklocks.Conn, path string, opts ...zklocks.Option) Locker

	Kind  observe.Kind // of a member that waits in Lock, and of its events
	Block observe.Kind // of a member that waits in Block; "": as Kind

	Beside string // the end of the path of another lock that it takes, too, and that has no options
	Below  string // the directory in which nodes stand, below the lock's path
	Stored string // what the node at the path holds, if the directory is below it

	Nodes     int  // per Lock, and per Block
	Shared    bool // several callers may hold by Lock at once
	Joins     bool // callers of one value hold by one node
	Announces bool // Lock fails without the right to write the directory's data
	Markers   bool // in a long queue a release leaves a marker
	Requests  int  // that an uncontended Lock and Release send
	Behind    int  // that a Lock and Release send if the Lock waits for the holder alone

	// Options are locks with options that the recipe alone has, by the names of these.
	Options map[string]func(conn *zklocks.Conn, path string) Locker

	// OwnServers makes the recipe play, on real servers, too, the scenarios that need a server of
	// their own. Such a scenario is about the connection, so one recipe is enough: the other
	// recipes play it in memory.
	OwnServers bool
}

// named returns the name that the recipe's errors give to the lock at a path.
func (r Recipe) named(path string) string {
	if r.Beside == "" {
		return path
	}
	return path + " and " + path + r.Beside
}

// Main is leaks.Main for packages whose tests mostly wait: for expiries, for restarts of servers.
// Such packages may run more tests at a time than there are processors. A -parallel on the command
// line takes precedence.
func Main(m *testing.M) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		_ = flag.Set("test.parallel", "8")
	}
	leaks.Main(m)
}

type scenario struct {
	name  string
	run   func(*scene)
	needs needs
}

// needs are what a scenario needs in addition to a server that it may share with others.
type needs int

const (
	exclusive needs = 1 << iota // a recipe that lets only one caller hold at a time
	ownServer                   // a server of its own, to restart
	single                      // a recipe of one lock, because the scenario counts the requests for one directory
	chain                       // a recipe whose waiters each watch a single node ahead
	markers                     // a recipe whose releases leave markers in a long queue
	inMemory                    // a server that a test can give a state that a real server has only after years
)

var suite = slices.Concat(
	holding, waiting, canceling, replies, losing, outages, fencing, transactions, inputs, defaults, rights, refusals, secrets, directories, data, others, surroundings, costs, observing, asking,
)

// Run runs the suite over one recipe in memory, each scenario in a bubble of its own.
func Run(t *testing.T, r Recipe) {
	for _, sc := range suite {
		if sc.fits(r) {
			t.Run(sc.name, func(t *testing.T) {
				t.Parallel()
				venue.InMemory(t, func(t *testing.T, v venue.Venue) { sc.play(t, v, r) })
			})
		}
	}
}

// RunReal runs it on real servers. If no server can be started, it reports that once, for all
// scenarios.
func RunReal(t *testing.T, r Recipe) {
	realzk.Servers(t) // skips the test if there are none
	for _, sc := range suite {
		if sc.fits(r) && sc.needs&inMemory == 0 && (sc.needs&ownServer == 0 || r.OwnServers) {
			t.Run(sc.name, func(t *testing.T) {
				t.Parallel()
				sc.play(t, venue.Real(), r)
			})
		}
	}
}

func (sc scenario) fits(r Recipe) bool {
	return (sc.needs&exclusive == 0 || !r.Shared) && (sc.needs&chain == 0 || r.Nodes == 1) && (sc.needs&single == 0 || r.Beside == "") &&
		(sc.needs&markers == 0 || r.Markers)
}

func (sc scenario) play(t *testing.T, v venue.Venue, r Recipe) {
	s := newScene(t, v, r)
	sc.run(s)
	s.Empty()
}
