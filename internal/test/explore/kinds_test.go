package explore

import (
	"errors"
	"math"
	"math/rand/v2"
	"time"

	"github.com/zklocks/zklocks/internal/znode"
)

// A kind of world is small, and after one class of bug: it bends the plan that the seed has drawn,
// and gives one hand of its own a strike of its own.
type kind struct {
	name      string
	flavors   []string // of its locks; nil: all
	bend      func(*plan, *rand.Rand)
	strike    func(*nemesis)       // nil: none
	fault     string               // what the strike says when it has struck
	tolerates func(err error) bool // what else an acquisition may return; nil: nothing
	furnish   func(*world)         // before the workers begin; nil: nothing
	calm      bool                 // no hold is lost but where its node is deleted
	prompt    bool                 // events tell waiters of their turn, and holders of a loss, soon after their connection is whole
}

// kindsOfWorlds take turns, from seed to seed.
var kindsOfWorlds = []kind{
	// Many of one process that share a place or hand it on, and give up in a hurry.
	{name: "crowded", flavors: shared, bend: crowded, strike: (*nemesis).pluck, fault: "plucked"},
	// The same where nothing breaks, so that what they leave behind stays.
	{name: "crowded and rash", flavors: shared, bend: rash},
	// The same where nothing breaks but that their node is deleted.
	{name: "crowded and calm", flavors: shared, bend: calmCrowd, strike: (*nemesis).prune, fault: "delete", calm: true},
	// Few of one process that share a place or hand it on, and mostly do not listen: a node that is
	// gone is noticed by those that come next, or not.
	{name: "sparse and calm", flavors: shared, bend: sparse, strike: (*nemesis).prune, fault: "delete", calm: true},
	// All faults at once, on a large world.
	{name: "wide"},
	// Nothing breaks: a waiter that sleeps although it is its turn, a hold that is lost for no
	// reason.
	{name: "quiet", flavors: exclusive, bend: quiet},
	{name: "quiet permits", flavors: []string{"semaphore"}, bend: quiet},
	// What a waiter knows of its own node, of its session and of those ahead, in the wrong order.
	{name: "doomed", flavors: exclusive, bend: lonely, strike: (*nemesis).doom, fault: "doom"},
	// The same of one that comes back from a cut.
	{
		name: "doomed and cut", flavors: []string{"rwlock"}, bend: lonely,
		strike: func(n *nemesis) { n.doomBy(n.cutOff) }, fault: "doom",
	},
	// A waiter whose turn comes while its connection is lost, or the request that sets its watches.
	{name: "severed", flavors: append([]string{"semaphore"}, exclusive...), bend: severed, strike: (*nemesis).sever, fault: "severed", prompt: true},
	// A claim of several nodes of which the answer is lost, and then one of the nodes.
	{name: "halved", flavors: []string{"semaphore"}, bend: narrow, strike: (*nemesis).halve, fault: "halved claim"},
	// Servers that are behind what the last one has done.
	{name: "behind", bend: lagging, strike: (*nemesis).outrun, fault: "outrun"},
	// A connection that lives on a server that the others have given up.
	{name: "deaf", bend: isolated, strike: (*nemesis).deafen, fault: "deaf"},
	// The same, where the answer to a heartbeat is late: packets sent meanwhile prove nothing.
	{name: "withheld", bend: isolated, strike: (*nemesis).withhold, fault: "withheld"},
	// Goroutines that are ready wait for a processor: a hold lost for no reason.
	{name: "busy and calm", bend: busy, strike: (*nemesis).stall, fault: "stalled", calm: true},
	// A holder that is cut off, and counts from an instant that is too late.
	{name: "cut off", bend: distant, strike: (*nemesis).part, fault: "part"},
	// A holder that knows nothing but the answer to the handshake of its session.
	{name: "newborn", flavors: exclusive, bend: young, strike: (*nemesis).bear, fault: "born"},
	// A holder that comes to members which grant other session timeouts than the last one.
	{name: "granted", flavors: exclusive, bend: granting, strike: (*nemesis).regrant, fault: "moved"},
	// The same where a connection that is cut is replaced at once: a hold lost for no reason.
	{name: "granted and calm", flavors: exclusive, bend: grantingCalmly, strike: (*nemesis).regrantAtOnce, fault: "cut", calm: true},
	// A holder that comes back to a leader that the others have given up.
	{name: "deposed", flavors: exclusive, bend: deposable, strike: (*nemesis).depose, fault: "deposed"},
	// Directories that go with all that is in them, and come again with the same numbers.
	{name: "razed", flavors: exclusive, bend: fresh, strike: (*nemesis).raze, fault: "razed"},
	// The end of the sequence numbers.
	{name: "worn", flavors: exclusive, bend: narrow, strike: (*nemesis).wear, fault: "worn", tolerates: usedUp},
	// Children of other programs in the directories.
	{name: "littered", flavors: exclusive, bend: narrow, furnish: litter},
	// Recipes that see different parts of one directory.
	{name: "mixed", flavors: []string{"kazoo names, a mutex among them"}, bend: narrow},
	// Numbers of permits that change while a waiter hears nothing, or a server is behind.
	{name: "resized", flavors: []string{"semaphore"}, bend: resizing, strike: (*nemesis).hush, fault: "hush"},
	// Several locks at once, whose nodes go one by one.
	{name: "together", bend: several, strike: (*nemesis).several, fault: "doom"},
	// The same where nothing else breaks: whose node is deleted hears of it at once.
	{name: "together and calm", bend: func(p *plan, r *rand.Rand) { several(p, r); calm(p, r) }, strike: (*nemesis).prune, fault: "delete", calm: true},
	// One worker alone, whose directories come and go.
	{name: "together and alone", flavors: []string{"rwlock", "reentrant", "semaphore", "reentrant, observed"}, bend: alone, strike: (*nemesis).wear, fault: "worn", tolerates: usedUp},
	// A turn that comes at one lock, and ends before it comes at the other.
	{name: "together and shrunk", flavors: []string{"semaphore", "rwlock"}, bend: shrinking, strike: (*nemesis).shrink, fault: "shrunk"},
	// Permits that are taken away one by one.
	{name: "plucked", flavors: []string{"semaphore"}, bend: narrow, strike: (*nemesis).pluck, fault: "plucked"},
	// Long and short jobs, so that permits are released in another order than they were granted;
	// most waiters are far from their turn.
	{name: "mingled", flavors: []string{"semaphore"}, bend: mingled, strike: (*nemesis).pluck, fault: "plucked"},
	{name: "mingled and calm", flavors: []string{"semaphore"}, bend: mingledCalmly, strike: (*nemesis).prune, fault: "delete", calm: true, prompt: true},
	// Leaders that are shown: by servers that are behind, and by one that the others have given up.
	{name: "elected", flavors: []string{"leader"}, bend: lagging, strike: (*nemesis).outrun, fault: "outrun"},
	{name: "elected and deaf", flavors: []string{"leader"}, bend: isolated, strike: (*nemesis).deafen, fault: "deaf"},
	// Members that are asked to release, also while they wait or are downgraded.
	{name: "asked", bend: narrow, strike: (*nemesis).ask, fault: "ask"},
	// The same where nothing else breaks: a holder that listens hears of each request, and of no
	// other write.
	{name: "asked and calm", flavors: lockers, bend: askedCalmly, strike: (*nemesis).scribble, fault: "ask", calm: true},
	// Leaders that proclaim, fail and are asked to release, while their requests are lost.
	{name: "terms", flavors: []string{"leader"}, bend: terms, strike: (*nemesis).usurp, fault: "usurped"},
	// The same where nothing breaks but that nodes are deleted: all news are heard at once.
	{name: "terms and calm", flavors: []string{"leader"}, bend: calmTerms, strike: (*nemesis).hint, fault: "ask", calm: true},
	// Views without a leader, beside children of other programs that come and go.
	{name: "vacant", flavors: []string{"leader"}, bend: vacant, strike: (*nemesis).strew, fault: "strewn", calm: true},
	// Locks beside children of other programs that come and go, where nothing breaks.
	{name: "strewn", flavors: append([]string{"semaphore"}, exclusive...), bend: strewn, strike: (*nemesis).scatter, fault: "strewn"},
	// Rights that are taken away for a while, see forbid.
	{name: "forbidden", flavors: append([]string{"semaphore"}, exclusive...), bend: forbidden, strike: (*nemesis).forbid, fault: "forbidden", calm: true},
}

