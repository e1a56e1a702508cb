package contract

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/locks"
	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/internal/test/venue"
	"github.com/zklocks/zklocks/observe"
)

var outages = []scenario{
	{"holders and waiters survive a restart of the server", restarted, ownServer},
	{"after the ensemble was restored from a backup the holder is notified, and the next calls succeed", restored, inMemory},
	{"a waiter whose watches are lost on the way back detects the release", watchesLost, 0},
	{"a hold that was waited for survives a cut, and is notified of its loss after it", cutAfterTheWait, 0},
	{"a release in an outage ends with the loss, and the node is deleted later", releasedInAnOutage, 0},
	{"a release ends with the loss, whichever of its requests meets the outage", releasedIntoAnOutage, inMemory},
	{"a bounded wait in an outage takes no longer", leftInAnOutage, inMemory},
}

func restarted(s *scene) {
	server := s.Venue.Standalone(s, venue.Options{})
	s = s.at(server.Addr())
	// real: a new JVM serves after a second, and after more than session on a machine with 45 busy
	// processes.
	holder := s.with(s.Venue.Connect(s, quietSession, s.Server), nil)
	waiter := s.with(s.Venue.Connect(s, quietSession, s.Server), nil)
	h := holder.block()
	lost, ctx := h.Lost(), h.Context(s.Ctx)
	a := waiter.wait(2)
	s.Must(server.Restart())
	holder.catchUp()
	waiter.catchUp()
	if !h.Held() || Closed(lost) || ctx.Err() != nil {
		s.Error("lost by a restart within the session")
	}
	s.Must(h.Verify(s.Ctx))
	a.Waits()
	s.inLine(2)
	s.release(h)
	got := a.Granted()
	s.grows(h, got)
	s.release(got)
	s.Empty()
}

// passes writes until the server has a greater zxid than another.
func (s *scene) passes(other *scene) {
	s.Helper()
	write := func(s *scene) int64 {
		path, err := s.Witness.Client().Create("/written-", nil, zk.FlagSequence, zk.WorldACL(zk.PermAll))
		s.Must(err)
		_, stat, err := s.Witness.Client().Exists(path)
		s.Must(err)
		return stat.Czxid
	}
	for most := write(other); write(s) <= most; {
	}
}

// restored replaces the server by another, which has the lock's directory of earlier, and no session.
// It has gone on since, otherwise it would refuse the clients. The lock values remain.
func restored(s *scene) {
	s.Ctx = context.Background() // all options together take longer than a scenario
	s, backup := s.at(s.Venue.Standalone(s, venue.Options{}).Addr()), s.at(s.Venue.Standalone(s, venue.Options{}).Addr())
	other := backup.client()
	for name, open := range s.options() {
		s.move(test.Path(s))
		backup.move(s.Path)
		lock := func() *client { return &client{backup, open(locks.On(other.conn), s.Path), other.conn, nil} }
		s.release(lock().block())
		s.passes(backup)
		var clients []*client
		for range 2 {
			conn, p := s.Behind()
			clients = append(clients, &client{s, open(locks.On(conn), s.Path), conn, p})
			s.release(clients[0].lock())
		}
		h := clients[0].block()
		a := clients[1].wait(2)
		backup.passes(s)
		for _, c := range clients {
			c.proxy.SetTarget(backup.Server)
			c.proxy.Cut()
			s.Lost(h.Lost())
		}
		got := a.Granted()
		if !s.r.Shared {
			_, err := lock().TryLock(s.Ctx)
			s.Is(err, zklocks.ErrBusy)
		}
		s.release(got)
		s.Is(h.Release(s.Ctx), zklocks.ErrLost)
		for range 2 {
			for _, c := range clients {
				began := time.Now()
				s.release(c.block())
				s.Within(name+": a cycle", time.Since(began), time.Second)
			}
			s.Pass(10 * time.Second) // what a value knows of its directory is old now
		}
		backup.Empty()
		for _, c := range clients {
			c.conn.Close()
		}
	}
}

// watchesLost cuts a client that has reconnected once more, when it sets its watches again.
// Meanwhile the node that it watches is deleted.
func watchesLost(s *scene) {
	holder, c := s.client(), s.behind()
	for _, action := range cuts {
		h := holder.block()
		ahead := s.Dir + "/" + test.Children(s, s.Witness.Client(), s.Dir)[0]
		watches := func(r proxy.Request) bool {
			return r.Is(proxy.ReadOp) && r.Watch && slices.Contains(r.Paths, ahead)
		}
		watch := c.proxy.Where(watches, 1, proxy.HoldReply)
		a := c.wait(2)
		s.Fired(watch)
		watch.Release()
		c.catchUp()
		// The client sets its own watches again. The waiter sets the watches again that end with
		// the connection.
		again := c.proxy.Where(func(r proxy.Request) bool { return r.Is(proxy.WatchesOp) || watches(r) }, 1, action)
		c.proxy.Cut()
		s.Fired(again)
		c.proxy.Refuse()
		s.release(h)
		s.Must(c.proxy.Accept())
		s.release(a.Granted())
	}
}

// cutAfterTheWait: the watches that a waiter sets end with the network connection, and the waiter
// uses them further when it has become a holder.
func cutAfterTheWait(s *scene) {
	holder, c := s.client(), s.behind()
	h := holder.block()
	a := c.wait(2)
	c.catchUp()
	s.release(h)
	got := a.Granted()
	lost := got.Lost()
	for range 3 {
		c.proxy.Cut()
		c.catchUp()
	}
	s.Must(got.Verify(s.Ctx))
	if Closed(lost) || !got.Held() {
		s.Error("lost by a cut")
	}
	s.kill(c.conn.Session())
	test.Within(s, soon, "it is notified of its loss", func() { <-lost })
	err := got.Release(s.Ctx)
	if s.Is(err, zklocks.ErrLost); err != nil && !strings.Contains(err.Error(), "its node was deleted") {
		s.Errorf("lost by something else: %v", err)
	}
	s.EmptyNow()
}

