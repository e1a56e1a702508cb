package explore

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/history"
	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/internal/test/realzk"
)

// A hammer is a run on real servers: this process is the nemesis and the judge, and other processes
// are the hosts.
type hammer struct {
	*testing.T
	settings
	session time.Duration
	servers []string
	members *realzk.Ensemble // nil: one server
	admin   *zklocks.Conn

	tally, faults               map[string]int
	holds, crossings, contended int
}

type settings struct {
	For       time.Duration
	Seed      uint64
	Servers   int // 1 or 3
	Locks     int
	Faults    float64 // per second; 0: none at all
	Processes int
	Workers   int // of each process
	short     bool
}

// soak is a run of full size.
var soak settings

func init() {
	flag.IntVar(&soak.Servers, "servers", 3, "soak: one server, or three")
	flag.IntVar(&soak.Locks, "locks", 256, "hammer: how many `locks`")
	flag.Float64Var(&soak.Faults, "faults", 20, "hammer: at most so `many` per second; 0: nothing breaks")
	flag.IntVar(&soak.Processes, "processes", 4, "hammer: how `many`")
	flag.IntVar(&soak.Workers, "goroutines", 64, "hammer: how `many` in each process")
}

// TestSoak runs the kind that -kind names, or a short cell of each kind.
func TestSoak(t *testing.T) {
	kind, s := *kindFlag, soak
	if kind == "" {
		s = settings{Servers: 1, Locks: 24, Faults: 40, Processes: 3, Workers: 8, short: true}
	}
	s.Seed, s.For = cmp.Or(*seedFlag, rand.Uint64()>>32), cmp.Or(*lengthFlag, 4*time.Second)
	if s.short {
		calm := s
		calm.For, calm.Faults, calm.Locks = time.Second, 0, len(flavors)
		t.Run("nothing breaks", func(t *testing.T) { hammers(t, calm) })
	} else if kind != "hammer" {
		t.Fatalf("-kind %s: there is no such kind", kind)
	}
	t.Run("hammer", func(t *testing.T) { hammers(t, s) })
}

// longestRound is how long a world lasts. The next has new paths.
const longestRound = 30 * time.Second

func hammers(t *testing.T, s settings) {
	t.Logf("%+v", s)
	h := &hammer{T: t, settings: s}
	h.raise()
	began := time.Now()
	for round := 0; h.goesOn(time.Since(began)); round++ {
		length := min(longestRound, max(s.For-time.Since(began), time.Second))
		if report := h.play(uint64(round), length); report != "" {
			t.Errorf("seed %d, round %d: %s", s.Seed, round, report)
		}
	}
	took := time.Since(began)
	for _, what := range h.missing() {
		t.Errorf("never %s: the run means nothing", what)
	}
	t.Logf("%s\n%s\nHAMMER | seed %d | %d servers | %v | %d holds | %.0f/s | %d hand-overs between processes | %d contended | %d faults",
		counts(h.faults), counts(h.tally), s.Seed, s.Servers, took.Round(time.Second), h.holds, float64(h.holds)/took.Seconds(), h.crossings, h.contended, total(h.faults))
}

// goesOn reports whether there is another round. A short run continues until it shows something,
// because on a busy machine its seconds may be too few.
func (h *hammer) goesOn(took time.Duration) bool {
	return !h.Failed() && (took < h.For || h.short && took < time.Minute && len(h.missing()) > 0)
}

// missing names what must happen in a run and has not happened.
func (h *hammer) missing() []string {
	acts := []string{"exclusive", "shared", "permits", "canceled", "terms", "together"}
	var strikes []string
	var packets []proxy.Action
	few := 1
	if !h.short {
		few = 10 * h.Processes
		acts = append(acts, "downgraded", "re-entered", "proclaimed", "verified", "written", "busy", "crowds", "released in the background")
	}
	switch {
	case h.Faults > 0 && !h.short:
		acts, strikes, packets = append(acts, "lost"), strikesOfHosts, actions
		if h.Servers > 1 {
			strikes = append(strikesOfHosts, "member killed", "member paused", "member isolated")
		}
	case h.Faults > 0 && total(h.faults) == 0:
		strikes = []string{"any fault"}
	}
	never := missing(h.tally, h.faults, acts, strikes, packets)
	if h.crossings < few || h.contended < few {
		never = append(never, fmt.Sprintf("%d hand-overs between processes and %d callers that had to wait, but %d and %d", few, few, h.crossings, h.contended))
	}
	return never
}

// quorumPatience is how long a member may be silent before the other members drop it.
const quorumPatience = time.Second

