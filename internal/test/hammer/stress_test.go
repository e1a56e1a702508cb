package hammer

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
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
	"github.com/zklocks/zklocks/internal/wire"
)

// campaign is the size of a stress run.
type campaign struct {
	settings
	Round    time.Duration
	Servers  int
	Locks    int
	Faults   float64       // per second
	Lull     time.Duration // between two faults of the servers
	Linger   int
	Short    bool          // a run of a few seconds, among other tests
	Patience time.Duration // that a call may take
	First    bool          // end with the first round in which something is wrong
	Break    string        // how the children break the lock: the test of the test
}

func campaignFromEnv(t *testing.T) campaign {
	t.Helper()
	c := campaign{
		settings: settings{For: 4 * time.Second, Processes: 3, Goroutines: 8, Seed: rand.Uint64() >> 32},
		Round:    30 * time.Second, Servers: 1, Locks: 24, Faults: 40, Lull: time.Second, Linger: 400, Patience: patience,
	}
	if c.Short = os.Getenv("STRESS") == ""; !c.Short {
		c.Processes, c.Goroutines, c.Locks, c.Servers, c.Faults, c.Linger = 4, 64, 256, 3, 20, 10_000
	}
	test.Setting(t, "STRESS", &c.For, time.ParseDuration)
	test.Setting(t, "STRESS_ROUND", &c.Round, time.ParseDuration)
	test.Setting(t, "STRESS_PROCESSES", &c.Processes, strconv.Atoi)
	test.Setting(t, "STRESS_GOROUTINES", &c.Goroutines, strconv.Atoi)
	test.Setting(t, "STRESS_SERVERS", &c.Servers, strconv.Atoi)
	test.Setting(t, "STRESS_LOCKS", &c.Locks, strconv.Atoi)
	test.Setting(t, "STRESS_FAULTS", &c.Faults, func(v string) (float64, error) { return strconv.ParseFloat(v, 64) })
	test.Setting(t, "STRESS_LULL", &c.Lull, time.ParseDuration)
	test.Setting(t, "STRESS_PATIENCE", &c.Patience, time.ParseDuration)
	test.Setting(t, "STRESS_FIRST", &c.First, strconv.ParseBool)
	test.Setting(t, "STRESS_BREAK", &c.Break, func(v string) (string, error) { return v, nil })
	test.Setting(t, "STRESS_SEED", &c.Seed, func(v string) (uint64, error) { return strconv.ParseUint(v, 10, 64) })
	return c
}

// stress is a run, seen by the parent.
type stress struct {
	*testing.T
	campaign
	outcome
	verdict
	nemesis  *nemesis
	admin    *wire.Conn
	began    int64
	dirs     []string // of all rounds
	orphans  int
	unused   int    // directories that stay, because no member ever queued there
	unclosed int    // children that ended with goroutines left over
	differ   int    // nodes that some members show and others do not
	kept     string // where the members' data was copied to when they differed; "" if they never did
}

func TestStress(t *testing.T) {
	c := campaignFromEnv(t)
	t.Logf("STRESS=%v STRESS_SEED=%d STRESS_SERVERS=%d STRESS_PROCESSES=%d STRESS_GOROUTINES=%d STRESS_LOCKS=%d STRESS_FAULTS=%g",
		c.For, c.Seed, c.Servers, c.Processes, c.Goroutines, c.Locks, c.Faults)
	s := &stress{T: t, campaign: c, began: history.Now()}
	s.raise()
	began := time.Now()
	for number := 0; s.goesOn(time.Since(began)); number++ {
		length := c.For - time.Since(began)
		if length <= 0 {
			length = c.For // once more
		}
		s.round(number, min(c.Round, max(length, time.Second)))
	}
	took := time.Since(began)
	if s.orphans == 0 {
		s.gone()
	}
	s.end()
	for _, what := range s.missing() {
		s.Errorf("%s: the run means nothing", what)
	}
	t.Log(s.table(took))
	if s.differ > 0 {
		t.Errorf("seed %d: the members of the ensemble differ in %d nodes: that is the servers', and nothing else that this run shows counts", c.Seed, s.differ)
	}
	if s.WrongTotal+s.violations+s.orphans+s.unclosed > 0 {
		t.Errorf("seed %d: %d violations, %d complaints, %d orphans, %d processes with goroutines left over",
			c.Seed, s.violations, s.WrongTotal, s.orphans, s.unclosed)
	}
}

