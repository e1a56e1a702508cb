package soak

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/test/history"
	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/internal/test/realzk"
	"github.com/zklocks/zklocks/internal/wire"
)

// nemesis injects faults while the children lock. Each of its hands is a goroutine for one client,
// for the servers, or for the nodes. A hand injects one fault at a time, and draws its kind from a
// deck, so that each kind has its turn.
type nemesis struct {
	t       *testing.T
	rate    float64       // faults per second, without the faults of servers
	lull    time.Duration // between two faults of the servers
	session time.Duration
	seed    uint64
	decks   map[string]*deck // by who has a hand for it: client, nodes, members; nil: nothing breaks

	servers []string // their own addresses
	clients []*client
	members *realzk.Ensemble // nil: one server
	admin   *wire.Conn

	mu     sync.Mutex
	fired  map[string]int64
	events []*event
	byHand byHand
}

// client is a child, with the proxies by which it reaches the servers.
type client struct {
	name    string
	process *realzk.Child
	proxies []*proxy.Proxy
}

// event is a fault, for the reader of a violation.
type event struct {
	history.Event
	whom string // a client or a path; "": the servers
}

// hand is one goroutine of the nemesis.
type hand struct {
	*nemesis
	ctx    context.Context
	random *rand.Rand
}

// deck is dealt in a random order, without repetition until it is through. A rare card is in every
// fourth deal only.
type deck struct {
	often, rarely []string
	deals         int
	left          []string
}

func (d *deck) next(random *rand.Rand) string {
	if len(d.left) == 0 {
		d.left = append(d.left, d.often...)
		if d.deals%4 == 0 {
			d.left = append(d.left, d.rarely...)
		}
		d.deals++
		random.Shuffle(len(d.left), func(i, j int) { d.left[i], d.left[j] = d.left[j], d.left[i] })
	}
	card := d.left[0]
	d.left = d.left[1:]
	return card
}

// deal plays the next card of a deck. A card whose fault had no effect is returned to it.
func (n *nemesis) deal(d *deck, random *rand.Rand, play func(card string) bool) {
	n.mu.Lock()
	card := d.next(random)
	n.mu.Unlock()
	struck := play(card)
	n.mu.Lock()
	defer n.mu.Unlock()
	if struck {
		n.fired[card]++
	} else {
		d.left = append(d.left, card)
	}
}

// say records the fault that is about to be injected, and its target; the returned function records
// its end.
func (n *nemesis) say(whom, format string, args ...any) (over func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	e := &event{history.Event{At: history.Now(), Text: fmt.Sprintf(format, args...)}, whom}
	n.events = append(n.events, e)
	return func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		e.Over = history.Now()
	}
}

// rage injects faults until ctx ends, and repairs all of them.
func (n *nemesis) rage(ctx context.Context, round int, paths []string) {
	var hands sync.WaitGroup
	hook := func(id uint64, share float64, kind string, play func(h *hand, card string) bool) {
		d := n.decks[kind]
		if d == nil {
			return
		}
		h := &hand{nemesis: n, ctx: ctx, random: rand.New(rand.NewPCG(n.seed+uint64(round)<<32, id))}
		hands.Go(func() {
			for h.rest(share) {
				n.deal(d, h.random, func(card string) bool { return play(h, card) })
			}
		})
	}
	// Nine of ten faults are of connections.
	for i, c := range n.clients {
		hook(1_000_000+uint64(i), 0.9/float64(len(n.clients)), "client", func(h *hand, card string) bool { return h.strike(c, card) })
	}
	hook(2_000_000, 0.1, "nodes", func(h *hand, card string) bool { return h.meddle(paths, card) })
	hook(3_000_000, 0, "members", (*hand).assail)
	hands.Wait()
}

// rest waits between two faults, for the hand's share of the rate, or after a fault of the servers
// for some locks to be granted. It returns false when the run is over.
func (h *hand) rest(share float64) bool {
	mean := h.lull
	if share > 0 {
		mean = time.Duration(float64(time.Second) / (share * h.rate))
	}
	return h.pause(time.Duration(float64(mean) * min(h.random.ExpFloat64(), 4)))
}