// raise starts the servers.
func (h *hammer) raise() {
	const tick = 100 * time.Millisecond
	opts := realzk.Options{Tick: tick, Config: map[string]string{"snapCount": "1000000"}, JVM: []string{"-XX:TieredStopAtLevel=4", "-Xmx768m"}}
	h.session = 2 * time.Second
	switch {
	case h.Servers > 1:
		h.session = 3 * time.Second
		opts.Partitions, opts.JVM = true, nil // a server that is killed again and again needs a quick start
		opts.Config["syncLimit"] = strconv.Itoa(int(quorumPatience / tick))
		// A member that restarts reads its log from the last snapshot on. It must finish before the
		// other members drop it.
		opts.Config["snapCount"] = "10000"
		h.members = realzk.Cluster(h, h.Servers, opts)
		h.servers = h.members.Addrs()
	case h.For > time.Minute:
		h.servers = []string{realzk.Standalone(h, opts).Addr()}
	default:
		h.servers = realzk.Servers(h)
	}
	if h.Faults == 0 {
		h.session = 40 * time.Second // no machine is too busy to keep such a session
	}
	admin, err := zklocks.Connect(h.Context(), h.servers, 20*time.Second)
	if err != nil {
		h.Fatal(err)
	}
	h.admin = admin
	h.Cleanup(func() { _ = admin.Close() })
}

// play plays a world, and returns the violations; "" if there are none.
func (h *hammer) play(round uint64, length time.Duration) string {
	h.isWhole(2 * time.Minute)
	var paths []string
	for i := range h.Locks {
		paths = append(paths, fmt.Sprintf("%s-%d/%d", test.Path(h), round, i))
	}
	o := order{
		Session: h.session, For: length, Workers: h.Workers, Paths: paths, Store: fmt.Sprintf("%s-%d-store", test.Path(h), round), Calm: h.Faults == 0,
	}
	if _, err := h.admin.Client().Create(o.Store, nil, zk.FlagPersistent, zk.WorldACL(zk.PermAll)); err != nil {
		h.Fatal(err)
	}
	p := o.plan()
	p.seed, p.members = h.Seed, h.Servers
	w := newWorld(p, paths, history.Now)
	w.cluster, w.admin = &processes{h, w}, h.admin
	dir := h.TempDir()
	for i := range h.Processes {
		host := &host{world: w, name: fmt.Sprintf("p%02d", i), net: h.machine()}
		o.Seed, o.Name, o.Servers, o.Testament = h.Seed+round<<32+uint64(i)<<16, host.name, host.net.addrs, filepath.Join(dir, host.name)
		host.net.process = realzk.StartChild(h, processEnv, o)
		w.hosts = append(w.hosts, host)
	}
	h.rage(w, round)
	var holds []history.Hold
	for _, host := range w.hosts {
		host.net.process.HearsWithin("done", length+3*w.patience)
		holds = append(holds, h.read(w, filepath.Join(dir, host.name))...)
	}
	h.orphans(w)
	for _, host := range w.hosts {
		host.net.process.Say("close")
		if code, cries := host.net.process.Ends(); code != 0 {
			w.complain("process %s: exit code %d\n%s", host.name, code, cries)
		}
		host.net.packets.Close()
	}
	w.twice(holds)
	report := w.judge(holds)
	h.holds, h.crossings, h.contended = h.holds+len(holds), h.crossings+history.Crossings(holds, processOf), h.contended+w.contended
	h.faults = sum(h.faults, w.faults)
	return report
}

// machine is the network of a process: a proxy in front of all servers.
func (h *hammer) machine() *machine {
	p, err := proxy.New(h.servers[0])
	if err != nil {
		h.Fatal(err)
	}
	m := &machine{packets: p, addrs: []string{p.Addr()}}
	for _, server := range h.servers[1:] {
		addr, err := p.Open(proxy.TCP{}, server)
		if err != nil {
			h.Fatal(err)
		}
		m.addrs = append(m.addrs, addr)
	}
	return m
}

// rage injects faults until the world ends, and repairs all of them.
func (h *hammer) rage(w *world, round uint64) {
	if h.Faults == 0 {
		return
	}
	hands := 2 * h.Processes
	w.rest = time.Duration(float64(hands) / h.Faults * float64(time.Second))
	var raging sync.WaitGroup
	for i := range hands {
		n := &nemesis{world: w, random: rand.New(rand.NewPCG(h.Seed+round<<32, uint64(i))), members: i == 0}
		raging.Go(n.rage)
	}
	raging.Wait()
	w.heal()
}

// read returns the holds of a process: what the nemesis took from holders counts only until then,
// because the next holder is granted the lock before the last can be notified, and no lock can
// prevent that.
func (h *hammer) read(w *world, file string) []history.Hold {
	text, err := os.ReadFile(file)
	if err != nil {
		h.Fatal(err)
	}
	var t testament
	if err := json.Unmarshal(text, &t); err != nil {
		h.Fatal(err)
	}
	for i, hold := range t.Holds {
		t.Holds[i] = w.untilTaken(hold)
	}
	for _, c := range t.Found {
		w.found = append(w.found, finding{c.At, c.Text})
	}
	h.tally = sum(h.tally, t.Tally)
	return t.Holds
}