var exclusive = []string{
	"rwlock", "rwlock with handoff", "reentrant", "rwlock with handoff, observed",
	"reentrant, observed", "leader",
}

// lockers have no terms of a leader, in whose node the leader writes, too.
var lockers = []string{
	"rwlock", "reentrant", "semaphore", "rwlock with handoff", "reentrant, observed",
	"rwlock with handoff, observed",
}

var shared = []string{"rwlock with handoff", "rwlock", "rwlock with handoff, observed"}

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

// rash: every second caller gives up, at the instant at which it may be granted.
func rash(p *plan, r *rand.Rand) {
	crowded(p, r)
	p.hands, p.rashness = 0, 2
	p.grain, p.latency = time.Millisecond, time.Millisecond
	p.stay, p.idle = 3*time.Millisecond, 2*time.Millisecond
}

// narrow is a world of few, in which two events of one lock meet often.
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

// quiet is a narrow world in which nothing breaks and each caller waits until it holds.
func quiet(p *plan, r *rand.Rand) {
	narrow(p, r)
	p.hands, p.quiet, p.seldom = 0, true, math.MaxInt // how long those ahead hold several locks is not told by one
	p.workers = 1 + r.IntN(5)
	p.stay = between(r, 10*time.Millisecond, 3*time.Second)
}

