package explore

import (
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/zklocks/zklocks/internal/znode"
)

// A kind of world is small, and for one class of bugs: it changes the plan of the seed, and has one
// hand with its own strike. A kind that finds nothing of its own delays all others:
// docs/maintainers/testing.md says how to find that out.
type kind struct {
	name      string
	flavors   []string // flavors of its locks; nil: all
	bend      func(*plan, *rand.Rand)
	strike    func(*nemesis)       // nil: none
	fault     string               // the name of a strike that has happened
	tolerates func(err error) bool // other errors that an acquisition may return; nil: none
	calm      bool                 // no hold is lost unless its node is deleted
	prompt    bool                 // events notify waiters of their turn, and holders of a loss, soon after their connection is restored
}

// kindsOfWorlds alternate from seed to seed.
var kindsOfWorlds = []kind{
	// Many callers of one process share a node or hand it on, and are soon canceled.
	{name: "crowded", flavors: shared, bend: crowded, strike: (*nemesis).pluck, fault: "plucked"},
	// Many such callers without faults, so that nodes that the library has left behind remain.
	{name: "crowded and rash", flavors: shared, bend: rash},
	// Many such callers without faults, except that nodes are deleted.
	{name: "crowded and calm", flavors: shared, bend: calmCrowd, strike: (*nemesis).prune, fault: "delete", calm: true},
	// Few callers of one process share a node or hand it on, and mostly do not wait for a loss:
	// later callers may find that the node is gone.
	{name: "sparse and calm", flavors: shared, bend: sparse, strike: (*nemesis).prune, fault: "delete", calm: true},
	// All faults at once, in a large world.
	{name: "wide"},
	// No faults. This finds a waiter that waits although it is its turn, and a hold that is lost
	// without a reason.
	{name: "quiet", flavors: exclusive, bend: quiet},
	// The events of a waiter's own node, its session and its blockers, in any order.
	{name: "doomed", flavors: exclusive, bend: lonely, strike: (*nemesis).doom, fault: "doom"},
	// A waiter whose turn comes while its connection, or the request that sets its watches, is
	// lost.
	{name: "severed", flavors: append([]string{"semaphore"}, exclusive...), bend: severed, strike: (*nemesis).sever, fault: "severed", prompt: true},
	// Servers that lag behind the previous server.
	{name: "behind", bend: lagging, strike: (*nemesis).outrun, fault: "outrun"},
	// Ready goroutines wait for a processor. This finds a hold that is lost without a reason.
	{name: "busy and calm", bend: busy, strike: (*nemesis).stall, fault: "stalled", calm: true},
	// Connections that move to another server.
	{name: "moved", bend: movable, strike: (*nemesis).rebalance, fault: "rebalanced"},
	// The same without other faults: no hold is lost.
	{name: "moved and calm", bend: func(p *plan, r *rand.Rand) { movable(p, r); calm(p, r) }, strike: (*nemesis).rebalance, fault: "rebalanced", calm: true},
	// Another program fills, empties, deletes and makes the directories.
	{name: "reborn", flavors: reads, bend: reborn, strike: (*nemesis).remake, fault: "remade", tolerates: inUse},
	// The end of the sequence numbers.
	{name: "worn", flavors: exclusive, bend: narrow, strike: (*nemesis).wear, fault: "worn", tolerates: usedUp},
	// Permit counts that change while a waiter receives no event, or a server lags.
	{name: "resized", flavors: []string{"semaphore"}, bend: resizing, strike: (*nemesis).hush, fault: "hush"},
	// Several locks together, whose nodes are deleted one by one.
	{name: "together", bend: several, strike: (*nemesis).several, fault: "doom"},
	// The same without other faults: the caller is notified at once that a node was deleted.
	{name: "together and calm", bend: func(p *plan, r *rand.Rand) { several(p, r); calm(p, r) }, strike: (*nemesis).prune, fault: "delete", calm: true},
	// A single worker, whose directories are deleted and created.
	{name: "together and alone", flavors: []string{"rwlock", "reentrant", "semaphore", "reentrant, observed"}, bend: alone, strike: (*nemesis).wear, fault: "worn", tolerates: usedUp},
	// Permits whose nodes are deleted one by one. Jobs are long and short, so that permits are not
	// released in the order of their grants, and most waiters are far from their turn.
	{name: "mingled", flavors: []string{"semaphore"}, bend: mingled, strike: (*nemesis).pluck, fault: "plucked"},
	{name: "mingled and calm", flavors: []string{"semaphore"}, bend: mingledCalmly, strike: (*nemesis).prune, fault: "delete", calm: true, prompt: true},
	// Leaders shown by servers that lag.
	{name: "elected", flavors: []string{"leader"}, bend: lagging, strike: (*nemesis).outrun, fault: "outrun"},
	// Members that are asked to release, also while they wait or downgrade.
	{name: "asked", bend: narrow, strike: (*nemesis).ask, fault: "ask"},
	// The same without other faults: a holder is notified of each request.
	{name: "asked and calm", flavors: lockers, bend: askedCalmly, strike: (*nemesis).demand, fault: "ask", calm: true},
	// Leaders that proclaim, fail and are asked to release, while their requests are lost.
	{name: "terms", flavors: []string{"leader"}, bend: terms, strike: (*nemesis).usurp, fault: "usurped"},
	// The same without faults, except that nodes are deleted: everybody is notified at once.
	{name: "terms and calm", flavors: []string{"leader"}, bend: calmTerms, strike: (*nemesis).hint, fault: "ask", calm: true},
	// Views without a leader, next to children of other programs that are created and deleted.
	{name: "vacant", flavors: []string{"leader"}, bend: vacant, strike: (*nemesis).strew, fault: "strewn", calm: true},
	// Locks next to children of other programs that are created and deleted, without faults.
	{name: "strewn", flavors: append([]string{"semaphore"}, exclusive...), bend: strewn, strike: (*nemesis).scatter, fault: "strewn"},
	// Processes that die, with and without a session file.
	{name: "crashed", bend: crashing, strike: (*nemesis).crash, fault: "crash"},
	// Rights that are revoked for a while, see forbid.
	{name: "forbidden", flavors: append([]string{"semaphore"}, exclusive...), bend: forbidden, strike: (*nemesis).forbid, fault: "forbidden", calm: true},
}

