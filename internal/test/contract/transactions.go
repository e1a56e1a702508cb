package contract

import (
	"context"
	"errors"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test/proxy"
)

var transactions = []scenario{
	{"a transaction answers for the operations of the caller alone", multiAnswers, 0},
	{"an operation of the caller that is refused is no loss", multiRefused, 0},
	{"a transaction takes place only while the lock is held", multiEnds, 0},
	{"a transaction that finds the node deleted reports the loss", multiLoses, 0},
	{"the guards of two holds make one transaction", guardsOfTwo, 0},
	{"a transaction whose answer is lost is not repeated", multiOnce, 0},
	{"a transaction whose answer is lost with the hold says both", multiUnanswered, 0},
	{"a transaction that a server throws away is sent again", multiThrottled, 0},
	{"a transaction waits for a connection as long as its context lives", multiOffline, 0},
	{"a transaction that no server takes is an error at once", multiTooLarge, 0},
}

// target is a node to write to. It is deleted at the end of the witness's session.
type target struct {
	*scene
	path string
}

func (s *scene) target() target {
	s.Helper()
	n := target{s, s.Path + "-data"}
	_, err := s.Witness.Client().Create(n.path, nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
	s.Must(err)
	return n
}

// set returns the operation that writes the node.
func (n target) set() *zk.SetDataRequest {
	return &zk.SetDataRequest{Path: n.path, Data: []byte("x"), Version: -1}
}

// written asserts how often the node was written.
func (n target) written(times int32) {
	n.Helper()
	_, stat, err := n.Witness.Client().Exists(n.path)
	n.Must(err)
	if stat.Version != times {
		n.Errorf("written %d times, want %d", stat.Version, times)
	}
}

// multi makes a transaction of a hold, and returns only the error.
func multi(h *zklocks.Hold, ops ...any) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := h.Multi(ctx, ops...)
		return err
	}
}

// lives asserts that an error does not say that the hold has ended, because the hold lives.
func (s *scene) lives(h *zklocks.Hold, err error) {
	s.Helper()
	if errors.Is(err, zklocks.ErrLost) || errors.Is(err, zklocks.ErrReleased) {
		s.Errorf("the hold has not ended: %v", err)
	}
	if !h.Held() || h.Err() != nil || h.ValidUntil().IsZero() {
		s.Errorf("held %v, %v, deadline %v", h.Held(), h.Err(), h.ValidUntil())
	}
	s.Must(h.Verify(s.Ctx))
}

func multiAnswers(s *scene) {
	n := s.target()
	h := s.client().lock()
	made := &zk.CreateRequest{Path: n.path + "-made", Flags: zk.FlagEphemeral, Acl: zk.WorldACL(zk.PermAll)}
	replies, err := h.Multi(s.Ctx, made, n.set(), n.set(), &zk.DeleteRequest{Path: made.Path, Version: -1})
	s.Must(err)
	if len(replies) != 4 || replies[0].String != made.Path || replies[1].Stat.Version != 1 || replies[2].Stat.Version != 2 {
		s.Fatalf("%+v", replies)
	}
	for i, r := range replies {
		if r.Error != nil {
			s.Errorf("operation %d: %v", i, r.Error)
		}
	}
	n.written(2)
	replies, err = h.Multi(s.Ctx)
	s.Must(err)
	if len(replies) != 0 {
		s.Errorf("%d replies to no operations", len(replies))
	}
	s.lives(h, nil)
	s.release(h)
}

