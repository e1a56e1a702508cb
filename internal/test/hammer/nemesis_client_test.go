package hammer

import (
	"slices"
	"strings"
	"time"

	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/internal/test/realzk"
)

// Faults of a client's connection: a cut at a request of each kind, and a packet that is delayed
// for long.
var (
	cuts   = []proxy.Action{proxy.CutBefore, proxy.CutOnSend, proxy.CutAfterCommit}
	cutAt  = []proxy.Op{proxy.CreateOp, proxy.DeleteOp, proxy.MoveOp, proxy.ListOp, proxy.ReadOp, proxy.CheckOp, proxy.WatchesOp, proxy.ConnectOp}
	holds  = []proxy.Action{proxy.HoldRequest, proxy.HoldReply}
	holdAt = []proxy.Op{proxy.CreateOp, proxy.DeleteOp, proxy.ListOp, proxy.ReadOp}
)

// clientDeck holds the faults of clients. In a short run one of each sort comes first.
func clientDeck(short bool) *deck {
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
	if short {
		d.left = []string{"mute replies", "expire"}
		for i, action := range slices.Concat(cuts, holds) {
			d.left = append(d.left, wireCard(action, cutAt[i%2])) // creates and deletes, which come often
		}
	}
	return d
}

func wireCard(action proxy.Action, op proxy.Op) string { return action.String() + ": " + op.String() }

func parseWireCard(card string) (action proxy.Action, op proxy.Op, ok bool) {
	left, right, ok := strings.Cut(card, ": ")
	for _, action = range slices.Concat(cuts, holds) {
		if action.String() == left {
			break
		}
	}
	for ; op.String() != right; op++ {
	}
	return action, op, ok
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
	if err := c.process.stop(); err != nil {
		h.t.Error(err)
	}
	h.pause(d)
	if err := c.process.resume(); err != nil {
		h.t.Error(err)
	}
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
	action, op, _ := parseWireCard(card)
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
