package contract

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"os"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/observe"
)

var holding = []scenario{
	{"a hold lasts until it is released", lasts, 0},
	{"the context of Lock bounds the wait and not the hold", boundsTheWait, 0},
	{"a context that is done loses although the lock is free", doneContextLoses, 0},
	{"the context of a hold has its parent's values and end", derives, 0},
	{"a Release with the context of its own hold is the first", releasedByItsOwnContext, 0},
	{"a Release with the context of its own hold waits no longer than its parent", boundedByItsParent, 0},
	{"a Release with the context of another hold does not return the end of that hold", releasedByAnothersContext, 0},
	{"a call with the context of a hold that has ended returns that end", askedByItsOwnContext, 0},
	{"two values on one connection exclude each other", valuesExclude, 0},
	{"options may be changed after New", optionsAreCopied, 0},
	{"the queue shows who holds and who waits", queueShows, 0},
	{"the queue is judged without members that left while it was read", queueWithoutTheLeft, 0},
}

func lasts(s *scene) {
	c := s.client()
	h := c.lock() // on another goroutine than the Release
	lost, ctx := h.Lost(), h.Context(s.Ctx)
	if !h.Held() || h.Err() != nil || Closed(lost) || ctx.Err() != nil || h.ValidUntil().IsZero() {
		s.Errorf("held %v, %v, lost %v, context %v, deadline %v", h.Held(), h.Err(), Closed(lost), ctx.Err(), h.ValidUntil())
	}
	s.Must(h.Verify(s.Ctx))

	s.release(h)
	s.EmptyNow()
	if h.Held() || Closed(lost) || Closed(h.Lost()) || !h.ValidUntil().IsZero() {
		s.Errorf("after the release: held %v, lost %v, deadline %v", h.Held(), Closed(lost), h.ValidUntil())
	}
	s.Is(h.Err(), zklocks.ErrReleased)
	for _, ctx := range []context.Context{ctx, h.Context(s.Ctx)} {
		if ctx.Err() == nil {
			s.Error("the context outlives the hold")
		}
		s.Is(context.Cause(ctx), zklocks.ErrReleased)
	}
	s.Is(h.Verify(s.Ctx), zklocks.ErrReleased)
	_, err := h.Multi(s.Ctx)
	s.Is(err, zklocks.ErrReleased)
	s.Is(h.Release(s.Ctx), zklocks.ErrReleased)
	s.release(c.lock())
}

func boundsTheWait(s *scene) {
	c := s.client()
	ctx, cancel := context.WithCancel(s.Ctx)
	h, err := c.Lock(ctx)
	s.Must(err)
	lost, inside := h.Lost(), h.Context(s.Ctx)
	cancel()
	c.catchUp()
	if !h.Held() || Closed(lost) || inside.Err() != nil {
		s.Error("the hold ended with the context of Lock")
	}
	s.Must(h.Verify(s.Ctx))
	s.release(h)
}

func doneContextLoses(s *scene) {
	c := s.behind()
	why := errors.New("it is not wanted any more")
	canceled, cancel := context.WithCancelCause(s.Ctx)
	cancel(why)
	late, cancelLate := context.WithDeadline(s.Ctx, time.Now())
	defer cancelLate()

	for range 20 { // often enough that it does not succeed by chance
		_, err := c.Lock(canceled)
		s.Is(err, context.Canceled)
		s.Is(err, why)
		_, err = c.TryLock(canceled)
		s.Is(err, context.Canceled)
	}
	for _, call := range []struct {
		verb string
		call lockFunc
	}{{s.r.Lock, c.Lock}, {s.r.TryLock, c.TryLock}} {
		_, err := call.call(late)
		s.Is(err, context.DeadlineExceeded)
		if want := s.r.Package + ": " + call.verb + " " + s.r.named(s.Path) + ": context deadline exceeded"; err.Error() != want {
			s.Errorf("error %q, want %q", err, want)
		}
	}
	if n := c.proxy.Seen(proxy.AnyOp); n != 0 {
		s.Errorf("%d requests for a caller that had left", n)
	}
}