// goesOn reports whether there is another round. A short run ends when it means something: on a
// busy machine its few seconds may be too few.
func (s *stress) goesOn(took time.Duration) bool {
	switch {
	case s.First && s.Failed():
		return false
	case took < s.For:
		return true
	}
	return s.Short && took < patience && len(s.missing()) > 0
}

// raise starts servers, proxies and children.
func (s *stress) raise() {
	const tick = 100 * time.Millisecond
	opts := realzk.Options{Tick: tick, Partitions: true, Config: map[string]string{"snapCount": "1000000"}}
	if s.For > time.Minute && s.Servers == 1 { // a server that is killed again and again needs a quick start
		opts.JVM = []string{"-XX:TieredStopAtLevel=4", "-Xmx768m"}
	}
	n := &nemesis{
		t: s.T, rate: s.Faults, lull: s.Lull, session: 2 * time.Second, tick: tick, seed: s.Seed,
		decks: map[string]*deck{"client": clientDeck(s.Short), "nodes": nodesDeck(), "members": membersDeck()},
		fired: make(map[string]int64),
	}
	s.nemesis = n
	if s.Servers == 1 {
		opts.Partitions = false
		n.servers = []string{realzk.Standalone(s, opts).Addr()}
	} else {
		n.session = 3 * time.Second
		opts.Config["syncLimit"] = strconv.Itoa(int(quorumPatience / tick))
		// A member that restarts reads its log from the last snapshot on, and must be done before
		// the others drop it.
		opts.Config["snapCount"] = "10000"
		n.members = realzk.Cluster(s, s.Servers, opts)
		n.servers = n.members.Addrs()
	}
	s.admin = realzk.Connect(s, 20*time.Second, n.servers...)
	n.admin = s.admin
	j := job{settings: s.settings, Session: n.session, Linger: s.Linger, Least: n.session / 100, Patience: s.Patience, Break: s.Break, BreakEvery: 50}
	if s.Servers > 1 {
		j.Least *= 10 // each request takes longer, and a queue of callers that give up serves none of them
	}
	for i := range s.Processes {
		c := &client{name: name(i)}
		j.Process, j.Servers = i, nil
		for _, server := range n.servers {
			p := proxy.For(s, server)
			c.proxies = append(c.proxies, p)
			j.Servers = append(j.Servers, p.Addr())
		}
		c.process = launch(s.T, j)
		n.clients = append(n.clients, c)
	}
	for _, c := range n.clients {
		c.process.hears(s.T, "ready", patience)
	}
}

func (s *stress) round(number int, length time.Duration) {
	dir := s.TempDir()
	r := round{Number: number, For: length, Cells: filepath.Join(dir, "cells")}
	base := test.Path(s)
	for i := range s.Locks {
		r.Paths = append(r.Paths, fmt.Sprintf("%s-%d/%d", base, number, i))
	}
	_, unmap, err := mapFile(r.Cells, len(r.Paths)*cellSize)
	if err != nil {
		s.Fatal(err)
	}
	defer unmap()
	n := s.nemesis
	if n.members != nil {
		test.Eventually(s, 2*time.Minute, "the ensemble is whole", n.whole)
	}
	n.events = nil
	n.byHand.clear()
	var records []string
	for _, c := range n.clients {
		r.Record = filepath.Join(dir, c.name+".gob")
		records = append(records, r.Record)
		order, err := json.Marshal(r)
		if err != nil {
			s.Fatal(err)
		}
		c.process.say(s.T, string(order))
	}
	ctx, cancel := context.WithTimeout(s.Context(), length)
	defer cancel()
	n.rage(ctx, number, r.Paths)
	var f found
	for _, c := range n.clients {
		var o outcome
		if err := json.Unmarshal([]byte(c.process.hears(s.T, "done", 3*patience)), &o); err != nil {
			s.Fatal(err)
		}
		s.add(o)
		f.complaints = append(f.complaints, o.Wrong...)
	}
	over := time.Now()
	for i := range r.Paths {
		f.orphans = append(f.orphans, s.swept(r.Paths[i], queueOf(r.Paths, i), over)...)
	}
	s.compare(r.Paths)
	holds := s.judge(r.Paths, records, &n.byHand, &f)
	if f.any() {
		s.Error(s.timelines(&f, holds))
	}
	os.RemoveAll(dir)
	all, servers := s.faults()
	s.Logf("round %d: %d cycles, %d faults, %d of servers, %d lost", number, s.cycles, all, servers, s.Tally["lost"])
}