var exclusive = []string{
	"rwlock", "rwlock with handoff", "reentrant", "rwlock with handoff, observed",
	"reentrant, observed", "leader", "rwlock, kept", "reentrant, kept", "rwlock with handoff, kept, observed",
}

// lockers are all flavors except the elections, because a leader writes into its own node.
var lockers = []string{
	"rwlock", "reentrant", "semaphore", "rwlock with handoff", "reentrant, observed",
	"rwlock with handoff, observed", "rwlock, kept", "reentrant, kept", "rwlock with handoff, kept, observed",
}

var shared = []string{
	"rwlock with handoff", "rwlock", "rwlock with handoff, observed", "rwlock, kept", "rwlock with handoff, kept, observed",
}

var reads = []string{"rwlock", "rwlock, kept", "rwlock with handoff", "reentrant"}

// reborn: few workers of several processes, so that the directories are often empty.
func reborn(p *plan, r *rand.Rand) {
	narrow(p, r)
	p.hosts, p.workers, p.hands, p.seldom = 2+r.IntN(2), 1+r.IntN(2), 0, math.MaxInt
	p.rest = between(r, 5*time.Millisecond, 100*time.Millisecond)
	p.stay = between(r, time.Millisecond, 50*time.Millisecond)
	p.idle = between(r, 20*time.Millisecond, 200*time.Millisecond)
}

// crowded is a narrow world of two processes with many goroutines each.
func crowded(p *plan, r *rand.Rand) {
	narrow(p, r)
	p.hosts, p.workers, p.hasty = 2, 5+r.IntN(5), true
	p.stay = between(r, time.Millisecond, 20*time.Millisecond)
	p.idle = between(r, time.Millisecond, 30*time.Millisecond)
	if r.IntN(2) == 0 {
		p.grain, p.latency = time.Millisecond, time.Millisecond
	}
}