func lagging(p *plan, r *rand.Rand) {
	narrow(p, r)
	p.members, p.hands = 3, 0
}

func isolated(p *plan, r *rand.Rand) {
	narrow(p, r)
	p.members, p.hands, p.session, p.long = 3, 0, 2*time.Second, 1
	p.workers, p.length = 1, 150*time.Second
	p.hosts = 3
	if r.IntN(2) == 0 {
		p.far = between(r, p.session/40, p.session/12)
	}
}

// distant is a world in which half of the hosts are far from the servers, which end a session
// nearly as soon as they may.
func distant(p *plan, r *rand.Rand) {
	narrow(p, r)
	p.session, p.length, p.long, p.hands, p.workers = 2*time.Second, 150*time.Second, 1, 0, 1
	p.far = between(r, p.session/40, p.session/12)
	p.tick = p.session / 20
}

// young is a distant world of two hosts, each of which always asks for the lock.
func young(p *plan, r *rand.Rand) {
	distant(p, r)
	p.members, p.hosts, p.workers, p.idle = 3, 2, 3, 5*time.Millisecond
	p.least = p.session
	p.far = between(r, p.session/14, p.session/10)
}

// granting is a world of three members that grant session timeouts by limits of their own.
func granting(p *plan, r *rand.Rand) {
	narrow(p, r)
	p.members, p.hosts, p.workers, p.restarts = 3, 3, 1, true
	p.session, p.length, p.long = 8*time.Second, 4*time.Minute, 1
	p.tick = p.session / 20
	if r.IntN(2) == 0 {
		p.far = between(r, p.session/400, p.session/100)
	}
}

// grantingCalmly is the same near the servers, where holds are long and nothing breaks for long.
func grantingCalmly(p *plan, r *rand.Rand) {
	granting(p, r)
	p.hands, p.far, p.length, p.restarts = 0, 0, 30*time.Second, false
	p.rest = time.Second
}

// deposable is a narrow world in which others are elected long before a session ends.
func deposable(p *plan, r *rand.Rand) {
	narrow(p, r)
	p.members, p.hosts, p.workers, p.hands = 3, 3, 1, 0
	p.session, p.length, p.long = 2*time.Second, 150*time.Second, 1
	p.tick, p.sync = p.session/20, 4
}