// swept returns the nodes left in a queue a while after the end of the run. The sessions live, so
// the server deletes none of them.
func (s *stress) swept(path, dir string, over time.Time) (orphans []orphan) {
	s.dirs = append(s.dirs, dir)
	left := test.Children(s, s.admin, dir)
	for len(left) > 0 && time.Since(over) < 15*time.Second {
		runtime.Gosched()
		left = test.Children(s, s.admin, dir)
	}
	s.orphans += len(left)
	for _, name := range left {
		o := orphan{lock: lock{Path: path}, node: name, seen: s.shownBy(dir + "/" + name)}
		if there, stat, err := s.admin.Exists(dir + "/" + name); err == nil && there {
			o.Token, o.session = stat.Czxid, stat.EphemeralOwner
		}
		orphans = append(orphans, o)
	}
	return orphans
}

// shownBy asks each member for a node.
func (s *stress) shownBy(node string) (members []string) {
	for _, member := range s.nemesis.servers {
		conn := realzk.Connect(s, 20*time.Second, member)
		if there, _, err := conn.Exists(node); err == nil && there {
			members = append(members, member)
		}
		conn.Close()
	}
	return members
}

// compare lists all queues, which are empty by now, on each member. If one member shows a node and
// another does not, the servers have lost or kept a transaction: no client can protect itself from
// that, and the other findings of the run are void.
func (s *stress) compare(paths []string) {
	if s.nemesis.members == nil {
		return
	}
	test.Eventually(s, 2*time.Minute, "the ensemble is whole", s.nemesis.whole)
	shown := make(map[string][]string)
	for _, member := range s.nemesis.servers {
		conn := realzk.Connect(s, 20*time.Second, member)
		if _, err := conn.Sync("/"); err != nil {
			s.Error(err)
		}
		for i := range paths {
			dir := queueOf(paths, i)
			for _, name := range test.Children(s, conn, dir) {
				shown[dir+"/"+name] = append(shown[dir+"/"+name], member)
			}
		}
		conn.Close()
	}
	for node, members := range shown {
		if len(members) < s.Servers {
			s.differ++
			s.Logf("seed %d: the members differ: %s is shown by %v alone", s.Seed, node, members)
		}
	}
	if s.differ > 0 && s.kept == "" {
		s.keep()
	}
}

// keep copies the data and the logs of the members, which end with the test: their transactions
// tell which member lacks one. ZooKeeper's zkTxnLogToolkit.sh prints them.
func (s *stress) keep() {
	var err error
	if s.kept, err = os.MkdirTemp("", "zklocks-members-"); err != nil {
		s.Error(err)
		return
	}
	for i, member := range s.nemesis.members.Servers() {
		to := filepath.Join(s.kept, strconv.Itoa(i+1))
		if err := os.CopyFS(to, os.DirFS(member.Dir())); err != nil {
			s.Error(err) // a server may remove a file meanwhile: the others are of use
		}
	}
	s.Logf("seed %d: data and logs of the members are in %s", s.Seed, s.kept)
}