func multiRefused(s *scene) {
	n := s.target()
	h := s.client().lock()
	for _, row := range []struct {
		op   any
		want error
	}{
		{&zk.DeleteRequest{Path: n.path + "-missing", Version: -1}, zk.ErrNoNode},
		{&zk.SetDataRequest{Path: n.path + "-missing", Version: -1}, zk.ErrNoNode},
		{&zk.CheckVersionRequest{Path: n.path + "-missing", Version: -1}, zk.ErrNoNode},
		{&zk.CreateRequest{Path: n.path, Acl: zk.WorldACL(zk.PermAll)}, zk.ErrNodeExists},
		{&zk.SetDataRequest{Path: n.path, Version: 7}, zk.ErrBadVersion},
	} {
		for at := range 3 { // among writes that are not refused
			ops := []any{n.set(), n.set(), n.set()}
			ops[at] = row.op
			replies, err := h.Multi(s.Ctx, ops...)
			s.Is(err, row.want)
			if err == nil || !strings.HasPrefix(err.Error(), s.r.Package+": multi "+s.r.named(s.Path)+": ") {
				s.Errorf("error %q", err)
			}
			if len(replies) != len(ops) || !errors.Is(replies[at].Error, row.want) {
				s.Errorf("operation %d is refused: %+v", at, replies)
			}
			s.lives(h, err)
			n.written(0) // all or nothing
		}
	}
	s.Must(multi(h, n.set())(s.Ctx))
	n.written(1)
	s.release(h)
}

func multiEnds(s *scene) {
	n := s.target()
	for i, row := range []struct {
		end  func(*client, *zklocks.Hold)
		want error
	}{
		{func(c *client, h *zklocks.Hold) { s.release(h) }, zklocks.ErrReleased},
		{func(c *client, h *zklocks.Hold) { s.kill(c.conn.Session()); s.Lost(h.Lost()) }, zklocks.ErrLost},
		{func(c *client, h *zklocks.Hold) { s.Expire(c.conn); s.Lost(h.Lost()) }, zklocks.ErrLost},
		{func(c *client, h *zklocks.Hold) { c.conn.Close() }, zklocks.ErrLost},
	} {
		c := s.behind()
		h := c.lock()
		s.Must(multi(h, n.set())(s.Ctx))
		row.end(c, h)
		asked := c.proxy.Seen(proxy.SetOp)
		for range 2 {
			err := multi(h, n.set())(s.Ctx)
			s.Is(err, row.want)
			if err != nil && !strings.HasPrefix(err.Error(), s.r.Package+": multi "+s.r.named(s.Path)+": ") {
				s.Errorf("end %d: error %q", i, err)
			}
		}
		if asked = c.proxy.Seen(proxy.SetOp) - asked; asked != 0 {
			s.Errorf("end %d: %d requests of a hold that has ended", i, asked)
		}
		n.written(int32(i + 1))
		if err := h.Release(s.Ctx); row.want == zklocks.ErrLost {
			s.Is(err, zklocks.ErrLost)
		}
		s.Empty()
	}
}

// multiLoses has no other request for the node, so that the transaction is the first to detect the
// loss.
func multiLoses(s *scene) {
	n := s.target()
	c := s.client()
	for range 3 {
		h := c.lock()
		s.kill(c.conn.Session())
		err := multi(h, n.set(), &zk.DeleteRequest{Path: n.path + "-missing", Version: -1})(s.Ctx)
		s.Is(err, zklocks.ErrLost)
		if errors.Is(err, zk.ErrNoNode) || err != nil && !strings.Contains(err.Error(), "its node was deleted") {
			s.Errorf("error %q: as if a node of the caller's were missing", err)
		}
		if h.Held() {
			s.Error("the hold has not ended")
		}
		s.over(h, h.Context(s.Ctx))
		s.Empty()
	}
	n.written(0)
}

