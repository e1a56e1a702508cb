package proxy_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/leaks"
	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/internal/test/venue"
	"github.com/zklocks/zklocks/internal/wire"
)

func TestMain(m *testing.M) { leaks.Main(m) }

// behind is a client behind a proxy, and a client without a proxy.
type behind struct {
	*proxy.Proxy
	conn    *wire.Conn
	witness *wire.Conn
	dir     string
}

var acl = zk.WorldACL(zk.PermAll)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newBehind(t *testing.T, v venue.Venue, timeout time.Duration) *behind {
	t.Helper()
	p := v.Proxy(t, v.Servers(t)[0])
	b := &behind{
		Proxy:   p,
		conn:    v.Connect(t, timeout, p.Addr()),
		witness: v.Connect(t, 10*time.Second),
		dir:     test.Path(t), // on a server that other tests share
	}
	_, err := b.witness.Client().Create(b.dir, nil, 0, acl)
	must(t, err)
	return b
}

func (b *behind) create() error {
	_, err := b.conn.Client().Create(b.dir+"/n-", nil, zk.FlagEphemeral|zk.FlagSequence, acl)
	return err
}

// committed returns how many nodes the client has created.
func (b *behind) committed(t *testing.T) int {
	t.Helper()
	_, err := b.witness.Client().Sync(b.dir)
	must(t, err)
	return len(test.Children(t, b.witness.Client(), b.dir))
}

// async runs f and sends its error.
func async(f func() error) <-chan error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	return done
}

func fired(t *testing.T, f *proxy.Fault) {
	t.Helper()
	test.Within(t, 10*time.Second, "the fault strikes", func() { <-f.Fired() })
}

func notFired(t *testing.T, f *proxy.Fault) {
	t.Helper()
	select {
	case <-f.Fired():
		t.Error("the fault struck too early")
	default:
	}
}

// pending checks that a call has not returned.
func pending(t *testing.T, done <-chan error) {
	t.Helper()
	select {
	case err := <-done:
		t.Fatalf("the client has an answer: %v", err)
	default:
	}
}

// Each fault does to a create what its name says, once.
func TestFaults(t *testing.T) {
	const timeout = 3 * time.Second
	lost, overloaded := zk.ErrConnectionClosed.Error(), "unknown error: -127"
	for _, c := range []struct {
		action    proxy.Action
		committed int    // nodes when the fault has struck
		holds     bool   // the call returns after Release
		fails     string // the error of the call; "": none
		sooner    time.Duration
	}{
		{action: proxy.CutBefore, committed: 0, fails: lost},
		{action: proxy.CutOnSend, committed: 1, fails: lost},
		{action: proxy.CutAfterCommit, committed: 1, fails: lost},
		{action: proxy.HoldRequest, committed: 0, holds: true},
		{action: proxy.HoldReply, committed: 1, holds: true},
		{action: proxy.DelayRequest(time.Second), committed: 0, sooner: time.Second},
		{action: proxy.DelayReply(time.Second), committed: 1, sooner: time.Second},
		// The client detects the loss, because nothing reaches it.
		{action: proxy.LoseRequest, committed: 0, fails: lost, sooner: timeout / 2},
		{action: proxy.LoseReply, committed: 1, fails: lost, sooner: timeout / 2},
		{action: proxy.Answer(-127), committed: 0, fails: overloaded},
	} {
		t.Run(c.action.String(), func(t *testing.T) {
			t.Parallel()
			venue.InMemory(t, func(t *testing.T, v venue.Venue) {
				b := newBehind(t, v, timeout)
				f := b.Next(proxy.CreateOp, c.action)
				began := time.Now()
				done := async(b.create)
				fired(t, f)
				test.Eventually(t, 10*time.Second, fmt.Sprintf("%d nodes", c.committed), func() bool { return b.committed(t) == c.committed })
				if c.holds {
					pending(t, done)
					f.Release()
				}
				test.Within(t, 20*time.Second, "the create", func() {
					if err := <-done; c.fails == "" && err != nil || c.fails != "" && (err == nil || err.Error() != c.fails) {
						t.Errorf("create: %v, want %q", err, c.fails)
					}
				})
				if took := time.Since(began); took < c.sooner {
					t.Errorf("the create took %v, want at least %v", took, c.sooner)
				}
				want := c.committed
				if c.fails == "" {
					want = 1
				}
				if n := b.committed(t); n != want {
					t.Errorf("%d nodes, want %d", n, want)
				}
				test.Eventually(t, 20*time.Second, "the next create works", func() bool { return b.create() == nil })
			})
		})
	}
}