func derives(s *scene) {
	type key struct{}
	why := errors.New("enough")
	parent, cancel := context.WithCancelCause(context.WithValue(s.Ctx, key{}, "value"))
	h := s.client().lock()
	ctx := h.Context(parent)
	if ctx.Value(key{}) != "value" {
		s.Error("the parent's value is missing")
	}
	cancel(why)
	<-ctx.Done()
	s.Is(context.Cause(ctx), why)
	if !h.Held() || h.Context(s.Ctx).Err() != nil {
		s.Error("the hold ended with one of its contexts")
	}
	s.release(h)
}

// ctx = h.Context(ctx); defer h.Release(ctx) is what programs write. The Release cancels the
// context that it was given. It must not take this for the end of its wait, nor for an earlier
// release.
func releasedByItsOwnContext(s *scene) {
	c := s.client()
	events := c.observed()
	for range 20 { // a select chooses any case that is ready
		h := c.lock()
		ctx := h.Context(s.Ctx)
		s.Must(h.Release(ctx))
		s.EmptyNow()
		s.Is(context.Cause(ctx), zklocks.ErrReleased)
		s.Is(h.Release(ctx), zklocks.ErrReleased)

		h = c.lock()
		ctx, cancel := context.WithTimeout(h.Context(h.Context(s.Ctx)), soon)
		s.Must(h.Release(ctx))
		cancel()
		s.EmptyNow()
	}
	Next[observe.Released](events, 40)
	events.Balanced()
}

func boundedByItsParent(s *scene) {
	c := s.behind()
	events := c.observed()
	h := c.lock()
	parent, cancel := context.WithCancel(s.Ctx)
	f, a := c.meets(proxy.DeleteOp, proxy.HoldReply, only(func(context.Context) error { return h.Release(h.Context(parent)) }))
	a.Waits()
	cancel()
	err := a.Failed()
	s.Is(err, context.Canceled)
	if errors.Is(err, zklocks.ErrReleased) {
		s.Errorf("the first Release: %v", err)
	}
	f.Release()

	h = c.lock()
	ended, end := context.WithCancel(h.Context(s.Ctx))
	end()
	s.Is(h.Release(ended), context.Canceled) // this context has ended before
	events.Balanced()
	if n := len(Of[observe.Released](events)); n != 2 {
		s.Errorf("%d releases are observed, want 2", n)
	}
}

func releasedByAnothersContext(s *scene) {
	other, c := s.client(), s.client()
	first := other.lock()
	lost, released := first.Context(s.Ctx), context.Context(nil)
	s.kill(other.conn.Session())
	test.Within(s, soon, "the loss is reported", func() { <-lost.Done() })
	s.Is(first.Release(s.Ctx), zklocks.ErrLost)
	first = other.lock()
	released = first.Context(s.Ctx)
	s.release(first)

	events := c.observed()
	for i, ctx := range []context.Context{lost, released} {
		for range 10 {
			h := c.lock()
			if err := h.Release(ctx); errors.Is(err, zklocks.ErrLost) || errors.Is(err, zklocks.ErrReleased) {
				s.Errorf("a hold that lasted to its Release: %v", err)
			}
			_, err := c.Lock(ctx)
			s.Is(err, context.Canceled)
			if errors.Is(err, zklocks.ErrLost) || errors.Is(err, zklocks.ErrReleased) {
				s.Errorf("a wait that was given up: %v", err)
			}
			s.Empty()
		}
		if n := len(Of[observe.Released](events)); n != 10*(i+1) {
			s.Errorf("%d releases are observed, want %d", n, 10*(i+1))
		}
	}
	events.Balanced()
}

func askedByItsOwnContext(s *scene) {
	c := s.behind()
	for name, question := range map[string]func(*zklocks.Hold, context.Context) error{
		"verify": (*zklocks.Hold).Verify,
		"multi":  func(h *zklocks.Hold, ctx context.Context) error { return multi(h)(ctx) },
	} {
		h := c.lock()
		ctx := h.Context(s.Ctx)
		f, a := c.meets(proxy.CheckOp, proxy.HoldReply, only(func(context.Context) error { return question(h, ctx) }))
		up := c.ask(h.Release)
		err := a.Failed()
		if name == "verify" {
			s.Is(err, zklocks.ErrReleased)
		} else { // an error that matches ErrReleased would say that nothing was done
			s.Unsure(err, context.Canceled)
		}
		f.Release()
		up.Granted()
	}
}