// lonely is a narrow world in which none follows another of its own host, most of the time.
func lonely(p *plan, r *rand.Rand) {
	narrow(p, r)
	p.hosts, p.workers = 3+r.IntN(2), 1+r.IntN(4)/3
}

// severed is a narrow world in which waiters watch for so long that they do not look by themselves
// for a while.
func severed(p *plan, r *rand.Rand) {
	narrow(p, r)
	p.hands, p.seldom, p.session, p.asks, p.proofs = 0, 3, 4*time.Second, 1, math.MaxInt
	p.resizes, p.first = r.IntN(2) == 0, r.IntN(2*len(p.kind.flavors))
	p.stay, p.least, p.length = 12*time.Second, time.Second, 4*time.Minute
	p.rest = between(r, 4*time.Second, 12*time.Second)
}

// fresh is a narrow world in which holds outlast their directories, so that numbers come again.
func fresh(p *plan, r *rand.Rand) {
	narrow(p, r)
	p.hosts, p.workers, p.hands = 2, 2+r.IntN(2), 0
	p.stay, p.rest = time.Second, between(r, 100*time.Millisecond, 500*time.Millisecond)
}

// several is a narrow world of several locks, most of which are taken together.
func several(p *plan, r *rand.Rand) {
	narrow(p, r)
	p.paths, p.seldom, p.hands = 2+r.IntN(3), 1, r.IntN(3)
	p.hasty, p.resizes = r.IntN(2) == 0, r.IntN(2) == 0
}

// calmCrowd: a row of writers, or of readers, lasts for long enough to hear what becomes of its
// node.
func calmCrowd(p *plan, r *rand.Rand) {
	crowded(p, r)
	calm(p, r)
	p.stay = between(r, 20*time.Millisecond, 200*time.Millisecond)
}

// sparse: holds are long, so that a node is deleted long before the next one comes.
func sparse(p *plan, r *rand.Rand) {
	calmCrowd(p, r)
	p.hosts, p.workers, p.hasty = 2, 2+r.IntN(2), false
	p.stay = between(r, 100*time.Millisecond, 500*time.Millisecond)
	p.least = p.stay / 4
	p.idle = between(r, 20*time.Millisecond, 600*time.Millisecond)
	p.asks, p.proofs = 8, 10
	if r.IntN(2) == 0 {
		p.latency = 50 * time.Millisecond // a holder may release before it is told that its node is watched
	}
}

// terms is a narrow world of leaders.
func terms(p *plan, r *rand.Rand) {
	narrow(p, r)
	p.members, p.reigns = 3, 1+r.IntN(2)
}

// calmTerms: what a leader proclaims mostly stays for long enough to be seen.
func calmTerms(p *plan, r *rand.Rand) {
	terms(p, r)
	calm(p, r)
	p.rest = between(r, 100*time.Millisecond, time.Second)
	p.stay, p.newsy = between(r, 100*time.Millisecond, time.Second), true
}

// vacant: candidates come seldom, and observers often.
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

// forbidden is a narrow world in which half of all holders ask for proofs. In one of three requests
// and replies are lost, too.
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
	if r.IntN(2) == 0 { // waiters watch for so long that they have looked whether they may
		p.stay, p.least, p.length = 15*time.Second, 6*time.Second, 2*time.Minute
	}
}

// busy is a calm world in which all that a host does takes its time.
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

func shrinking(p *plan, r *rand.Rand) {
	narrow(p, r)
	p.first, p.paths, p.seldom, p.hands, p.resizes = 0, 2, 2, 0, true
	p.hosts, p.workers = 3, 2+r.IntN(2)
}

func resizing(p *plan, r *rand.Rand) {
	narrow(p, r)
	p.resizes, p.often, p.members = true, true, 3
}

// mingled is a narrow world in which many wait for few permits, and one in four holds outlasts
// several sessions.
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

func usedUp(err error) bool { return errors.Is(err, znode.ErrSequence) }