// releasedInAnOutage cuts a holder off, for good until its release has returned.
func releasedInAnOutage(s *scene) {
	for _, outage := range []struct {
		begin   func(*proxy.Proxy)
		release func(context.Context, *zklocks.Hold) error
	}{
		{(*proxy.Proxy).Mute, func(ctx context.Context, h *zklocks.Hold) error { return h.Release(ctx) }},
		{(*proxy.Proxy).Refuse, func(_ context.Context, h *zklocks.Hold) error { return h.Release(context.Background()) }},
		{(*proxy.Proxy).Refuse, func(ctx context.Context, h *zklocks.Hold) error {
			given := func(context.Context) (*zklocks.Hold, error) { return h, nil }
			return zklocks.Do(context.Background(), given, func(context.Context, *zklocks.Hold) error { return nil })
		}},
	} {
		c := s.with(s.BehindFor(4 * time.Second))
		events := c.observed()
		h := c.lock()
		s.Pass(20 * time.Second)
		outage.begin(c.proxy)
		deadline := h.ValidUntil()
		a := c.begin(only(func(ctx context.Context) error { return outage.release(ctx, h) }))
		err := a.Failed()
		s.Is(err, zklocks.ErrLost)
		if !strings.Contains(err.Error(), "not confirmed: the node is being deleted in the background") {
			s.Errorf("error %q does not say that the release is not confirmed", err)
		}
		s.Within("the release after the deadline", a.At.Sub(deadline), 0)
		l := Next[observe.Lost](events, 1)
		if s.Is(l.Cause, zklocks.ErrLost); !strings.Contains(l.Cause.Error(), "no server has confirmed") {
			s.Errorf("lost in an outage by %q", l.Cause)
		}
		events.Balanced()
		session := c.conn.Session()
		c.proxy.Unmute()
		s.Must(c.proxy.Accept())
		s.Empty()
		c.catchUp()
		if s.Virtual() && c.conn.Session() != session {
			s.Error("the end of the session has deleted the node")
		}
		s.release(c.lock())
	}
}

// releasedIntoAnOutage has an outage begin before the n-th request of a release: with each of the
// recipe's options, after up to four cycles, with another caller in line and without.
func releasedIntoAnOutage(s *scene) {
	const timeout = 4 * time.Second
	s.Ctx = context.Background() // all outages together take longer than a scenario
	for name, open := range s.options() {
		for i := range 5 * 2 * 2 {
			cycles, inLine, block := i%5, i/5%2 == 1, i/10 == 1
			for n, met := int64(0), true; met; n++ { // 0: before the release, of a hold that has lasted
				conn, p := s.BehindFor(timeout)
				c := &client{s, open(locks.On(conn), s.Path), conn, p}
				lock := c.Lock
				if block {
					lock = c.Block
				}
				for range cycles {
					s.release(c.begin(lock).Granted())
				}
				h := c.begin(lock).Granted()
				var next *attempt
				if inLine {
					next = c.begin(lock)
				}
				s.Settle()
				var requests atomic.Int64
				outage := make(chan time.Time, 1)
				if n == 0 {
					s.Pass(20 * time.Second)
					p.Mute()
					outage <- time.Now()
					s.Pass(time.Second / 2)
				}
				p.OnRequest(func(proxy.Op) {
					if requests.Add(1) == n {
						p.Mute()
						outage <- time.Now()
					}
				})
				a := c.begin(only(func(context.Context) error { return h.Release(context.Background()) }))
				a.Ended()
				p.OnRequest(nil)
				if a.Err != nil {
					s.Is(a.Err, zklocks.ErrLost)
				}
				select {
				case began := <-outage:
					took := a.At.Sub(began)
					if took > 0 && !inLine && a.Err == nil {
						s.Errorf("%s, %d cycles, block %v: a release waits %v for request %d, and returns nil without an answer", name, cycles, block, took, n)
					}
					if took > timeout+time.Second {
						s.Errorf("%s, %d cycles, in line %v, block %v: request %d of a release waits %v", name, cycles, inLine, block, n, took)
					}
				default:
					met = false
				}
				if next != nil {
					next.Cancel()
					if <-next.Done; next.Err == nil {
						_ = next.Hold.Release(context.Background())
					}
				}
				p.Unmute()
				s.release(c.lock())
				if s.Failed() {
					return
				}
				conn.Close()
			}
		}
	}
}

// leftInAnOutage: the client knows of the outage, so it does not wait for an answer to the deletion
// of its node.
func leftInAnOutage(s *scene) {
	const patience = 2 * time.Second
	for _, begin := range []func(*proxy.Proxy){(*proxy.Proxy).Mute, (*proxy.Proxy).Refuse} {
		holder, c := s.client(), s.with(s.BehindFor(4*time.Second))
		h := holder.block()
		a := c.begin(zklocks.Within(patience, c.Lock))
		s.inLine(2)
		c.catchUp()
		begin(c.proxy)
		err := a.Failed()
		s.Is(err, context.DeadlineExceeded)
		s.Is(err, zklocks.ErrNoAnswer)
		if !strings.Contains(err.Error(), "the node may stay until the session ends") {
			s.Errorf("error %q does not say that the node may stay", err)
		}
		s.Within("the call", a.At.Sub(a.Began), patience)
		c.proxy.Unmute()
		s.Must(c.proxy.Accept())
		s.inLine(1)
		s.release(h)
	}
}
