package soak

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/history"
	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/internal/test/realzk"
)

// hammer is a run, as its parent process sees it.
type hammer struct {
	*testing.T
	options
	outcome
	*nemesis
	holds      int
	crossings  int // exclusive holds whose predecessor was in another process
	contended  int
	violations int
	unfenced   int // overlaps with holds that the nemesis ended: there the store must compare tokens
	orphans    int // nodes left in a queue when all workers had ended
	unclosed   int // processes that failed, or ended with goroutines left over
	differ     int // nodes that some members show and other members do not
}

func hammers(t *testing.T, o options) {
	if o.short() {
		t.Run("nothing breaks", func(t *testing.T) {
			calm := o
			calm.For, calm.Faults, calm.Locks = time.Second, 0, 8
			hammered(t, calm, nil)
		})
		t.Run("broken locks are found", func(t *testing.T) { brokenLocksAreFound(t) })
	}
	decks := map[string]*deck{"client": clientDeck(), "nodes": nodesDeck()}
	if o.Servers > 1 {
		decks["members"] = membersDeck()
	}
	if o.Faults == 0 {
		decks = nil
	}
	hammered(t, o, decks)
}

// losesReplies has the servers execute creates and deletes whose replies are lost. After a round no
// queue may have a node left: no node of a create that was repeated, and no node of a delete that
// was not repeated.
func losesReplies(t *testing.T, o options) {
	o.Faults, o.Locks, o.Processes, o.Goroutines = 200, 64, 12, 8 // each connection loses one reply at a time
	if o.short() {
		o.For, o.Locks, o.Processes = time.Second, 8, 3
	}
	d := &deck{often: []card{packetCard(proxy.CutAfterCommit, proxy.CreateOp), packetCard(proxy.CutAfterCommit, proxy.DeleteOp)}}
	hammered(t, o, map[string]*deck{"client": d})
}

func hammered(t *testing.T, o options, decks map[string]*deck) {
	t.Logf("%+v", o)
	h := &hammer{T: t, options: o, nemesis: &nemesis{t: t, rate: o.Faults, lull: o.Lull, seed: o.Seed, decks: decks, fired: make(map[string]int64)}}
	h.raise()
	began := time.Now()
	for number := 0; h.goesOn(time.Since(began)); number++ {
		length := o.For - time.Since(began)
		if length <= 0 {
			length = o.For // once more
		}
		h.round(number, min(o.Round, max(length, time.Second)))
	}
	took := time.Since(began)
	h.end()
	for _, what := range h.missing() {
		h.Errorf("%s: the run means nothing", what)
	}
	t.Log(h.table(took))
	if h.differ > 0 {
		t.Errorf("seed %d: the members of the ensemble differ in %d nodes: that is the servers', and nothing else that this run shows counts", o.Seed, h.differ)
	}
	if h.WrongTotal+h.violations+h.orphans+h.unclosed > 0 {
		t.Errorf("seed %d: %d violations, %d complaints, %d orphans, %d processes failed or had goroutines left over",
			o.Seed, h.violations, h.WrongTotal, h.orphans, h.unclosed)
	}
}

// goesOn reports whether there is another round. A short run continues until it shows something,
// because on a busy machine its seconds may be too few.
func (h *hammer) goesOn(took time.Duration) bool {
	switch {
	case h.First && h.Failed():
		return false
	case took < h.For:
		return true
	}
	return h.short() && took < patience && len(h.missing()) > 0
}

// raise starts servers, proxies and processes.
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
	j := job{options: h.options, Session: h.session, Linger: 10_000, Least: h.session / 100}
	if h.short() {
		j.Linger = 400
	}
	if h.Servers > 1 {
		j.Least *= 10 // each request takes longer, and in a queue in which all callers are canceled none is granted the lock
	}
	if h.decks == nil {
		j.Calm, j.Session = true, 40*time.Second // no machine is too busy to keep such a session
	}
	h.admin = realzk.Connect(h, 20*time.Second, h.servers...)
	for i := range h.Processes {
		c := &client{name: fmt.Sprintf("p%02d", i)}
		j.Name, j.Process, j.Servers = c.name, i, h.servers
		if !j.Calm {
			j.Servers = nil
			for _, server := range h.servers {
				p := proxy.For(h, server)
				c.proxies = append(c.proxies, p)
				j.Servers = append(j.Servers, p.Addr())
			}
		}
		job := j
		c.process = realzk.StartChild(h, childEnv, order{Job: &job})
		h.clients = append(h.clients, c)
	}
	for _, c := range h.clients {
		c.process.Hears("ready")
	}
}