// gone waits until the server has removed the directories. It does not remove a container that
// never had a child: that of a caller that gave up, or was refused by a fault, between creating the
// directory and its node.
func (s *stress) gone() {
	for _, dir := range s.dirs {
		unused := false
		test.Eventually(s, time.Minute, dir+" is removed", func() bool {
			there, stat, err := s.admin.Exists(dir)
			unused = err == nil && there && stat.Cversion == 0
			return err == nil && (!there || unused)
		})
		if unused {
			s.unused++
		}
	}
}

// end ends the children, and checks what they leave.
func (s *stress) end() {
	for _, c := range s.nemesis.clients {
		c.process.say(s.T, "close")
	}
	for _, c := range s.nemesis.clients {
		if !c.process.ended(patience) {
			s.unclosed++
			s.Errorf("process %s: %v\n%s", c.name, c.process.err, c.process.cries.String())
		}
	}
}

// faults counts all faults that took effect, and those of servers among them.
func (s *stress) faults() (all, servers int64) {
	for card, n := range s.nemesis.fired {
		all += n
		if slices.Contains(s.nemesis.decks["members"].often, card) {
			servers += n
		}
	}
	return all, servers
}

// missing tells what must happen in a run and has not. In the few seconds of a run without STRESS
// not every fault has its turn, but one of each sort must have.
func (s *stress) missing() (what []string) {
	n := s.nemesis
	fired := make(map[string]int64) // by card, in a short run by sort
	sort := func(card string) string {
		if !s.Short {
			return card
		}
		if action, _, onTheWire := strings.Cut(card, ": "); onTheWire {
			return action
		}
		return shortSorts[card]
	}
	for kind, d := range n.decks {
		if kind != "members" || n.members != nil {
			for _, card := range slices.Concat(d.often, d.rarely) {
				fired[sort(card)] += 0
			}
		}
	}
	for card, times := range n.fired {
		fired[sort(card)] += times
	}
	for sort, times := range fired {
		if times == 0 {
			what = append(what, "never "+sort)
		}
	}
	done := []string{"exclusive", "shared", "permits", "canceled", "led", "together"}
	if !s.Short {
		done = append(done, "lost", "downgraded", "re-entered", "joined", "proclaimed", "verified", "busy", "released in the background")
	}
	for _, act := range done {
		if s.Tally[act] == 0 {
			what = append(what, "never "+act)
		}
	}
	few := 10 * s.Processes
	if s.Short {
		few = 1
	}
	if s.crossings < few || s.contended < few {
		what = append(what, fmt.Sprintf("%d hand-overs between processes, %d had to wait", s.crossings, s.contended))
	}
	return what
}

// shortSorts are the sorts of faults that are not of one packet.
var shortSorts = map[string]string{
	"cut": "silence", "mute": "silence", "mute replies": "silence", "refuse": "silence", "stop": "silence",
	"expire": "end of a session", "black hole": "end of a session", "deaf": "end of a session", "freeze": "end of a session",
	"delete first": "deletion", "delete any": "deletion", "delete directory": "deletion",
}

// table has a row for each kind of fault, and its effect.
func (s *stress) table(took time.Duration) string {
	var faults, tally []string
	for _, card := range slices.Sorted(maps.Keys(s.nemesis.fired)) {
		faults = append(faults, fmt.Sprintf("%s %d", card, s.nemesis.fired[card]))
	}
	for _, what := range slices.Sorted(maps.Keys(s.Tally)) {
		tally = append(tally, fmt.Sprintf("%d %s", s.Tally[what], what))
	}
	all, servers := s.faults()
	return fmt.Sprintf("%s\n%s\nSTRESS | seed %d | %d servers | %v | %d cycles | %.0f/s | %d hand-overs between processes | %d contended | %d faults, %d of servers | %d lost | %d violations | %d unfenced overlaps after a deletion by hand | %d complaints | %d orphans | %d directories never used | %d processes with goroutines left over",
		strings.Join(faults, ", "), strings.Join(tally, ", "),
		s.Seed, s.Servers, took.Round(time.Second), s.cycles, float64(s.cycles)/took.Seconds(), s.crossings, s.contended, all, servers, s.Tally["lost"],
		s.violations, s.unfenced, s.WrongTotal, s.orphans, s.unused, s.unclosed)
}