// rash: every second caller is canceled, at the instant at which it may be granted.
func rash(p *plan, r *rand.Rand) {
	crowded(p, r)
	p.hands, p.rashness = 0, 2
	p.grain, p.latency = time.Millisecond, time.Millisecond
	p.stay, p.idle = 3*time.Millisecond, 2*time.Millisecond
}

// narrow is a small world, in which two events of one lock often coincide.
func narrow(p *plan, r *rand.Rand) {
	p.hosts, p.workers, p.paths = 2+r.IntN(3), 1+r.IntN(3), 1
	p.session = []time.Duration{2 * time.Second, 4 * time.Second}[r.IntN(2)]
	p.length = time.Duration(15+r.IntN(15)) * time.Second
	p.hands, p.rest = r.IntN(2), between(r, 50*time.Millisecond, time.Second)
	p.idle = between(r, 5*time.Millisecond, 50*time.Millisecond)
	p.stay = between(r, 10*time.Millisecond, 200*time.Millisecond)
	p.latency = []time.Duration{100 * time.Microsecond, time.Millisecond}[r.IntN(2)]
	p.reap = between(r, time.Second, 10*time.Second)
	p.resizes = false
}

// quiet is a narrow world without faults, in which each caller waits until it holds.
func quiet(p *plan, r *rand.Rand) {
	narrow(p, r)
	p.hands, p.quiet, p.seldom = 0, true, math.MaxInt // the history of one lock does not show how long the callers ahead hold several locks
	p.workers = 1 + r.IntN(5)
	p.stay = between(r, 10*time.Millisecond, 3*time.Second)
}

func lagging(p *plan, r *rand.Rand) {
	narrow(p, r)
	p.members, p.hands = 3, 0
}

func movable(p *plan, r *rand.Rand) {
	narrow(p, r)
	p.members = 3 + 2*r.IntN(2)
}

// crashing is a narrow world without other faults: a deposed leader that has not detected that may
// report a live session as over, and then the reaper has freed nothing.
func crashing(p *plan, r *rand.Rand) {
	narrow(p, r)
	p.hands = 0
}

// lonely is a narrow world in which a waiter rarely follows a waiter of its own host.
func lonely(p *plan, r *rand.Rand) {
	narrow(p, r)
	p.hosts, p.workers = 3+r.IntN(2), 1+r.IntN(4)/3
}

// severed is a narrow world in which waiters wait so long that their next recheck is far away.
func severed(p *plan, r *rand.Rand) {
	narrow(p, r)
	p.hands, p.seldom, p.session, p.asks, p.proofs = 0, 3, 4*time.Second, 1, math.MaxInt
	p.resizes, p.first = r.IntN(2) == 0, r.IntN(2*len(p.kind.flavors))
	p.stay, p.least, p.length = 12*time.Second, time.Second, 4*time.Minute
	p.rest = between(r, 4*time.Second, 12*time.Second)
}

// several is a narrow world of several locks, which are mostly acquired together.
func several(p *plan, r *rand.Rand) {
	narrow(p, r)
	p.paths, p.seldom, p.hands = 2+r.IntN(3), 1, r.IntN(3)
	p.hasty, p.resizes = r.IntN(2) == 0, r.IntN(2) == 0
}

// calmCrowd is a calm crowded world with longer stays. Callers hold by one node, one after another
// by handoff or together as readers, and are notified while they hold if that node is deleted.
func calmCrowd(p *plan, r *rand.Rand) {
	crowded(p, r)
	calm(p, r)
	p.stay = between(r, 20*time.Millisecond, 200*time.Millisecond)
}

// sparse: holds are long, so that a node is deleted long before the next caller comes.
func sparse(p *plan, r *rand.Rand) {
	calmCrowd(p, r)
	p.hosts, p.workers, p.hasty = 2, 2+r.IntN(2), false
	p.stay = between(r, 100*time.Millisecond, 500*time.Millisecond)
	p.least = p.stay / 4
	p.idle = between(r, 20*time.Millisecond, 600*time.Millisecond)
	p.asks, p.proofs = 8, 10
	if r.IntN(2) == 0 {
		p.latency = 50 * time.Millisecond // a holder may release before its watch is set
	}
}

