package explore

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/memnet"
	"github.com/zklocks/zklocks/internal/memzk"
	"github.com/zklocks/zklocks/internal/slot"
	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/history"
	"github.com/zklocks/zklocks/internal/zkclient"
)

// A plan has the parameters that a seed determines.
type plan struct {
	seed     uint64
	members  int
	hosts    int
	workers  int // per host
	paths    int
	first    int // the flavor of the first path; the others follow in turn
	session  time.Duration
	length   time.Duration // of the workload
	rest     time.Duration // mean time between two faults of one nemesis
	hands    int           // nemeses at the same time
	idle     time.Duration // mean time between two cycles of a worker
	resizes  bool
	latency  time.Duration // the largest latency
	tick     time.Duration // of the servers; a session timeout is at least two
	phase    time.Duration // of the tick, at the start
	kind     kind
	stay     time.Duration // most holds last at most this long
	least    time.Duration // and at least this long
	reap     time.Duration // how often the servers delete empty directories
	quiet    bool          // no faults, and each caller waits until it holds
	often    bool          // resize often
	lossy    bool          // packets are lost while a right is missing
	hasty    bool          // callers that are canceled are canceled soon
	rashness int           // one in so many callers is canceled after a while
	seldom   int           // one in so many holds is on several locks
	long     int           // one in so many holds lasts one or several session timeouts
	reigns   int           // one in so many candidates is a Run of several terms; 1: they are asked to release, too
	comes    bool          // observers begin and end
	newsy    bool          // only nodes are deleted, so every notification arrives in a moment
	proofs   int           // one in so many holds is verified
	asks     int           // one in so many holders ever calls methods of its hold
	patience time.Duration // longer than the rest of any fault when the workers stop
	real     bool          // real servers and processes: any step may take long, and the nemesis is in another process
	grain    time.Duration // releases, cancellations and packets happen at multiples of it, so at the same instants; 0: at any instant
}

func draw(seed uint64) plan {
	r := rand.New(rand.NewPCG(seed, 1))
	p := plan{
		seed:    seed,
		members: []int{1, 3, 3}[r.IntN(3)],
		hosts:   2 + r.IntN(4),
		workers: 2 + r.IntN(7),
		paths:   1 + r.IntN(len(flavors)),
		first:   r.IntN(len(flavors)),
		session: []time.Duration{2 * time.Second, 4 * time.Second, 8 * time.Second}[r.IntN(3)],
		length:  time.Duration(60+r.IntN(120)) * time.Second,
		rest:    between(r, 10*time.Millisecond, time.Second),
		hands:   2 + r.IntN(5),
		idle:    between(r, time.Millisecond, 300*time.Millisecond),
		resizes: r.IntN(2) == 0,
		latency: []time.Duration{100 * time.Microsecond, time.Millisecond, 10 * time.Millisecond}[r.IntN(3)],
	}
	p.tick = p.session / []time.Duration{2, 4}[r.IntN(2)]
	p.long, p.seldom, p.proofs, p.asks, p.rashness, p.reigns = 40, 4, 100, 2, 5, 3
	p.least, p.stay, p.reap, p.patience = 10*time.Microsecond, 10*time.Millisecond, time.Minute, 10*time.Minute
	p.kind = kindsOfWorlds[seed%uint64(len(kindsOfWorlds))]
	if p.kind.bend != nil {
		p.tick = 0
		p.kind.bend(&p, r)
		p.tick = cmp.Or(p.tick, p.session/2)
	}
	if p.hands == 0 && p.kind.strike == nil {
		p.kind.calm, p.kind.prompt = true, true // there are no faults
	}
	p.phase = between(r, time.Millisecond, p.tick)
	return p
}

func (p plan) String() string {
	return fmt.Sprintf("seed %d, %s: %d members, %d hosts x %d workers, %d paths from %q on, T %v of ticks of %v, %v, idle for %v, %d hands that rest %v, latency up to %v",
		p.seed, p.kind.name, p.members, p.hosts, p.workers, p.paths, p.flavor(0).name, p.session, p.tick, p.length, p.idle.Round(time.Millisecond), p.hands, p.rest.Round(time.Millisecond), p.latency)
}

// flavorAt returns the flavor of a path.
func (w *world) flavorAt(path string) flavor {
	return w.flavor(slices.Index(w.paths, path))
}