// twice complains of tokens that were given to two processes, whatever the faults.
func (w *world) twice(holds []history.Hold) {
	type grant struct {
		path  string
		token int64
	}
	given := make(map[grant]string)
	for _, h := range holds {
		g := grant{h.Path, h.Token}
		if to, ok := given[g]; ok && to != processOf(h.Who) {
			w.found = append(w.found, finding{h.Acquired, fmt.Sprintf("%s: token %d was given to two processes: %v", h.Path, h.Token, h)})
		}
		given[g] = processOf(h.Who)
	}
}

func processOf(who string) string {
	process, _, _ := strings.Cut(who, ".")
	return process
}

// orphans complains of nodes left in the queues a while after the end of the world, as each member
// shows them. The sessions live, so the servers delete none of them. If one member shows a node and
// another does not, the servers have lost or kept a transaction: no client can protect itself from
// that, and the other findings of the run are void.
func (h *hammer) orphans(w *world) {
	h.isWhole(2 * time.Minute)
	over := time.Now()
	shown := make(map[string][]string) // members by node
	for _, member := range h.servers {
		conn := realzk.Connect(h, 20*time.Second, member)
		if _, err := conn.Client().Sync("/"); err != nil {
			h.Error(err)
		}
		for i := range w.paths {
			dir := w.queue(i)
			left := test.Children(h, conn.Client(), dir)
			for len(left) > 0 && time.Since(over) < 15*time.Second {
				time.Sleep(time.Millisecond) // real: background releases are under way
				left = test.Children(h, conn.Client(), dir)
			}
			for _, name := range left {
				shown[dir+"/"+name] = append(shown[dir+"/"+name], member)
			}
		}
		conn.Close()
	}
	for node, members := range shown {
		if len(members) < len(h.servers) {
			w.complain("%s is shown by %v alone: the members differ, and nothing else that this run shows counts", node, members)
		} else {
			_, stat, err := h.admin.Client().Exists(node)
			w.complain("orphan: %s, %+v (%v)", node, stat, err)
		}
	}
}

// queue returns the directory of the nodes of the i-th path.
func (w *world) queue(i int) string {
	if w.flavor(i).name == "semaphore" {
		return w.paths[i] + "/queue"
	}
	return w.paths[i]
}

// isWhole waits until all members serve, one of them as the leader.
func (h *hammer) isWhole(within time.Duration) bool {
	return h.members == nil || test.Poll(within, func() bool {
		followers, err := h.members.Followers()
		return err == nil && len(followers) == h.Servers-1
	})
}

// processes is a cluster of processes.
type processes struct {
	*hammer
	world *world
}

// ends ends the session of a host. If it is not known whether the session has ended, it counts as
// ended.
func (p *processes) ends(session int64) bool {
	for _, h := range p.world.hosts {
		if id, passwd := h.net.packets.Session(); id == session && id != 0 {
			alive, err := realzk.EndSession(id, passwd, p.servers[rand.IntN(len(p.servers))])
			return alive || err != nil
		}
	}
	return false
}

// member returns the leader, once in four times, or a follower: without a leader no worker is
// granted a lock, and such a run shows nothing. Nobody is broken before all serve again.
func (p *processes) member(random *rand.Rand) member {
	if p.members == nil || !p.isWhole(time.Until(p.world.end)) {
		return nil
	}
	if leader, err := p.members.Leader(); err == nil && random.IntN(4) == 0 {
		return process{leader, p.hammer}
	}
	followers, err := p.members.Followers()
	if err != nil {
		return nil
	}
	return process{followers[random.IntN(len(followers))], p.hammer}
}

// left returns the nodes of one lock that has a queue: of many locks most are free.
func (p *processes) left() (nodes []standing) {
	for range 100 {
		dir := p.world.queue(rand.IntN(len(p.world.paths)))
		names, _, _ := p.admin.Client().Children(dir)
		for _, name := range names {
			nodes = append(nodes, standing{path: dir + "/" + name})
		}
		if len(nodes) > 0 {
			break
		}
	}
	return nodes
}

// A process is a member.
type process struct {
	*realzk.Server
	h *hammer
}

func (p process) must(err error) {
	if err != nil {
		p.h.Error(err)
	}
}

func (p process) String() string { return "member " + p.Addr() }
func (p process) Kill()          { p.must(p.Server.Kill()) }
func (p process) Pause()         { p.must(p.Server.Pause()) }
func (p process) Resume()        { p.must(p.Server.Resume()) }
func (p process) Isolate()       { p.must(p.h.members.Isolate(p.Server)) }
func (p process) Heal()          { p.h.members.Heal() }

// Restart may return before the member serves, because of an election.
func (p process) Restart() {
	if err := p.Server.Restart(); err != nil && !p.Alive() {
		p.h.Error(err)
	}
}

// A proxied line leads to a process through the proxy of its machine.
type proxied struct {
	*machine
	mute func()
}

func (l proxied) Cut()                { l.packets.Cut() }
func (l proxied) Partition()          { l.mute() }
func (l proxied) Freeze()             { l.process.Pause() }
func (l proxied) Thaw()               { l.process.Resume() }
func (l proxied) Delay(time.Duration) {}
