package contract

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/observe"
)

var losing = []scenario{
	{"a hold is lost with its node, its session and its connection", lostWhileHolding, 0},
	{"a loss that no caller asked for shows at the release", lossUnasked, 0},
	{"a Release that the expiry overtakes returns that the lock was lost", expiredWhileReleasing, 0},
	{"a waiter whose node is deleted, or whose session expires, queues again at the tail", requeued, 0},
	{"a waiter that loses its place together with the holder does not hold", deletedWithTheHolder, 0},
	{"a waiter whose connection is closed fails at once", closedWhileWaiting, 0},
	{"a holder that is cut off is notified before the next one holds", notifiedBeforeTheNext, 0},
	{"a lost hold whose session lives on leaves no node", survivorDeleted, 0},
	{"a hold has a deadline, which moves on while servers answer", showsTheDeadline, 0},
}

// over asserts all promises about a lost hold.
func (s *scene) over(h *zklocks.Hold, ctx context.Context) {
	s.Helper()
	s.Lost(h.Lost())
	if h.Held() {
		s.Error("lost, and held")
	}
	test.Within(s, soon, "the hold's context ends", func() { <-ctx.Done() })
	s.Is(context.Cause(ctx), zklocks.ErrLost)
	s.Is(context.Cause(h.Context(s.Ctx)), zklocks.ErrLost)
	s.Is(h.Err(), zklocks.ErrLost)
	if h.Err() != nil && !errors.Is(context.Cause(ctx), h.Err()) {
		s.Errorf("it was lost by %v, says its context, and by %v, says the hold", context.Cause(ctx), h.Err())
	}
	if d := h.ValidUntil(); !d.IsZero() {
		s.Errorf("a lost hold has a deadline: %v", d)
	}
	s.Is(h.Verify(s.Ctx), zklocks.ErrLost)
	_, err := h.Multi(s.Ctx)
	s.Is(err, zklocks.ErrLost)
	if _, err := s.Witness.Client().Multi(h.Guard()...); !errors.Is(err, zk.ErrNoNode) {
		s.Errorf("the guard of a lost hold: %v", err)
	}
	s.Is(h.Release(s.Ctx), zklocks.ErrLost)
	s.Is(h.Release(s.Ctx), zklocks.ErrReleased)
}

// loss is a way in which a client loses its hold, and why says the cause.
type loss struct {
	why  string
	lose func(*client)
}

func (s *scene) losses() []loss {
	return []loss{
		{"node was deleted", func(c *client) { s.kill(c.conn.Session()) }},
		{"session", func(c *client) { s.Expire(c.conn) }},
		{"", func(c *client) { c.conn.Close() }}, // the server may delete the node, and send the event of the deletion, before it confirms the end of the session
	}
}

func lostWhileHolding(s *scene) {
	for i, loss := range s.losses() {
		c, next := s.client(), s.client()
		h := c.lock()
		ctx := h.Context(s.Ctx)
		a := next.waitToBlock(2)
		loss.lose(c)
		s.over(h, ctx)
		s.release(a.Granted())
		if i < 2 { // the connection continues
			s.release(c.lock())
		}
		s.Empty()
	}
}

func lossUnasked(s *scene) {
	for _, loss := range s.losses() {
		c := s.client()
		events := c.observed()
		h := c.lock()
		s.Pass(time.Second)
		loss.lose(c)
		s.Is(h.Release(s.Ctx), zklocks.ErrLost)
		s.Is(h.Release(s.Ctx), zklocks.ErrReleased)
		l := Next[observe.Lost](events, 1)
		s.about(l.LockInfo, h.Token())
		s.Is(l.Cause, zklocks.ErrLost)
		if !strings.Contains(l.Cause.Error(), loss.why) || l.Held <= 0 {
			s.Errorf("%+v, want a cause that says %q", l, loss.why)
		}
		events.Balanced()
		s.Empty()
	}
}

func expiredWhileReleasing(s *scene) {
	c := s.behind()
	h := c.lock()
	f, a := c.meets(proxy.DeleteOp, proxy.HoldRequest, only(h.Release))
	s.Expire(c.conn)
	f.Release()
	a.Ended()
	s.Is(a.Err, zklocks.ErrLost)
	if h.Held() || Closed(h.Lost()) {
		s.Error("a hold that is being released has ended already, as released")
	}
	s.release(c.lock())
}