// Nothing overtakes a held reply, and a held request ends with its connection.
func TestHeldPackets(t *testing.T) {
	t.Parallel()
	venue.InMemory(t, func(t *testing.T, v venue.Venue) {
		b := newBehind(t, v, 20*time.Second)
		_, _, watch, err := b.conn.Client().GetW(b.dir)
		must(t, err)
		reply := b.Next(proxy.CreateOp, proxy.HoldReply)
		done := async(b.create)
		fired(t, reply)
		_, err = b.witness.Client().Set(b.dir, []byte("x"), -1)
		must(t, err)
		synctest.Wait()
		if n := b.Notifications(); n != 0 || len(watch) != 0 {
			t.Errorf("%d events overtook the held reply", n)
		}
		reply.Cancel() // releases the reply, too
		must(t, <-done)
		<-watch
		if n := b.Notifications(); n != 1 {
			t.Errorf("%d notifications, want 1", n)
		}

		request := b.Next(proxy.CreateOp, proxy.HoldRequest)
		done = async(b.create)
		fired(t, request)
		b.Cut()
		if err := <-done; err == nil {
			t.Error("no error after the cut")
		}
		request.Release()
		must(t, b.create())
		if n := b.committed(t); n != 2 {
			t.Errorf("%d nodes, want 2: the held request is lost", n)
		}
	})
}

// The replies before and after an answer come in order, with the right results. A refused request
// sets no watch, and a refused Multi has no results. No handshake is answered.
func TestAnswer(t *testing.T) {
	t.Parallel()
	venue.InMemory(t, func(t *testing.T, v venue.Venue) {
		b := newBehind(t, v, 20*time.Second)
		b.Nth(proxy.CreateOp, 2, proxy.Answer(-127))
		early := b.Next(proxy.ConnectOp, proxy.Answer(-127))
		var replies []<-chan error
		for range 4 {
			replies = append(replies, async(b.create))
		}
		var errs []string
		for _, done := range replies {
			if err := <-done; err != nil {
				errs = append(errs, err.Error())
			}
		}
		if n := b.committed(t); n != 3 || !slices.Equal(errs, []string{"unknown error: -127"}) {
			t.Errorf("%d nodes, errors of four creates: %q", n, errs)
		}
		b.Cut()
		test.Eventually(t, 10*time.Second, "a connection", func() bool { return b.create() == nil })
		notFired(t, early)

		b.Next(proxy.ReadOp, proxy.Answer(-101))
		if _, _, _, err := b.conn.Client().GetW(b.dir); !errors.Is(err, zk.ErrNoNode) {
			t.Errorf("get: %v", err)
		}
		b.Next(proxy.CheckOp, proxy.Answer(-102))
		if results, err := b.conn.Client().Multi(&zk.CheckVersionRequest{Path: b.dir, Version: -1}); !errors.Is(err, zk.ErrNoAuth) || len(results) != 0 {
			t.Errorf("multi: %v, %v", results, err)
		}
		must(t, b.create())
	})
}

// A muted proxy keeps everything from the client, also the end of its session and of its
// connections. Unmute cuts what has lost a packet.
func TestMute(t *testing.T) {
	for name, c := range map[string]struct {
		mute      func(*behind)
		committed int
	}{
		"both":       {func(b *behind) { b.Mute() }, 0},
		"replies":    {func(b *behind) { b.MuteReplies() }, 1},
		"a lost one": {func(b *behind) { b.Next(proxy.CreateOp, proxy.LoseReply) }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			venue.InMemory(t, func(t *testing.T, v venue.Venue) {
				b := newBehind(t, v, 30*time.Second)
				session := b.conn.Session()
				c.mute(b)
				done := async(b.create)
				time.Sleep(time.Second) // virtual
				pending(t, done)
				if n := b.committed(t); n != c.committed {
					t.Errorf("%d nodes, want %d", n, c.committed)
				}
				v.Expire(t, b.conn) // bypasses the proxy
				time.Sleep(time.Second)
				pending(t, done)
				if b.conn.State() != zk.StateHasSession || b.conn.Session() != session {
					t.Error("the client was notified through a black hole")
				}
				b.Unmute()
				synctest.Wait()
				select {
				case err := <-done:
					if err == nil {
						t.Error("the create got through")
					}
				default:
					t.Error("the connection was not cut")
				}
				test.Eventually(t, 10*time.Second, "a new session", func() bool { return b.create() == nil })
			})
		})
	}
}

