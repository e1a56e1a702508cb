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

// nemesis injects faults while the processes lock. Each of its hands is a goroutine for one client,
// for the servers, or for the nodes. A hand injects one fault at a time, and draws its kind from a
// deck, so that each kind has its turn.
type nemesis struct {
	t       *testing.T
	rate    float64       // faults per second, without the faults of servers
	lull    time.Duration // between two faults of the servers
	session time.Duration
	seed    uint64
	decks   map[string]*deck // by the target of the hands: client, nodes, members; nil: nothing breaks

	servers []string // their own addresses
	clients []*client
	members *realzk.Ensemble // nil: one server
	admin   *wire.Conn

	mu     sync.Mutex
	fired  map[string]int64
	events []*event
	byHand byHand
}

// client is a process, with the proxies by which it reaches the servers.
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
	client *client  // of a hand for a client
	paths  []string // of the locks
}

// card is a kind of fault. play returns when the fault is over, and reports whether it had an
// effect.
type card struct {
	name string
	play func(*hand) bool
}

// deck is dealt in a random order, and no card comes again before all have been dealt. A rare card
// is only in every fourth deal.
type deck struct {
	often, rarely []card
	deals         int
	left          []card
}

func (d *deck) all() []card { return slices.Concat(d.often, d.rarely) }

// add adds a kind of fault that is n times as frequent as others.
func (d *deck) add(n int, name string, play func(*hand) bool) {
	for range n {
		d.often = append(d.often, card{name, play})
	}
}