func (h *hammer) round(number int, length time.Duration) {
	dir := h.TempDir()
	r := round{Number: number, For: length}
	base := test.Path(h)
	for i := range h.Locks {
		r.Paths = append(r.Paths, fmt.Sprintf("%s-%d/%d", base, number, i))
	}
	if h.members != nil {
		test.Eventually(h, 2*time.Minute, "the ensemble is whole", h.whole)
	}
	h.events = nil
	h.byHand.clear()
	var records []string
	for _, c := range h.clients {
		r.Record = filepath.Join(dir, c.name)
		records = append(records, r.Record)
		order, err := json.Marshal(r)
		if err != nil {
			h.Fatal(err)
		}
		c.process.Say(string(order))
	}
	ctx, cancel := context.WithTimeout(h.Context(), length)
	defer cancel()
	h.rage(ctx, number, r.Paths)
	var f []finding
	for _, c := range h.clients {
		var o outcome
		if err := json.Unmarshal([]byte(c.process.HearsWithin("done", length+3*patience)), &o); err != nil {
			h.Fatal(err)
		}
		h.add(o)
		for _, w := range o.Wrong {
			who, _, _ := strings.Cut(w.Text, ":")
			f = append(f, finding{at: w.At, text: w.Text, who: who})
		}
	}
	h.judge(r.Paths, records, append(f, h.swept(r.Paths)...))
	if err := os.RemoveAll(dir); err != nil {
		h.Error(err)
	}
	all, servers := h.faults()
	h.Logf("round %d: %d holds, %d faults, %d of servers, %d lost", number, h.holds, all, servers, h.Tally["lost"])
}

// swept returns the nodes left in the queues a while after the end of the round, as each member
// shows them. The sessions live, so the servers delete none of them. If one member shows a node and
// another does not, the servers have lost or kept a transaction: no client can protect itself from
// that, and the other findings of the run are void.
func (h *hammer) swept(paths []string) (found []finding) {
	over := time.Now()
	if h.members != nil {
		test.Eventually(h, 2*time.Minute, "the ensemble is whole", h.whole)
	}
	shown := make(map[string][]string) // by node
	locks := make(map[string]string)
	for _, member := range h.servers {
		conn := realzk.Connect(h, 20*time.Second, member)
		if _, err := conn.Sync("/"); err != nil {
			h.Error(err)
		}
		for i := range paths {
			dir := queueOf(paths, i)
			left := test.Children(h, conn, dir)
			for len(left) > 0 && time.Since(over) < 15*time.Second {
				runtime.Gosched()
				left = test.Children(h, conn, dir)
			}
			for _, name := range left {
				node := dir + "/" + name
				shown[node], locks[node] = append(shown[node], member), paths[i]
			}
		}
		conn.Close()
	}
	for node, members := range shown {
		f := finding{path: locks[node], text: fmt.Sprintf("orphan: %s", node)}
		if len(members) < len(h.servers) {
			h.differ++
			f.text = fmt.Sprintf("the members differ: %s is shown by %v alone", node, members)
		} else {
			h.orphans++
		}
		if there, stat, err := h.admin.Exists(node); err == nil && there {
			f.token = stat.Czxid
			f.text += fmt.Sprintf(", czxid %d, of session %x", stat.Czxid, stat.EphemeralOwner)
		}
		found = append(found, f)
	}
	return found
}

// end ends the processes, and checks that they leave no goroutine.
func (h *hammer) end() {
	for _, c := range h.clients {
		c.process.Say("close")
	}
	for _, c := range h.clients {
		if code, cries := c.process.Ends(); code != 0 {
			h.unclosed++
			h.Errorf("process %s: exit code %d\n%s", c.name, code, cries)
		}
	}
}

// faults counts all faults that took effect, and how many of them struck servers.
func (h *hammer) faults() (all, servers int64) {
	for name, n := range h.fired {
		all += n
		if d := h.decks["members"]; d != nil && slices.ContainsFunc(d.all(), func(c card) bool { return c.name == name }) {
			servers += n
		}
	}
	return all, servers
}

// missing names what must happen in a run and has not happened. A short run need not have every
// fault, but it must have one fault of each deck.
func (h *hammer) missing() (what []string) {
	for kind, d := range h.decks {
		fired := func(c card) bool { return h.fired[c.name] > 0 }
		if h.short() && !slices.ContainsFunc(d.all(), fired) {
			what = append(what, "no fault of "+kind)
		}
		for _, c := range d.all() {
			if !h.short() && !fired(c) {
				what = append(what, "never "+c.name)
			}
		}
	}
	done := []string{"exclusive", "shared", "permits", "canceled", "led", "together"}
	if !h.short() && h.Kind == "hammer" {
		done = append(done, "downgraded", "re-entered", "joined", "proclaimed", "verified", "busy", "released in the background")
	}
	if !h.short() && h.decks["nodes"] != nil {
		done = append(done, "lost")
	}
	for _, act := range done {
		if h.Tally[act] == 0 {
			what = append(what, "never "+act)
		}
	}
	few := 10 * h.Processes
	if h.short() {
		few = 1
	}
	if h.crossings < few || h.contended < few {
		what = append(what, fmt.Sprintf("%d hand-overs between processes, %d had to wait", h.crossings, h.contended))
	}
	return what
}