// flavor returns the flavor of the i-th path.
func (p plan) flavor(i int) flavor {
	if names := p.kind.flavors; names != nil {
		name := names[(p.first+i)%len(names)]
		return flavors[slices.IndexFunc(flavors, func(f flavor) bool { return f.name == name })]
	}
	return flavors[(p.first+i)%len(flavors)]
}

// A world is the servers, hosts and locks of a seed, in one bubble.
type world struct {
	plan
	*ledger
	network  *memnet.Network // nil on real servers
	ensemble *memzk.Ensemble // nil on real servers
	cluster  cluster
	hosts    []*host
	paths    []string
	store    string // a node that is written under the locks
	admin    *zklocks.Conn
	doors    map[int]func() // stop listening, by member; absent while the member is dead
	limits   limits
	balance  balance
	viewers  []*viewer
	end      time.Time    // the time from which on the workers begin no further cycle
	whole    atomic.Int64 // in a prompt world: since when no connection is broken, or the maximum while one is

	told      sync.Mutex // guards the following fields
	contended int        // holds that had to wait for another
	events    []event    // actions of the nemesis
	faults    map[string]int
	stuck     string // what the remaining goroutines waited for at the end
}

// An event is an action of the nemesis.
type event struct {
	at   int64
	text string
}

// A host is a process of the world, with a connection that may be replaced.
type host struct {
	world *world
	name  string
	net   *machine
	mu    sync.Mutex
	now   *client
}

// A client is a connection, with a value of each lock.
type client struct {
	conn     *zklocks.Conn
	locks    []*lock
	mu       sync.Mutex
	closed   bool
	replaced chan struct{} // closed when the host has another client
}

func (c *client) closing() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

func (h *host) client() *client {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.now
}

// connect gives the host its first or next connection.
func (h *host) connect() {
	conn, err := h.net.connect(h.world.session)
	if err != nil {
		h.world.complain("%s: connect: %v", h.name, err)
		return
	}
	c := &client{conn: conn, replaced: make(chan struct{})}
	for i, path := range h.world.paths {
		c.locks = append(c.locks, h.world.flavor(i).open(h.world, c.conn, path))
	}
	h.mu.Lock()
	old := h.now
	h.now = c
	h.mu.Unlock()
	if old != nil {
		close(old.replaced)
	}
}

// result is the result of a seed.
type result struct {
	plan    plan
	tally   map[string]int
	faults  map[string]int
	virtual time.Duration
	report  string // empty: no violation
	record  []history.Hold
	events  []event
}

// newWorld returns a world without servers and hosts. now reads the time.
func newWorld(p plan, paths []string, now func() int64) *world {
	w := &world{
		plan: p, ledger: newLedger(&clock{read: now}), paths: paths, end: time.Now().Add(p.length), faults: make(map[string]int),
		limits: limits{turn: make(chan struct{}, 1), all: make(map[string][]history.Limit), open: make(map[string][]unheard)},
	}
	w.ledger.lone, w.ledger.calm = p.hosts*p.workers == 1, p.kind.calm
	for _, path := range paths {
		w.limits.all[path] = []history.Limit{{Path: path, Permits: firstPermits}}
	}
	return w
}