// deal plays the next card. A card whose fault had no effect is returned to the deck.
func (h *hand) deal(d *deck) {
	h.mu.Lock()
	if len(d.left) == 0 {
		if d.left = slices.Clone(d.often); d.deals%4 == 0 {
			d.left = d.all()
		}
		d.deals++
		h.random.Shuffle(len(d.left), func(i, j int) { d.left[i], d.left[j] = d.left[j], d.left[i] })
	}
	c := d.left[0]
	d.left = d.left[1:]
	h.mu.Unlock()
	struck := c.play(h)
	h.mu.Lock()
	defer h.mu.Unlock()
	if struck {
		h.fired[c.name]++
	} else {
		d.left = append(d.left, c)
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
	hook := func(id uint64, share float64, kind string, c *client) {
		d := n.decks[kind]
		if d == nil {
			return
		}
		h := &hand{nemesis: n, ctx: ctx, random: rand.New(rand.NewPCG(n.seed+uint64(round)<<32, id)), client: c, paths: paths}
		hands.Go(func() {
			for h.rest(share) {
				h.deal(d)
			}
		})
	}
	// Nine of ten faults are of connections.
	for i, c := range n.clients {
		hook(1_000_000+uint64(i), 0.9/float64(len(n.clients)), "client", c)
	}
	hook(2_000_000, 0.1, "nodes", nil)
	hook(3_000_000, 0, "members", nil)
	hands.Wait()
}

// rest waits between two faults: for the hand's share of the rate or, after a fault of the servers,
// until some locks were granted. It returns false when the run is over.
func (h *hand) rest(share float64) bool {
	mean := h.lull
	if share > 0 {
		mean = time.Duration(float64(time.Second) / (share * h.rate))
	}
	return h.pause(time.Duration(float64(mean) * min(h.random.ExpFloat64(), 4)))
}

// pause returns true after the given time, and false when the run is over.
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

// clientDeck has the faults of a client: of its connection, its process and its session; a cut at a
// request of each kind, and a packet that is delayed for long.
func clientDeck() *deck {
	d := &deck{}
	each := func(how func(*proxy.Proxy)) func(*hand) {
		return func(h *hand) {
			for _, p := range h.client.proxies {
				how(p)
			}
		}
	}
	mute, muteReplies, unmute := each((*proxy.Proxy).Mute), each((*proxy.Proxy).MuteReplies), each((*proxy.Proxy).Unmute)
	stop, resume := func(h *hand) { h.client.process.Pause() }, func(h *hand) { h.client.process.Resume() }
	accept := each(func(p *proxy.Proxy) { _ = p.Accept() }) // if it fails, the client is without a server until the next time
	// lasting returns a fault that lasts for a part of the session timeout, or for longer than the
	// timeout.
	lasting := func(name string, begin, end func(*hand), outlasts bool) card {
		return card{name, func(h *hand) bool {
			defer h.say(h.client.name, "%s: %s", h.client.name, name)()
			begin(h)
			if outlasts {
				h.pause(h.session * 3 / 2)
			} else {
				h.pause(upTo(h.random, h.session/8))
			}
			end(h)
			return true
		}}
	}
	d.often = []card{
		lasting("mute", mute, unmute, false), lasting("mute replies", muteReplies, unmute, false),
		lasting("refuse", each((*proxy.Proxy).Refuse), accept, false), lasting("stop", stop, resume, false),
	}
	d.often = slices.Repeat(d.often, 2)
	d.add(3, "cut", func(h *hand) bool {
		h.say(h.client.name, "%s: cut", h.client.name)
		each((*proxy.Proxy).Cut)(h)
		return true
	})
	// The following faults mostly cost a session.
	expire := card{"expire", (*hand).expire}
	d.rarely = []card{expire, expire, lasting("black hole", mute, unmute, true), lasting("deaf", muteReplies, unmute, true), lasting("freeze", stop, resume, true)}
	for _, action := range []proxy.Action{proxy.CutBefore, proxy.CutOnSend, proxy.CutAfterCommit} {
		for _, op := range []proxy.Op{proxy.CreateOp, proxy.DeleteOp, proxy.MoveOp, proxy.ListOp, proxy.ReadOp, proxy.CheckOp, proxy.ConnectOp} {
			d.often = append(d.often, packetCard(action, op))
		}
	}
	for _, action := range []proxy.Action{proxy.HoldRequest, proxy.HoldReply} {
		for _, op := range []proxy.Op{proxy.CreateOp, proxy.DeleteOp, proxy.ListOp, proxy.ReadOp} {
			d.often = append(d.often, packetCard(action, op))
		}
	}
	return d
}

// packetCard is a fault at the next request of a kind.
func packetCard(action proxy.Action, op proxy.Op) card {
	name := action.String() + ": " + op.String()
	return card{name, func(h *hand) (struck bool) {
		defer h.say(h.client.name, "%s: %s", h.client.name, name)()
		ctx, cancel := context.WithTimeout(h.ctx, h.session/2) // the client may not send such a request
		defer cancel()
		fired := make(chan struct{}, len(h.client.proxies))
		for _, p := range h.client.proxies {
			f := p.Next(op, action)
			defer f.Cancel()
			go func() {
				select {
				case <-f.Fired():
					fired <- struct{}{}
				case <-ctx.Done():
				}
			}()
			if op == proxy.ConnectOp {
				p.Cut() // this request comes with a new connection
			}
		}
		select {
		case <-fired:
			if action == proxy.HoldRequest || action == proxy.HoldReply {
				h.pause(upTo(h.random, h.session/8))
			}
			return true
		case <-ctx.Done():
			return false
		}
	}}
}

// expire ends the client's session at the server. Each of the client's proxies has recorded one
// session, and one of these sessions is alive.
func (h *hand) expire() (struck bool) {
	defer h.say(h.client.name, "%s: expire", h.client.name)()
	for i, p := range h.client.proxies {
		id, passwd := p.Session()
		if id == 0 {
			continue
		}
		at := history.Now()
		alive, err := realzk.EndSession(id, passwd, h.servers[i])
		h.mu.Lock()
		if _, known := h.byHand.sessions[id]; (alive || err != nil) && !known {
			h.byHand.sessions[id] = at
		}
		h.mu.Unlock()
		struck = struck || alive
	}
	return struck
}

// membersDeck strikes followers more often than the leader: without a leader no worker is granted a
// lock, and such a run shows nothing. A member that was killed needs a while until it serves again.
func membersDeck() *deck {
	d := &deck{}
	for name, n := range map[string]int{"pause follower": 3, "isolate follower": 3, "kill follower": 1, "kill leader": 1, "pause leader": 1, "isolate leader": 1} {
		d.add(n, name, func(h *hand) bool { return h.assail(name) })
	}
	return d
}

// quorumPatience is how long a member may be silent before the other members drop it.
const quorumPatience = time.Second

// assail breaks one member of the ensemble, and repairs it before another member is broken, because
// two of three members must serve.
func (h *hand) assail(what string) bool {
	// A fault would have no effect while the ensemble is still down.
	for !h.whole() {
		if !h.pause(20 * time.Millisecond) {
			return false
		}
	}
	how, who, _ := strings.Cut(what, " ")
	s, err := h.members.Leader()
	followers, ferr := h.members.Followers()
	if err != nil || ferr != nil {
		return false
	}
	if who == "follower" {
		s = followers[h.random.IntN(len(followers))]
	}
	// The other members detect some of these absences, and do not detect others. A few absences
	// last longer than a session whose client cannot be reached.
	away := upTo(h.random, 2*quorumPatience)
	if h.random.IntN(8) == 0 {
		away = h.session + upTo(h.random, h.session)
	}
	must := func(err error) {
		if err != nil {
			h.t.Error(err)
		}
	}
	defer h.say("", "%s %s", what, s.Addr())()
	switch how {
	case "kill":
		must(s.Kill())
		h.pause(away / 4) // a restart takes a while, too
		// The member may not serve at once, because of an election. The next assail waits until it
		// does, see whole.
		if err := s.Restart(); err != nil && !s.Alive() {
			h.t.Error(err)
		}
	case "pause":
		must(s.Pause())
		h.pause(away)
		must(s.Resume())
	case "isolate":
		must(h.members.Isolate(s))
		h.pause(away)
		h.members.Heal()
	}
	return true
}

// whole reports whether all members serve, one of them as the leader.
func (n *nemesis) whole() bool {
	followers, err := n.members.Followers()
	return err == nil && len(followers) == len(n.servers)-1
}

// byHand records what the nemesis took from holders: nodes that it deleted, sessions that it ended
// at the server. Then the next holder is granted the lock before the old holder can be notified of
// the loss, and no lock can prevent that. So these holds count as certain only up to the instant
// before the fault. A hold is identified by its token, by the exact name of its node, or by its
// session.
type byHand struct {
	tokens   map[lock]int64
	nodes    map[string]int64
	sessions map[int64]int64
}

func (b *byHand) clear() {
	b.tokens, b.nodes, b.sessions = make(map[lock]int64), make(map[string]int64), make(map[int64]int64)
}

// nodesDeck deletes nodes of a lock.
func nodesDeck() *deck {
	d := &deck{}
	d.add(2, "delete first", func(h *hand) bool {
		lock, dir, names := h.busy()
		return len(names) > 0 && h.delete(lock, dir, names[0])
	})
	d.add(2, "delete any", func(h *hand) bool {
		lock, dir, names := h.busy()
		return len(names) > 0 && h.delete(lock, dir, names[h.random.IntN(len(names))])
	})
	d.add(1, "delete directory", func(h *hand) bool {
		lock, dir, names := h.busy()
		for _, name := range names {
			h.delete(lock, dir, name)
		}
		defer h.say(lock, "directory %s deleted by hand", dir)()
		return h.admin.Delete(dir, -1) == nil
	})
	return d
}

// busy returns a lock that has a queue, and the nodes in the order of their numbers: the last ten
// digits of a name.
func (h *hand) busy() (lock, dir string, names []string) {
	for range 100 { // of many locks most are free, so try several
		i := h.random.IntN(len(h.paths))
		lock, dir = h.paths[i], queueOf(h.paths, i)
		if names, _, _ = h.admin.Children(dir); len(names) > 0 || h.ctx.Err() != nil {
			break
		}
	}
	number := func(name string) string { return name[max(0, len(name)-10):] }
	slices.SortFunc(names, func(a, b string) int { return strings.Compare(number(a), number(b)) })
	return lock, dir, names
}

// delete deletes one node and records its owner.
func (h *hand) delete(lockPath, dir, name string) bool {
	node := path.Join(dir, name)
	_, stat, err := h.admin.Exists(node)
	if err != nil || stat == nil || stat.Czxid == 0 {
		return false
	}
	at := history.Now()
	over := h.say(lockPath, "%s with czxid %d deleted by hand", node, stat.Czxid)
	err = h.admin.Delete(node, -1)
	if over(); errors.Is(err, zk.ErrNoNode) {
		return false
	}
	h.mu.Lock() // the node is deleted, or the answer is lost
	defer h.mu.Unlock()
	h.byHand.tokens[lock{lockPath, stat.Czxid}] = at
	h.byHand.nodes[node] = at
	return true
}

// taken returns when the nemesis has taken a hold from its holder, if it has. node is the node of a
// downgraded hold, "" for others.
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
	_, session, _ := strings.Cut(h.Who, "@") // the session is in the name of an owner
	id, _ := strconv.ParseInt(session, 16, 64)
	t, ok = b.sessions[id]
	note(t, ok)
	return at, taken
}