// pause returns true after that time, false when the run is over.
func (h *hand) pause(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-h.ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// upTo is a random time.
func (h *hand) upTo(d time.Duration) time.Duration { return time.Duration(h.random.Int64N(int64(d))) }

// Faults of a client's connection: a cut at a request of each kind, and a packet that is delayed
// for long.
var (
	cuts   = []proxy.Action{proxy.CutBefore, proxy.CutOnSend, proxy.CutAfterCommit}
	cutAt  = []proxy.Op{proxy.CreateOp, proxy.DeleteOp, proxy.MoveOp, proxy.ListOp, proxy.ReadOp, proxy.CheckOp, proxy.WatchesOp, proxy.ConnectOp}
	holds  = []proxy.Action{proxy.HoldRequest, proxy.HoldReply}
	holdAt = []proxy.Op{proxy.CreateOp, proxy.DeleteOp, proxy.ListOp, proxy.ReadOp}
)

// clientDeck holds the faults of clients.
func clientDeck() *deck {
	d := &deck{
		often: []string{
			"cut", "cut", "cut", "mute", "mute", "mute replies", "mute replies", "refuse", "refuse", "stop", "stop",
		},
		// These cost a session, most of the time.
		rarely: []string{"expire", "expire", "black hole", "deaf", "freeze"},
	}
	for _, list := range []struct {
		actions []proxy.Action
		ops     []proxy.Op
	}{{cuts, cutAt}, {holds, holdAt}} {
		for _, action := range list.actions {
			for _, op := range list.ops {
				d.often = append(d.often, wireCard(action, op))
			}
		}
	}
	return d
}

func wireCard(action proxy.Action, op proxy.Op) string { return action.String() + ": " + op.String() }

func parseWireCard(card string) (action proxy.Action, op proxy.Op) {
	left, right, _ := strings.Cut(card, ": ")
	for _, action = range slices.Concat(cuts, holds) {
		if action.String() == left {
			break
		}
	}
	for ; op.String() != right; op++ {
	}
	return action, op
}

// strike injects the fault of a card into a client.
func (h *hand) strike(c *client, card string) bool {
	defer h.say(c.name, "%s: %s", c.name, card)()
	short, long := h.session/8, h.session*3/2
	switch card {
	case "cut":
		c.each((*proxy.Proxy).Cut)
	case "mute":
		h.mute(c, (*proxy.Proxy).Mute, h.upTo(short))
	case "mute replies":
		h.mute(c, (*proxy.Proxy).MuteReplies, h.upTo(short))
	case "black hole":
		h.mute(c, (*proxy.Proxy).Mute, long)
	case "deaf":
		h.mute(c, (*proxy.Proxy).MuteReplies, long)
	case "refuse":
		c.each((*proxy.Proxy).Refuse)
		h.pause(h.upTo(short))
		c.accept(h)
	case "stop":
		h.freeze(c, h.upTo(short))
	case "freeze":
		h.freeze(c, long)
	case "expire":
		return h.expire(c)
	default:
		return h.onTheWire(c, card)
	}
	return true
}

func (c *client) each(do func(*proxy.Proxy)) {
	for _, p := range c.proxies {
		do(p)
	}
}

func (c *client) accept(h *hand) {
	for _, p := range c.proxies {
		if err := p.Accept(); err != nil {
			h.t.Error(err)
		}
	}
}

func (h *hand) mute(c *client, how func(*proxy.Proxy), d time.Duration) {
	c.each(how)
	h.pause(d)
	c.each((*proxy.Proxy).Unmute)
}

func (h *hand) freeze(c *client, d time.Duration) {
	c.process.Pause()
	h.pause(d)
	c.process.Resume()
}

// expire ends the client's session at the server. Each of its proxies knows of one session; one of
// these is alive.
func (h *hand) expire(c *client) bool {
	struck := false
	for i, p := range c.proxies {
		id, passwd := p.Session()
		if id == 0 {
			continue
		}
		end := h.sessionEnds(id)
		alive, err := realzk.EndSession(id, passwd, h.servers[i])
		end(alive || err != nil)
		struck = struck || alive
	}
	return struck
}

// onTheWire waits for a request of the right kind.
func (h *hand) onTheWire(c *client, card string) bool {
	action, op := parseWireCard(card)
	var faults []*proxy.Fault
	fired := make(chan struct{}, len(c.proxies))
	done := make(chan struct{})
	defer close(done)
	for _, p := range c.proxies {
		f := p.Next(op, action)
		faults = append(faults, f)
		go func() {
			select {
			case <-f.Fired():
				fired <- struct{}{}
			case <-done:
			}
		}()
	}
	if op == proxy.WatchesOp || op == proxy.ConnectOp {
		c.each((*proxy.Proxy).Cut) // these requests come with a new connection
	}
	late := time.NewTimer(h.session / 2)
	defer late.Stop()
	struck := false
	select {
	case <-fired:
		struck = true
		if action == proxy.HoldRequest || action == proxy.HoldReply {
			h.pause(h.upTo(h.session / 8))
		}
	case <-late.C:
	case <-h.ctx.Done():
	}
	for _, f := range faults {
		f.Cancel()
	}
	return struck
}

// membersDeck strikes followers more often than the leader: without a leader no worker gets a lock,
// and such a run proves nothing. A member that was killed takes a while to come back.
func membersDeck() *deck {
	one := []string{"isolate follower", "kill leader", "pause follower", "isolate leader", "kill follower", "pause leader"}
	return &deck{
		often: append([]string{"pause follower", "pause follower", "isolate follower", "isolate follower"}, one...),
		left:  one, // first, so that a minute is enough
	}
}

// quorumPatience is how long a member may be silent before the others drop it.
const quorumPatience = time.Second

// assail breaks one member of the ensemble, and repairs it before another member is broken: two of
// three must serve.
func (h *hand) assail(card string) bool {
	// A fault of an ensemble that is still down has no effect.
	for !h.whole() {
		if !h.pause(20 * time.Millisecond) {
			return false
		}
	}
	how, who, _ := strings.Cut(card, " ")
	s, err := h.members.Leader()
	if who == "follower" && err == nil {
		var followers []*realzk.Server
		if followers, err = h.members.Followers(); err == nil {
			s = followers[h.random.IntN(len(followers))]
		}
	}
	if err != nil {
		return false
	}
	// The other members notice some and do not notice others; a few last longer than a session
	// whose client cannot be reached.
	away := h.upTo(2 * quorumPatience)
	if h.random.IntN(8) == 0 {
		away = h.session + h.upTo(h.session)
	}
	defer h.say("", "%s %s", card, s.Addr())()
	switch how {
	case "kill":
		err = s.Kill()
		h.pause(away / 4) // a restart takes a while, too
		// It may not serve at once, because of an election; whole checks that.
		if again := s.Restart(); again != nil && !s.Alive() {
			h.t.Error(again)
		}
	case "pause":
		err = s.Pause()
		h.pause(away)
		if again := s.Resume(); again != nil {
			h.t.Error(again)
		}
	case "isolate":
		err = h.members.Isolate(s)
		h.pause(away)
		h.members.Heal()
	}
	if err != nil {
		h.t.Error(err)
	}
	return true
}

// whole reports whether all members serve, one of them as the leader.
func (n *nemesis) whole() bool {
	followers, err := n.members.Followers()
	return err == nil && len(followers) == len(n.servers)-1
}

// byHand records what the nemesis took from holders: nodes that it deleted, sessions that it ended
// at the server. Then the next holder is granted the lock before the old one can learn of the loss,
// and no lock can prevent that. So these holds count as certain only up to the instant before the
// fault. Each is identified by its token, its node's exact name, or its session.
type byHand struct {
	tokens   map[lock]int64
	nodes    map[string]int64
	sessions map[int64]int64
}

func (b *byHand) clear() {
	b.tokens, b.nodes, b.sessions = make(map[lock]int64), make(map[string]int64), make(map[int64]int64)
}

// sessionEnds is called before a session is ended; the returned function is called afterwards.
func (n *nemesis) sessionEnds(id int64) func(really bool) {
	at := history.Now()
	return func(really bool) {
		n.mu.Lock()
		defer n.mu.Unlock()
		if _, known := n.byHand.sessions[id]; really && !known {
			n.byHand.sessions[id] = at
		}
	}
}

// nodesDeck is the same for all runs.
func nodesDeck() *deck {
	return &deck{often: []string{"delete first", "delete first", "delete any", "delete any", "delete directory"}}
}

// meddle deletes nodes of a lock.
func (h *hand) meddle(paths []string, card string) bool {
	var dir string
	var names []string
	var i int
	for range 100 { // of many locks most are free
		i = h.random.IntN(len(paths))
		dir = queueOf(paths, i)
		if names, _, _ = h.admin.Children(dir); len(names) > 0 || h.ctx.Err() != nil {
			break
		}
	}
	if len(names) == 0 {
		return false
	}
	bySequence(names)
	switch card {
	case "delete first":
		return h.delete(paths[i], dir, names[0])
	case "delete any":
		return h.delete(paths[i], dir, names[h.random.IntN(len(names))])
	}
	for _, name := range names {
		h.delete(paths[i], dir, name)
	}
	over := h.say(paths[i], "directory %s deleted by hand", dir)
	err := h.admin.Delete(dir, -1)
	over()
	return err == nil
}

// delete deletes one node and records its owner.
func (h *hand) delete(lockPath, dir, name string) bool {
	node := path.Join(dir, name)
	_, stat, err := h.admin.Exists(node)
	if err != nil || stat == nil || stat.Czxid == 0 {
		return false
	}
	at := history.Now()
	err = h.admin.Delete(node, -1)
	if errors.Is(err, zk.ErrNoNode) {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.byHand.tokens[lock{lockPath, stat.Czxid}] = at
	h.byHand.nodes[node] = at
	h.events = append(h.events, &event{history.Event{At: at, Text: fmt.Sprintf("%s with czxid %d deleted by hand: %v", node, stat.Czxid, err)}, lockPath})
	return true
}

// bySequence sorts by sequence number; all names end in ten digits.
func bySequence(names []string) {
	end := func(name string) string { return name[max(0, len(name)-10):] }
	slices.SortFunc(names, func(a, b string) int { return strings.Compare(end(a), end(b)) })
}

// taken returns when the nemesis took a hold from its holder, if it did. node is the
// node of a downgraded hold, "" for others.
func (b *byHand) taken(h history.Hold, node string) (at int64, taken bool) {
	note := func(t int64, ok bool) {
		if ok && (!taken || t < at) {
			at, taken = t, true
		}
	}
	t, ok := b.tokens[lock{h.Path, h.Token}]
	note(t, ok)
	t, ok = b.nodes[node]
	note(t, ok)
	t, ok = b.sessions[session(h.Who)]
	note(t, ok)
	return at, taken
}

// session returns the session in the name of an owner.
func session(who string) int64 {
	_, text, _ := strings.Cut(who, "@")
	id, _ := strconv.ParseInt(text, 16, 64)
	return id
}