func guardsOfTwo(s *scene) {
	n := s.target()
	c, path := s.client(), s.Path
	h := c.lock()
	s.move(path + "-other")
	d := s.client()
	other := d.lock()
	both := func() error {
		_, err := c.conn.Client().Multi(h.Guard(other.Guard(n.set())...)...)
		return err
	}
	s.Must(both())
	replies, err := h.Multi(s.Ctx, other.Guard(n.set())...)
	s.Must(err)
	last := len(replies) - 1
	if last != len(other.Guard()) || replies[last].Stat == nil || replies[last].Stat.Version != 2 {
		s.Errorf("%+v", replies)
	}

	s.release(other)
	s.Is(both(), zk.ErrNoNode)
	err = multi(h, other.Guard(n.set())...)(s.Ctx)
	s.Is(err, zk.ErrNoNode)
	s.lives(h, err)

	other = d.lock()
	s.Must(both())
	s.release(h)
	s.Is(both(), zk.ErrNoNode)
	err = multi(other, h.Guard(n.set())...)(s.Ctx)
	s.Is(err, zk.ErrNoNode)
	s.lives(other, err)
	s.release(other)
	s.Is(both(), zk.ErrNoNode)
	n.written(3)
	s.Empty()
	s.move(path)
}

func multiOnce(s *scene) {
	n := s.target()
	c := s.behind()
	h := c.lock()
	for times, action := range []proxy.Action{proxy.CutBefore, proxy.CutAfterCommit} {
		f := c.proxy.Next(proxy.SetOp, action)
		a := c.ask(multi(h, n.set()))
		err := a.Failed()
		s.Fired(f)
		s.Is(err, zk.ErrConnectionClosed)
		c.catchUp()
		n.written(int32(times))
		s.lives(h, err)
	}
	s.release(h)
}

func multiUnanswered(s *scene) {
	n := s.target()
	c := s.behind()
	h := c.lock()
	_, a := c.meets(proxy.SetOp, proxy.HoldReply, only(multi(h, n.set())))
	ctx, cancel := context.WithCancel(s.Ctx)
	cancel()
	s.Is(h.Release(ctx), context.Canceled)
	c.proxy.Cut()
	err := a.Failed()
	s.Unsure(err, zk.ErrConnectionClosed)
	if !strings.Contains(err.Error(), "already released") {
		s.Errorf("error %q does not say that the hold has ended", err)
	}
	c.catchUp()
	n.written(1)
	s.Empty()
}

func multiThrottled(s *scene) {
	n := s.target()
	c := s.behind()
	h := c.lock()
	for i := range 3 {
		f := c.proxy.Next(proxy.SetOp, proxy.Answer(-127))
		s.Must(multi(h, n.set())(s.Ctx))
		s.Fired(f)
		n.written(int32(i + 1))
	}
	s.release(h)
}

func multiOffline(s *scene) {
	n := s.target()
	c := s.behind()
	h := c.lock()
	c.proxy.Refuse()
	c.offline()
	gives, waits := c.ask(multi(h, n.set())), c.ask(multi(h, n.set()))
	n.written(0) // takes longer than the calls need to begin their wait
	gives.Waits()
	gives.Stop()
	s.Is(gives.Err, context.Canceled)
	waits.Waits()
	s.Must(c.proxy.Accept())
	waits.Granted()
	c.catchUp()
	n.written(1)
	s.lives(h, nil)

	// The hold ends meanwhile, and with it the context of the call.
	c.proxy.Refuse()
	c.offline()
	ctx := h.Context(s.Ctx)
	ends := c.ask(func(context.Context) error { return multi(h, n.set())(ctx) })
	ends.Waits()
	up := c.ask(h.Release)
	s.Is(ends.Failed(), zklocks.ErrReleased)
	s.Must(c.proxy.Accept())
	up.Granted()
	n.written(1)
}

func multiTooLarge(s *scene) {
	n := s.target()
	c := s.behind()
	h := c.lock()
	s.Must(h.Verify(s.Ctx))
	c.catchUp()
	large := n.set()
	large.Data = make([]byte, 1_200_000) // the client itself would send this
	before := c.proxy.Seen(proxy.AnyOp)
	err := multi(h, large)(s.Ctx)
	if err == nil || !strings.Contains(err.Error(), "larger than servers take") || c.proxy.Seen(proxy.AnyOp) != before {
		s.Errorf("error %v, after %d requests", err, c.proxy.Seen(proxy.AnyOp)-before)
	}
	s.lives(h, err)
	n.written(0)
	s.release(h)
}