// table counts the faults, what the workers did, and the results.
func (h *hammer) table(took time.Duration) string {
	var faults, tally []string
	for _, card := range slices.Sorted(maps.Keys(h.fired)) {
		faults = append(faults, fmt.Sprintf("%s %d", card, h.fired[card]))
	}
	for _, what := range slices.Sorted(maps.Keys(h.Tally)) {
		tally = append(tally, fmt.Sprintf("%d %s", h.Tally[what], what))
	}
	all, servers := h.faults()
	return fmt.Sprintf("%s\n%s\nHAMMER | seed %d | %d servers | %v | %d holds | %.0f/s | %d hand-overs between processes | %d contended | %d faults, %d of servers | %d lost | %d violations | %d unfenced overlaps after a deletion by hand | %d complaints | %d orphans | %d processes failed",
		strings.Join(faults, ", "), strings.Join(tally, ", "),
		h.Seed, h.Servers, took.Round(time.Second), h.holds, float64(h.holds)/took.Seconds(), h.crossings, h.contended, all, servers, h.Tally["lost"],
		h.violations, h.unfenced, h.WrongTotal, h.orphans, h.unclosed)
}

// finding is something wrong in one round. Its timeline shows the holds of a path or, without a
// path, of a worker.
type finding struct {
	path, who string
	at        int64 // 0: at the end of the hold with that token, or of the last hold
	token     int64 // of a node that is left
	text      string
	by        []history.Hold // that broke a rule
}

const mostTimelines = 5

// judge checks the records of one round, and reports each violation, with a timeline.
func (h *hammer) judge(paths, records []string, found []finding) {
	byPath := make(map[string][]history.Hold)
	granted := make(map[lock]history.Hold)
	downgraded := make(map[lock]string)
	for _, file := range records {
		var r record
		if err := r.load(file); err != nil {
			h.Fatal(err)
		}
		for node, l := range r.Downgraded {
			downgraded[l] = node
		}
		for _, hold := range r.Holds {
			l := lock{hold.Path, hold.Token}
			// Whatever the fault, a token is given to one process only.
			if of, known := granted[l]; known && hold.Token != 0 && processOf(of) != processOf(hold) {
				h.violations++
				found = append(found, finding{path: hold.Path, at: hold.Acquired, text: fmt.Sprintf("%s: token %d was given to two processes", hold.Path, hold.Token), by: []history.Hold{of, hold}})
			}
			granted[l] = hold
			byPath[hold.Path] = append(byPath[hold.Path], hold)
		}
	}
	for i, path := range paths {
		all := slices.Clone(byPath[path])
		h.holds += len(all)
		if n := history.Check(kindRules(i), all).Total; n > 0 {
			h.unfenced += n
			for i, hold := range all {
				if at, taken := h.byHand.taken(hold, downgraded[lock{hold.Path, hold.Token}]); taken && hold.Ended > at {
					all[i].Ended = max(at, hold.Acquired)
				}
			}
		}
		report := history.Check(kindRules(i), all)
		h.contended += report.Contended
		h.unfenced -= report.Total
		h.violations += report.Total
		for _, v := range report.Violations {
			found = append(found, finding{path: path, at: v.Holds[len(v.Holds)-1].Acquired, text: fmt.Sprintf("%s: %s: %s", path, v.Rule, v.Text), by: v.Holds})
		}
		h.crossings += crossings(all)
	}
	for i, f := range found {
		if i == mostTimelines {
			h.Errorf("... and %d more findings", len(found)-i)
			break
		}
		h.Errorf("seed %d: %s", h.Seed, h.timeline(f, byPath))
	}
}

// timeline shows the holds around a finding, and the faults that struck them.
func (h *hammer) timeline(f finding, byPath map[string][]history.Hold) string {
	holds := byPath[f.path]
	for _, all := range byPath {
		for _, hold := range all {
			if f.who != "" && strings.HasPrefix(hold.Who, f.who+"@") {
				holds = append(holds, hold)
			}
		}
	}
	if f.at == 0 {
		for _, hold := range holds {
			if f.at = max(f.at, hold.Acquired); hold.Token == f.token {
				f.at, f.by = hold.Acquired, []history.Hold{hold}
				break
			}
		}
	}
	client, _, _ := strings.Cut(f.who, ".")
	clients := []string{"", f.path, client}
	for _, hold := range holds {
		clients = append(clients, processOf(hold))
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	var events []history.Event
	for _, e := range h.events {
		if slices.Contains(clients, e.whom) {
			events = append(events, e.Event)
		}
	}
	return history.Timeline(f.text, f.at, holds, f.by, events)
}

// processOf returns the name of the process, with which the owner's name begins.
func processOf(h history.Hold) string { return h.Who[:3] }

// crossings counts handovers from one process to another.
func crossings(holds []history.Hold) (n int) {
	slices.SortFunc(holds, func(a, b history.Hold) int { return int(a.Acquired - b.Acquired) })
	last := ""
	for _, h := range holds {
		if h.Kind == history.Shared {
			continue
		}
		if of := processOf(h); last != "" && of != last {
			n++
		}
		last = processOf(h)
	}
	return n
}