func TestKindsOfRequests(t *testing.T) {
	t.Parallel()
	venue.InMemory(t, func(t *testing.T, v venue.Venue) {
		b := newBehind(t, v, 30*time.Second)
		var mu sync.Mutex
		var got []proxy.Op
		b.OnRequest(func(op proxy.Op) {
			mu.Lock()
			defer mu.Unlock()
			if op != proxy.PingOp {
				got = append(got, op)
			}
		})
		// The packet counts, not its result: some of these requests fail.
		ephemeral := &zk.CreateRequest{Path: b.dir + "/e-", Acl: acl, Flags: zk.FlagEphemeral | zk.FlagSequence}
		dir := &zk.CreateRequest{Path: b.dir + "/d-", Acl: acl, Flags: zk.FlagSequence}
		set := &zk.SetDataRequest{Path: b.dir, Version: -1}
		check := &zk.CheckVersionRequest{Path: b.dir, Version: -1}
		del := &zk.DeleteRequest{Path: b.dir + "/none", Version: -1}
		for _, call := range []struct {
			want proxy.Op
			do   func()
		}{
			{proxy.CreateOp, func() { b.conn.Client().Create(b.dir+"/a", []byte("data"), zk.FlagEphemeral, acl) }},
			{proxy.MkdirOp, func() { b.conn.Client().Create(b.dir+"/b", nil, 0, acl) }},
			{proxy.MkdirOp, func() { b.conn.Client().Create(b.dir+"/b", nil, zk.FlagSequence, acl) }},
			{proxy.MkdirOp, func() { b.conn.Client().CreateContainer(b.dir+"/c", nil, zk.FlagContainer, acl) }},
			{proxy.DeleteOp, func() { b.conn.Client().Delete(b.dir+"/b", -1) }},
			{proxy.ListOp, func() { b.conn.Client().Children(b.dir) }},
			{proxy.ListOp, func() { b.conn.Client().ChildrenW(b.dir) }},
			{proxy.ReadOp, func() { b.conn.Client().Get(b.dir) }},
			{proxy.ReadOp, func() { b.conn.Client().GetW(b.dir) }},
			{proxy.ExistsOp, func() { b.conn.Client().Exists(b.dir) }},
			{proxy.SetOp, func() { b.conn.Client().Set(b.dir, nil, -1) }},
			{proxy.SyncOp, func() { b.conn.Client().Sync(b.dir) }},
			{proxy.CreateOp, func() { b.conn.Client().Multi(ephemeral, set) }},
			{proxy.CreateOp, func() { b.conn.Client().Multi(check, ephemeral, ephemeral, set) }},
			{proxy.MoveOp, func() { b.conn.Client().Multi(ephemeral, del) }},
			{proxy.DeleteOp, func() { b.conn.Client().Multi(del, del) }},
			{proxy.MkdirOp, func() { b.conn.Client().Multi(check, dir) }},
			{proxy.SetOp, func() { b.conn.Client().Multi(check, set) }},
			{proxy.CheckOp, func() { b.conn.Client().Multi(check) }},
			{proxy.AuthOp, func() { b.conn.Client().AddAuth("digest", []byte("a:b")) }},
			{proxy.OtherOp, func() { b.conn.Client().GetACL(b.dir) }},
		} {
			mu.Lock()
			got = nil
			mu.Unlock()
			call.do()
			mu.Lock()
			if !slices.Equal(got, []proxy.Op{call.want}) {
				t.Errorf("got %v, want %v", got, call.want)
			}
			mu.Unlock()
		}
		if b.Seen(proxy.MoveOp) != 1 || b.Seen(proxy.CheckOp) != 1 || b.Seen(proxy.AuthOp) != 1 || b.Seen(proxy.AnyOp) != 20 {
			t.Errorf("seen %d moves, %d checks, %d auths, %d in all", b.Seen(proxy.MoveOp), b.Seen(proxy.CheckOp), b.Seen(proxy.AuthOp), b.Seen(proxy.AnyOp))
		}
	})
}