// requeued makes a victim wait between a holder and another waiter, and takes the victim's place
// from it. The victim is granted the lock in the end, after the other waiter.
func requeued(s *scene) {
	for _, loss := range s.losses()[:2] { // a closed connection has no waiter
		holder, victim, other := s.client(), s.client(), s.client()
		events := victim.observed()
		h := holder.block()
		v := victim.wait(2)
		o := other.waitToBlock(3)
		before := Next[observe.Queued](events, 1)
		loss.lose(victim)
		test.Eventually(s, soon, "the victim stands at the tail", func() bool {
			q := holder.queue()
			return len(q) == 3 && q[1].Session == other.conn.Session() && q[2].Session == victim.conn.Session() && q[2].Token > before.Token
		})
		if again := Next[observe.Queued](events, 2); again.Node == before.Node || again.Token <= before.Token {
			s.Errorf("%+v, then %+v", before, again)
		}
		victim.waits(v)
		s.release(h)
		h = o.Granted()
		victim.waits(v)
		s.release(h)
		got := v.Granted()
		s.Must(got.Verify(s.Ctx))
		s.release(got)
		Next[observe.Called](events, 1) // it is the same call
		events.Balanced()
	}
}

// deletedWithTheHolder makes a waiter receive two events at once: its own nodes were deleted, and
// so were the nodes that it waited for. One event came before the other, but a select cannot detect
// which.
func deletedWithTheHolder(s *scene) {
	holder, victim, other := s.client(), s.behind(), s.client()
	for range 10 {
		h := holder.block()
		ahead := s.nodes(holder.conn.Session())
		watches := victim.proxy.Where(func(r proxy.Request) bool {
			return r.Is(proxy.ReadOp) && r.Watch && ahead[r.Paths[0]] != nil
		}, 1, proxy.HoldReply)
		v := victim.wait(2)
		s.Fired(watches)
		o := other.waitToBlock(3)
		s.kill(victim.conn.Session(), holder.conn.Session())
		watches.Release()
		got := o.Granted()
		s.inLine(2) // the victim has queued again, at the tail
		victim.waits(v)
		s.release(got)
		got = v.Granted()
		s.Must(got.Verify(s.Ctx))
		s.release(got)
		s.Is(h.Release(s.Ctx), zklocks.ErrLost)
	}
}

func closedWhileWaiting(s *scene) {
	c := s.client()
	h := s.client().block()
	a := c.wait(2)
	c.catchUp()    // the client's own Close can hang if a request is under way
	c.conn.Close() // waits up to a second for the server to end the session
	closed := time.Now()
	s.Is(a.Failed(), zk.ErrClosing)
	s.Within("failing", a.At.Sub(closed), 0)
	s.inLine(1)
	s.release(h)
}

func notifiedBeforeTheNext(s *scene) {
	for range 3 {
		conn, p := s.BehindFor(4 * time.Second) // long enough for a busy machine to hold
		victim, next := s.with(conn, p), s.client()
		h := victim.block()
		lost, ctx := h.Lost(), h.Context(s.Ctx)
		var held, lostInTime bool
		a := next.begin(func(ctx context.Context) (*zklocks.Hold, error) {
			got, err := next.Lock(ctx)
			held, lostInTime = h.Held(), Closed(lost)
			return got, err
		})
		s.inLine(2)
		victim.proxy.Mute()
		got := a.Granted()
		if held || !lostInTime {
			s.Errorf("when the next one holds: held %v, lost %v", held, lostInTime)
		}
		s.Is(context.Cause(ctx), zklocks.ErrLost)
		s.release(got)
		victim.proxy.Unmute()
		s.Is(h.Release(s.Ctx), zklocks.ErrLost)
		s.release(victim.lock())
	}
}

func survivorDeleted(s *scene) {
	c := s.with(s.BehindFor(6 * time.Second)) // long enough for a busy machine's reconnects
	h := c.lock()
	c.proxy.MuteReplies() // the client's reconnects keep the session alive
	s.Lost(h.Lost())
	s.inLine(1)
	c.proxy.Unmute()
	s.Empty()
	s.Is(h.Release(s.Ctx), zklocks.ErrLost)
}

func showsTheDeadline(s *scene) {
	const timeout = 4 * time.Second
	c := s.with(s.BehindFor(timeout))
	h := c.lock()
	first := h.ValidUntil()
	if left := time.Until(first); left <= 0 || left > timeout {
		s.Errorf("%v are left", left)
	}
	test.Eventually(s, soon, "a heartbeat moves the deadline", func() bool { return h.ValidUntil().After(first) })
	c.proxy.Mute()
	last := h.ValidUntil()
	s.Lost(h.Lost())
	if at := time.Now(); last.IsZero() || at.Before(last) || s.Virtual() && at.After(last) {
		s.Errorf("lost %v before its deadline, %v", last.Sub(at), last)
	}
	if d := h.ValidUntil(); !d.IsZero() {
		s.Errorf("a lost hold has a deadline: %v", d)
	}
	c.proxy.Unmute()
	s.Is(h.Release(s.Ctx), zklocks.ErrLost)
}