// terms is a narrow world of leaders.
func terms(p *plan, r *rand.Rand) {
	narrow(p, r)
	p.members, p.reigns = 3, 1+r.IntN(2)
}

// calmTerms: what a leader proclaims mostly remains long enough to be seen.
func calmTerms(p *plan, r *rand.Rand) {
	terms(p, r)
	calm(p, r)
	p.rest = between(r, 100*time.Millisecond, time.Second)
	p.stay, p.newsy = between(r, 100*time.Millisecond, time.Second), true
}

// vacant: candidates are rare, and observers frequent.
func vacant(p *plan, r *rand.Rand) {
	calmTerms(p, r)
	p.hosts, p.workers, p.comes = 2, 1, r.IntN(2) == 0
	p.idle, p.reap, p.length = between(r, time.Second, 20*time.Second), time.Second, time.Minute
}

// strewn is a quiet world of permits and exclusive locks.
func strewn(p *plan, r *rand.Rand) {
	quiet(p, r)
	p.rest = between(r, 10*time.Millisecond, 500*time.Millisecond)
}

// forbidden is a narrow world in which half of all holders verify. In one of three such worlds,
// requests and replies are lost, too.
func forbidden(p *plan, r *rand.Rand) {
	narrow(p, r)
	p.hands, p.proofs, p.seldom, p.reigns = 0, 2, math.MaxInt, 2
	p.rest = between(r, 100*time.Millisecond, 2*time.Second)
	p.resizes, p.often = true, true
	if r.IntN(2) == 0 {
		p.paths, p.seldom = 2+r.IntN(3), 1+r.IntN(2)
	}
	if r.IntN(3) == 0 {
		p.lossy, p.kind.calm = true, false
	}
	if r.IntN(2) == 0 { // waiters wait until a recheck has shown them the missing right
		p.stay, p.least, p.length = 15*time.Second, 6*time.Second, 2*time.Minute
	}
}

// busy is a calm world in which everything that a host does takes time.
func busy(p *plan, r *rand.Rand) {
	narrow(p, r)
	calm(p, r)
	p.workers, p.proofs, p.resizes = 1, math.MaxInt, false
	p.latency = p.wait()
	p.rest = p.session / 20
	p.stay, p.least, p.length = 20*p.session, p.session, 600*time.Second
}

func calm(p *plan, r *rand.Rand) {
	p.hands, p.proofs = 0, 2
	p.rest = between(r, 20*time.Millisecond, 200*time.Millisecond)
}

func alone(p *plan, r *rand.Rand) {
	quiet(p, r)
	p.hosts, p.workers, p.paths, p.seldom = 1, 1, 2+r.IntN(3), 2
	p.idle, p.reap = time.Second, time.Second
	p.stay = between(r, 10*time.Millisecond, 200*time.Millisecond)
}

func resizing(p *plan, r *rand.Rand) {
	narrow(p, r)
	p.resizes, p.often, p.members = true, true, 3
}

// mingled is a narrow world in which many callers wait for few permits, and one in four holds
// outlasts several sessions.
func mingled(p *plan, r *rand.Rand) {
	narrow(p, r)
	p.hosts, p.workers, p.long, p.seldom = 3, 5+r.IntN(4), 4, math.MaxInt
	p.session, p.length, p.resizes = 2*time.Second, time.Minute, r.IntN(2) == 0
	p.stay = between(r, 5*time.Millisecond, 50*time.Millisecond)
}

func mingledCalmly(p *plan, r *rand.Rand) {
	mingled(p, r)
	p.hands, p.rest = 0, between(r, 100*time.Millisecond, time.Second)
}

// inUse: a lock value whose first use finds data of another program fails.
func inUse(err error) bool { return strings.Contains(err.Error(), "is in use by another program") }

func usedUp(err error) bool { return errors.Is(err, znode.ErrSequence) }