func valuesExclude(s *scene) {
	c := s.client()
	h := c.block()
	other := c.again().waitToBlock(2)
	same := c.waitToBlock(3) // another goroutine, by the same value
	c.waits(other)
	same.Waits()
	s.release(h)
	s.release(other.Granted())
	s.release(same.Granted())
}

func optionsAreCopied(s *scene) {
	acl, data := zk.WorldACL(zk.PermAll), []byte("me")
	c := s.client()
	c.Locker = s.on(c.conn, zklocks.WithACL(acl), zklocks.WithData(data))
	acl[0], data[0] = zk.ACL{}, 'X'
	h := c.lock()
	if q := c.queue(); len(q) != 1 || !bytes.Equal(q[0].Data, []byte("me")) {
		s.Errorf("the queue is %+v", q)
	}
	s.release(h)
}

func queueShows(s *scene) {
	first, second, third := s.client(), s.client(), s.client()
	first.Locker = s.on(first.conn, zklocks.WithData([]byte("first")))
	if q := first.queue(); len(q) != 0 {
		s.Errorf("a lock that was never used has a queue: %v", q)
	}
	h := first.block()
	a := second.waitToBlock(2)
	b := third.wait(3)

	q := third.queue()
	if len(q) != 3 {
		s.Fatalf("%d in the queue, want 3: %v", len(q), q)
	}
	if s.Virtual() && (!q[1].Since.Equal(a.Began.Truncate(time.Millisecond)) || !q[2].Since.Equal(b.Began.Truncate(time.Millisecond))) {
		s.Errorf("in line since %v and %v, want %v and %v", q[1].Since, q[2].Since, a.Began, b.Began)
	}
	permits, blocks := 1, cmp.Or(s.r.Block, s.r.Kind)
	if s.r.Kind == observe.KindPermits {
		permits = s.r.Nodes
	}
	for i, c := range []*client{first, second, third} {
		if q[i].Session != c.conn.Session() || q[i].Holding != (i == 0) || time.Since(q[i].Since).Abs() > time.Minute {
			s.Errorf("member %d: %+v", i, q[i])
		}
		if node := s.nodes(q[i].Session)[q[i].Path]; node == nil || node.Czxid != q[i].Token {
			s.Errorf("member %d: %+v is not of its node: %+v", i, q[i], node)
		}
		if kind := []observe.Kind{blocks, blocks, s.r.Kind}[i]; q[i].Kind != kind || q[i].Permits != permits {
			s.Errorf("member %d: %+v, want one of kind %q with %d permits", i, q[i], kind, permits)
		}
	}
	if q[0].Token != h.Token() || string(q[0].Data) != "first" || q[1].Token <= q[0].Token {
		s.Errorf("%+v", q)
	}
	host, err := os.Hostname()
	s.Must(err)
	if q[0].Host != "" || q[0].Pid != 0 || q[1].Host != host || q[1].Pid != os.Getpid() {
		s.Errorf("the first has data of its own, the second is on %s, %d: %+v", host, os.Getpid(), q[:2])
	}

	a.Stop()
	s.inLine(2)
	if q := third.queue(); len(q) != 2 || q[1].Session != third.conn.Session() {
		s.Errorf("after one has gone: %+v", q)
	}
	s.release(h)
	last := b.Granted()
	if q := first.queue(); len(q) != 1 || !q[0].Holding || q[0].Token != last.Token() {
		s.Errorf("at the end: %+v", q)
	}
	s.release(last)
}

func queueWithoutTheLeft(s *scene) {
	holder, next, looker := s.client(), s.client(), s.behind()
	h := holder.block()
	a := next.wait(2)
	listing := looker.proxy.Next(proxy.ListOp, proxy.HoldReply)
	var members []zklocks.Member
	looked := looker.ask(func(ctx context.Context) (err error) {
		members, err = looker.Queue(ctx)
		return err
	})
	s.Fired(listing)
	s.release(h)
	h = a.Granted()
	listing.Release()
	looked.Granted()
	if len(members) != 1 || !members[0].Holding || members[0].Session != next.conn.Session() {
		s.Errorf("one has left and one holds: %+v", members)
	}
	s.release(h)
}