// play runs a seed. It is called in a bubble.
func play(t *testing.T, p plan) *result {
	began := time.Now()
	var paths []string
	for i := range p.paths {
		paths = append(paths, fmt.Sprintf("/%d", i))
	}
	w := newWorld(p, paths, func() int64 { return int64(time.Since(began)) })
	w.cluster = simulated{w}
	w.servers()
	r := rand.New(rand.NewPCG(p.seed, 2))
	administration := &host{world: w, name: "admin", net: w.machine("admin", 0)}
	admin, err := administration.net.connect(10 * p.session)
	if err != nil {
		t.Fatal(err)
	}
	w.admin, w.store = admin, "/store"
	defer administration.net.packets.Close()
	if _, err := admin.Client().Create(w.store, nil, zk.FlagPersistent, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
	for i := range p.hosts {
		h := &host{world: w, name: fmt.Sprintf("h%d", i)}
		latency := between(r, time.Microsecond, p.latency)
		if p.grain > 0 {
			latency = p.latency
		}
		w.news = max(w.news, time.Millisecond+2*latency)
		h.net = w.machine(h.name, latency)
		h.connect()
		w.hosts = append(w.hosts, h)
	}
	tally := w.work()
	w.settle()
	virtual := time.Since(began)
	w.close()
	return &result{
		plan: p, tally: tally, faults: w.faults, virtual: virtual,
		report: w.judge(w.rec.Holds()), record: w.rec.Holds(), events: w.events,
	}
}

// work runs the workers and the nemesis until the end.
func (w *world) work() map[string]int {
	var tallies []map[string]int
	var working, raging, viewing sync.WaitGroup
	views, blind := context.WithCancel(context.Background())
	defer viewing.Wait()
	defer blind()
	for i, h := range w.hosts {
		for j := range w.workers {
			k := newWorker(h, j, rand.New(rand.NewPCG(w.seed, uint64(100+100*i+j))))
			tallies = append(tallies, k.tally)
			working.Go(k.run)
		}
	}
	for _, h := range w.hosts {
		for i, l := range h.client().locks {
			if l.election != nil {
				v := &viewer{host: h, path: i}
				w.viewers = append(w.viewers, v)
				viewing.Go(func() { v.run(views) })
				working.Go(func() { h.ask(i) })
			}
		}
	}
	if w.kind.strike != nil {
		n := &nemesis{world: w, random: rand.New(rand.NewPCG(w.seed, 9)), strike: w.kind.strike}
		raging.Go(n.rage)
	}
	waits, over := context.WithCancel(views)
	defer over()
	if w.kind.name == "forbidden" && !w.lossy || w.kind.prompt {
		viewing.Go(func() { w.starving(waits) })
	}
	for i := range w.hands {
		n := &nemesis{world: w, random: rand.New(rand.NewPCG(w.seed, uint64(10+i))), members: i == 0}
		raging.Go(n.rage)
	}
	raging.Wait()
	w.heal()
	stuck := time.AfterFunc(time.Until(w.end.Add(w.patience-time.Second)), w.remember)
	hangs := time.AfterFunc(time.Until(w.end.Add(time.Hour)), func() { panic("a worker waits for an hour, see its goroutine") })
	working.Wait()
	hangs.Stop()
	over()
	stuck.Stop()
	for i, l := range w.hosts[0].client().locks {
		if l.election != nil {
			w.lastWords(i)
		}
	}
	tally := sum(tallies...)
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, all := range w.named {
		tally["named"] += len(all)
	}
	for _, all := range w.shown {
		tally["shown"] += len(all)
	}
	return tally
}

// remember records what the library's remaining goroutines wait for at the end.
func (w *world) remember() {
	var inside []string
	for _, stack := range test.Stacks() {
		if strings.Contains(stack, "/zklocks/zklocks/internal/zkclient.") || strings.Contains(stack, "/zklocks/zklocks/internal/queue.") {
			inside = append(inside, stack)
		}
	}
	w.told.Lock()
	defer w.told.Unlock()
	w.stuck = strings.Join(inside, "\n\n")
}

// settle waits for background deletions, and searches for nodes that remain. The sessions live, so
// no server deletes these.
func (w *world) settle() {
	for deadline := time.Now().Add(w.patience); ; time.Sleep(w.session / 4) { // virtual
		left := w.left()
		if len(left) == 0 {
			break
		}
		if time.Now().After(deadline) {
			w.complain("orphans, %v after all workers have left: %v", w.patience, left)
			break
		}
	}
	time.Sleep(w.session) // until background releases are observed
	if w.quiet {
		w.empties()
	}
	w.balanced()
	w.nothingKept()
}

// nothingKept searches for what a connection keeps in its process although no lock is held or
// waited for.
func (w *world) nothingKept() {
	if w.real {
		return
	}
	for _, h := range w.hosts {
		c := h.client()
		if c.closing() {
			continue
		}
		client := zkclient.Of(slot.Wire(c.conn))
		for deadline := time.Now().Add(w.patience); len(client.Kept()) > 0; time.Sleep(w.session / 4) { // virtual
			if time.Now().After(deadline) {
				w.complain("%s keeps %q, %v after all workers have left", h.name, client.Kept(), w.patience)
				break
			}
		}
	}
}

// balanced compares what observers have received.
func (w *world) balanced() {
	b := &w.balance
	if !b.isEven() {
		w.complain("observers heard of %d calls, of which %d failed and %d were granted, and of %d holds that ended",
			b.called.Load(), b.failed.Load(), b.granted.Load(), b.ended.Load())
	}
}

// empties searches for directories that remain although their locks are idle. It is for a quiet
// world: after a failed create the server keeps a directory that never had a child.
func (w *world) empties() {
	time.Sleep(3 * w.reap) // virtual: the servers delete empty directories
	nodes := w.ensemble.Nodes()
	for _, path := range w.paths {
		if _, ok := nodes[path]; ok && w.kind.name == "quiet" {
			w.complain("%s stays, although the lock is idle", path)
		}
	}
}

// A standing is a node in a lock's directory.
type standing struct {
	path    string
	session int64
}

func (s standing) String() string { return fmt.Sprintf("%s of session %#x", s.path, s.session) }

// close ends everything that the world has started.
func (w *world) close() {
	for _, h := range w.hosts {
		if c := h.client(); !c.closing() {
			_ = c.conn.Close() // the result does not matter here
		}
		h.net.packets.Close()
	}
	_ = w.admin.Close()
	w.ensemble.Stop()
	w.network.Close()
	time.Sleep(w.session) // the client's goroutines end
}

// czxid returns the czxid of a node; 0: it does not exist, or the servers are not in memory.
func (w *world) czxid(node string) int64 {
	if w.ensemble == nil {
		return 0
	}
	return w.ensemble.Czxid(node)
}

// left returns the nodes in the locks' directories.
func (w *world) left() []standing { return w.cluster.left() }

// judge returns the violations by these holds, and what the ledger has found; "" if there are none.
func (w *world) judge(holds []history.Hold) string {
	var b strings.Builder
	w.testify()
	byPath := make(map[string][]history.Hold)
	for _, h := range holds {
		byPath[h.Path] = append(byPath[h.Path], h)
	}
	for i, path := range w.paths {
		rules := w.flavor(i).rules
		rules.Limits = w.limits.all[path]
		report := history.Check(rules, byPath[path])
		w.contended += report.Contended
		if report.OK() {
			continue
		}
		fmt.Fprintf(&b, "%v\n", report)
		for _, v := range report.Violations {
			last := v.Holds[len(v.Holds)-1]
			w.found = append(w.found, finding{last.Acquired, fmt.Sprintf("%s: %s: %s", path, v.Rule, v.Text)})
		}
	}
	slices.SortFunc(w.found, func(a, b finding) int { return cmp.Compare(a.at, b.at) })
	for i, f := range w.found {
		if i == mostFindings {
			fmt.Fprintf(&b, "... and %d more findings\n", len(w.found)-i)
			break
		}
		fmt.Fprintf(&b, "at %v: %s\n", time.Duration(f.at), f.text)
		w.story(&b, f.at)
	}
	return b.String()
}

// testify adds to the findings what the ledger shows at the end: of each kind and path the first.
func (w *world) testify() {
	first := func(all []finding, what string) {
		if len(all) > 0 {
			all[0].text += fmt.Sprintf("\n%d %s", len(all), what)
			w.found = append(w.found, all[0])
		}
	}
	for i, path := range w.paths {
		first(w.overtaken(path), "writes came behind one with a larger token")
		first(w.stale(path, w.session), "views were stale")
		first(w.former(path), "leaders were named that had gone")
		f := w.flavor(i)
		if w.newsy {
			w.found = append(w.found, w.unseen(path)...)
		}
		if w.quiet {
			w.found = append(w.found, w.late(path)...)
		}
		if w.quiet && f.name == "rwlock" {
			w.found = append(w.found, w.overtaking(path)...)
		}
		if f.handoff > 0 {
			w.found = append(w.found, w.handedOn(path, f.handoff)...)
		}
	}
	w.found = append(w.found, w.wrongly()...)
}

const (
	mostFindings = 5
	mostEvents   = 30
)

// story returns what the nemesis did before an instant.
func (w *world) story(b *strings.Builder, at int64) {
	w.told.Lock()
	defer w.told.Unlock()
	from := at - int64(3*w.session)
	var before []event
	for _, e := range w.events {
		if e.at >= from && e.at <= at {
			before = append(before, e)
		}
	}
	for _, e := range before[max(0, len(before)-mostEvents):] {
		fmt.Fprintf(b, "    %12v  %s\n", time.Duration(e.at).Round(time.Microsecond), e.text)
	}
}

// say records an action of the nemesis, and counts it as a fault if kind is not empty.
func (w *world) say(kind, format string, args ...any) {
	at := w.clock.now()
	w.told.Lock()
	defer w.told.Unlock()
	w.events = append(w.events, event{at, fmt.Sprintf(format, args...)})
	if kind != "" {
		w.faults[kind]++
	}
}

func sum(tallies ...map[string]int) map[string]int {
	all := make(map[string]int)
	for _, tally := range tallies {
		for what, n := range tally {
			all[what] += n
		}
	}
	return all
}

func total(tally map[string]int) (n int) {
	for v := range maps.Values(tally) {
		n += v
	}
	return n
}
