package proxy_test

import (
	"bytes"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/jute"
	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/internal/test/venue"
)

// behind is a client behind a proxy, and a client without a proxy.
type behind struct {
	*proxy.Proxy
	conn    *zk.Conn
	witness *zk.Conn
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
		conn:    v.Connect(t, timeout, p.Addr()).Conn, // zk.Connect waits a second before each reconnect
		witness: v.Connect(t, 10*time.Second).Conn,
		dir:     test.Path(t), // on a server that other tests share
	}
	_, err := b.witness.Create(b.dir, nil, 0, acl)
	must(t, err)
	return b
}

func (b *behind) create() error {
	_, err := b.conn.Create(b.dir+"/n-", nil, zk.FlagEphemeral|zk.FlagSequence, acl)
	return err
}

func (b *behind) committed(t *testing.T) int {
	t.Helper()
	_, err := b.witness.Sync(b.dir)
	must(t, err)
	return len(test.Children(t, b.witness, b.dir))
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

func TestProxyForwards(t *testing.T) {
	t.Parallel()
	venue.Both(t, func(t *testing.T, v venue.Venue) {
		b := newBehind(t, v, 10*time.Second)
		for range 3 {
			must(t, b.create())
		}
		if n := b.committed(t); n != 3 || b.Seen(proxy.CreateOp) != 3 || b.Seen(proxy.AnyOp) != 3 || b.Seen(proxy.ConnectOp) != 1 {
			t.Errorf("committed %d, seen %d creates, %d in all, %d handshakes", n, b.Seen(proxy.CreateOp), b.Seen(proxy.AnyOp), b.Seen(proxy.ConnectOp))
		}
	})
}

func TestCutBeforeKeepsTheRequestFromTheServer(t *testing.T) {
	t.Parallel()
	venue.Both(t, func(t *testing.T, v venue.Venue) {
		b := newBehind(t, v, 10*time.Second)
		f := b.Next(proxy.CreateOp, proxy.CutBefore)
		if err := b.create(); err == nil {
			t.Error("no error from a create that was cut")
		}
		fired(t, f)
		if n := b.committed(t); n != 0 {
			t.Errorf("%d nodes, want 0", n)
		}
		must(t, b.create()) // the fault strikes once
		if b.Seen(proxy.CreateOp) != 1 {
			t.Errorf("seen %d creates, want 1: the one that was cut was not forwarded", b.Seen(proxy.CreateOp))
		}
	})
}

func TestCutAfterCommitHidesWhatTheServerHasDone(t *testing.T) {
	t.Parallel()
	venue.Both(t, func(t *testing.T, v venue.Venue) {
		b := newBehind(t, v, 10*time.Second)
		f := b.Next(proxy.CreateOp, proxy.CutAfterCommit)
		if err := b.create(); !errors.Is(err, zk.ErrConnectionClosed) {
			t.Errorf("create: %v", err)
		}
		fired(t, f)
		if n := b.committed(t); n != 1 {
			t.Errorf("%d nodes, want 1", n)
		}
	})
}

func TestCutAfterCommitOfADelete(t *testing.T) {
	t.Parallel()
	venue.Both(t, func(t *testing.T, v venue.Venue) {
		b := newBehind(t, v, 10*time.Second)
		must(t, b.create())
		name := b.dir + "/" + test.Children(t, b.witness, b.dir)[0]
		f := b.Next(proxy.DeleteOp, proxy.CutAfterCommit)
		if err := b.conn.Delete(name, -1); err == nil {
			t.Error("no error from a delete whose reply was lost")
		}
		fired(t, f)
		if n := b.committed(t); n != 0 {
			t.Errorf("%d nodes, want 0", n)
		}
		if err := b.conn.Delete(name, -1); !errors.Is(err, zk.ErrNoNode) {
			t.Errorf("the repeated delete: %v", err)
		}
	})
}

func TestCutOnSendReachesTheServer(t *testing.T) {
	t.Parallel()
	venue.Both(t, func(t *testing.T, v venue.Venue) {
		b := newBehind(t, v, 10*time.Second)
		f := b.Next(proxy.CreateOp, proxy.CutOnSend)
		if err := b.create(); err == nil {
			t.Error("no error from a create that was cut")
		}
		fired(t, f)
		test.Eventually(t, 5*time.Second, "the server has made the node", func() bool { return b.committed(t) == 1 })
	})
}

func TestHoldRequestKeepsItUntilRelease(t *testing.T) {
	t.Parallel()
	venue.Both(t, func(t *testing.T, v venue.Venue) {
		b := newBehind(t, v, 20*time.Second)
		f := b.Next(proxy.CreateOp, proxy.HoldRequest)
		done := async(b.create)
		fired(t, f)
		if n := b.committed(t); n != 0 {
			t.Errorf("%d nodes while the request is held", n)
		}
		f.Release()
		must(t, <-done)
		if n := b.committed(t); n != 1 {
			t.Errorf("%d nodes, want 1", n)
		}
	})
}

func TestHoldReplyKeepsItUntilRelease(t *testing.T) {
	t.Parallel()
	venue.Both(t, func(t *testing.T, v venue.Venue) {
		b := newBehind(t, v, 20*time.Second)
		f := b.Next(proxy.CreateOp, proxy.HoldReply)
		done := async(b.create)
		fired(t, f)
		if n := b.committed(t); n != 1 {
			t.Errorf("%d nodes, want 1: only the reply is held", n)
		}
		select {
		case err := <-done:
			t.Fatalf("the client has the held reply: %v", err)
		default:
		}
		f.Release()
		must(t, <-done)
	})
}

func TestHoldReplyHoldsTheWatchEventsBehindIt(t *testing.T) {
	t.Parallel()
	venue.Both(t, func(t *testing.T, v venue.Venue) {
		b := newBehind(t, v, 20*time.Second)
		_, _, watch, err := b.conn.GetW(b.dir)
		must(t, err)
		f := b.Next(proxy.CreateOp, proxy.HoldReply)
		done := async(b.create)
		fired(t, f)
		_, err = b.witness.Set(b.dir, []byte("x"), -1)
		must(t, err)
		select {
		case e := <-watch:
			t.Errorf("the event overtook the held reply: %v", e)
		default:
		}
		if n := b.Notifications(); n != 0 {
			t.Errorf("%d notifications forwarded", n)
		}
		f.Cancel() // releases the reply, too
		must(t, <-done)
		<-watch
		if n := b.Notifications(); n != 1 {
			t.Errorf("%d notifications, want 1", n)
		}
	})
}

func TestCutEndsAHeldRequest(t *testing.T) {
	t.Parallel()
	venue.Both(t, func(t *testing.T, v venue.Venue) {
		b := newBehind(t, v, 20*time.Second)
		f := b.Next(proxy.CreateOp, proxy.HoldRequest)
		done := async(b.create)
		fired(t, f)
		b.Cut()
		if err := <-done; err == nil {
			t.Error("no error after the cut")
		}
		f.Release()
		must(t, b.create())
		if n := b.committed(t); n != 1 {
			t.Errorf("%d nodes, want 1: the held one is lost", n)
		}
	})
}

func TestNthAndCancel(t *testing.T) {
	t.Parallel()
	venue.Both(t, func(t *testing.T, v venue.Venue) {
		b := newBehind(t, v, 10*time.Second)
		canceled := b.Next(proxy.CreateOp, proxy.CutBefore)
		canceled.Cancel()
		f := b.Nth(proxy.CreateOp, 3, proxy.CutBefore)
		must(t, b.create())
		_, _, err := b.conn.Children(b.dir) // another kind does not count
		must(t, err)
		must(t, b.create())
		notFired(t, f)
		if err := b.create(); err == nil {
			t.Error("the third create went through")
		}
		fired(t, f)
		notFired(t, canceled)
	})
}

func TestTwoFaultsForOneRequestStrikeInTurn(t *testing.T) {
	t.Parallel()
	venue.Both(t, func(t *testing.T, v venue.Venue) {
		b := newBehind(t, v, 10*time.Second)
		first, second := b.Next(proxy.CreateOp, proxy.CutBefore), b.Next(proxy.CreateOp, proxy.CutAfterCommit)
		for range 2 {
			if err := b.create(); err == nil {
				t.Error("a create went through")
			}
		}
		fired(t, first)
		fired(t, second)
		if n := b.committed(t); n != 1 {
			t.Errorf("%d nodes, want 1", n)
		}
	})
}

func TestWhereTellsRequestsApartByPath(t *testing.T) {
	t.Parallel()
	venue.Both(t, func(t *testing.T, v venue.Venue) {
		b := newBehind(t, v, 10*time.Second)
		f := b.Where(func(r proxy.Request) bool {
			return r.Is(proxy.ReadOp) && r.Watch && slices.Contains(r.Paths, b.dir)
		}, 1, proxy.CutBefore)
		_, _, _, err := b.conn.GetW("/")
		must(t, err)
		_, _, err = b.conn.Get(b.dir)
		must(t, err)
		notFired(t, f)
		if _, _, _, err := b.conn.GetW(b.dir); err == nil {
			t.Error("no error")
		}
		fired(t, f)
	})
}

func TestCutHandshake(t *testing.T) {
	t.Parallel()
	venue.Both(t, func(t *testing.T, v venue.Venue) {
		b := newBehind(t, v, 20*time.Second)
		session := b.conn.SessionID()
		f := b.Next(proxy.ConnectOp, proxy.CutAfterCommit)
		b.Cut()
		fired(t, f)
		test.Eventually(t, 10*time.Second, "the session is back", func() bool { return b.create() == nil })
		if b.conn.SessionID() != session {
			t.Error("another session")
		}
	})
}

func TestMuteSwallowsAndUnmuteCuts(t *testing.T) {
	t.Parallel()
	venue.Both(t, func(t *testing.T, v venue.Venue) {
		b := newBehind(t, v, 30*time.Second)
		b.Mute()
		done := async(b.create)
		select {
		case err := <-done:
			t.Fatalf("a muted connection answered: %v", err)
		case <-time.After(200 * time.Millisecond): // real: no event shows that no answer comes
		}
		b.Unmute()
		if err := <-done; err == nil {
			t.Error("no error: the request was swallowed, and the connection has to be cut")
		}
		if n := b.committed(t); n != 0 {
			t.Errorf("%d nodes, want 0", n)
		}
		must(t, b.create())
	})
}

func TestMuteKeepsTheEndOfTheSessionFromTheClient(t *testing.T) {
	t.Parallel()
	venue.Both(t, func(t *testing.T, v venue.Venue) {
		b := newBehind(t, v, 30*time.Second)
		session := b.conn.SessionID()
		must(t, b.create())
		b.Mute()
		v.Expire(t, b.conn) // bypasses the proxy
		if n := b.committed(t); n != 0 {
			t.Errorf("%d nodes, want 0", n)
		}
		if b.conn.State() != zk.StateHasSession || b.conn.SessionID() != session {
			t.Error("the client was notified through a black hole")
		}
		b.Unmute()
		test.Eventually(t, 10*time.Second, "a new session", func() bool {
			id := b.conn.SessionID()
			return id != 0 && id != session && b.conn.State() == zk.StateHasSession
		})
	})
}

func TestMuteOutlastsReconnects(t *testing.T) {
	t.Parallel()
	venue.Both(t, func(t *testing.T, v venue.Venue) {
		b := newBehind(t, v, time.Second) // drops a silent server after 0.7s
		b.Mute()
		test.Eventually(t, 10*time.Second, "the client notices", func() bool { return b.conn.State() != zk.StateHasSession })
		test.Eventually(t, 20*time.Second, "the client tries again", func() bool {
			return b.Live() > 1
		})
		b.Unmute()
		test.Eventually(t, 20*time.Second, "a session again, the old one or another", func() bool { return b.create() == nil })
	})
}

func TestMuteRepliesLetsRequestsThrough(t *testing.T) {
	t.Parallel()
	venue.Both(t, func(t *testing.T, v venue.Venue) {
		b := newBehind(t, v, 30*time.Second)
		b.MuteReplies()
		done := async(b.create)
		test.Eventually(t, 5*time.Second, "the server has made the node", func() bool { return b.committed(t) == 1 })
		test.Eventually(t, 5*time.Second, "its answer is lost", func() bool {
			return b.LostReplies() > 0
		})
		select {
		case err := <-done:
			t.Fatalf("a muted connection answered: %v", err)
		default:
		}
		b.Unmute()
		if err := <-done; err == nil {
			t.Error("no error after the cut")
		}
	})
}

func TestRefuseAndAccept(t *testing.T) {
	t.Parallel()
	venue.Both(t, func(t *testing.T, v venue.Venue) {
		b := newBehind(t, v, 30*time.Second)
		session := b.conn.SessionID()
		b.Refuse()
		b.Refuse()
		if c, err := v.Dial(t.Context(), "tcp", b.Addr()); err == nil {
			c.Close()
			t.Error("accepted while refusing")
		}
		test.Eventually(t, 5*time.Second, "the client notices", func() bool { return b.conn.State() != zk.StateHasSession })
		must(t, b.Accept())
		must(t, b.Accept())
		test.Eventually(t, 10*time.Second, "the session is back", func() bool { return b.create() == nil })
		if b.conn.SessionID() != session {
			t.Error("another session")
		}
	})
}

func TestSetTargetMovesTheNextConnection(t *testing.T) {
	t.Parallel()
	venue.Both(t, func(t *testing.T, v venue.Venue) {
		other := v.Standalone(t, venue.Options{})
		p := v.Proxy(t, v.Servers(t)[0])
		here := v.Connect(t, 10*time.Second, p.Addr())
		p.SetTarget(other.Addr())
		there := v.Connect(t, 10*time.Second, p.Addr())
		path := test.Path(t)
		_, err := here.Create(path, nil, 0, acl)
		must(t, err)
		if ok, _, err := there.Exists(path); err != nil || ok {
			t.Errorf("exists %v, %v: the new connection goes to the old server", ok, err)
		}
	})
}

func TestKindsOfRequests(t *testing.T) {
	t.Parallel()
	venue.Both(t, func(t *testing.T, v venue.Venue) {
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
			{proxy.CreateOp, func() { b.conn.Create(b.dir+"/a", []byte("data"), zk.FlagEphemeral, acl) }},
			{proxy.MkdirOp, func() { b.conn.Create(b.dir+"/b", nil, 0, acl) }},
			{proxy.MkdirOp, func() { b.conn.Create(b.dir+"/b", nil, zk.FlagSequence, acl) }},
			{proxy.MkdirOp, func() { b.conn.CreateContainer(b.dir+"/c", nil, zk.FlagContainer, acl) }},
			{proxy.DeleteOp, func() { b.conn.Delete(b.dir+"/b", -1) }},
			{proxy.ListOp, func() { b.conn.Children(b.dir) }},
			{proxy.ListOp, func() { b.conn.ChildrenW(b.dir) }},
			{proxy.ReadOp, func() { b.conn.Get(b.dir) }},
			{proxy.ReadOp, func() { b.conn.GetW(b.dir) }},
			{proxy.ExistsOp, func() { b.conn.Exists(b.dir) }},
			{proxy.SetOp, func() { b.conn.Set(b.dir, nil, -1) }},
			{proxy.SyncOp, func() { b.conn.Sync(b.dir) }},
			{proxy.CreateOp, func() { b.conn.Multi(ephemeral, set) }},
			{proxy.CreateOp, func() { b.conn.Multi(check, ephemeral, ephemeral, set) }},
			{proxy.MoveOp, func() { b.conn.Multi(ephemeral, del) }},
			{proxy.DeleteOp, func() { b.conn.Multi(del, del) }},
			{proxy.MkdirOp, func() { b.conn.Multi(check, dir) }},
			{proxy.SetOp, func() { b.conn.Multi(check, set) }},
			{proxy.CheckOp, func() { b.conn.Multi(check) }},
			{proxy.AuthOp, func() { b.conn.AddAuth("digest", []byte("a:b")) }},
			{proxy.OtherOp, func() { b.conn.GetACL(b.dir) }},
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

func TestWatchesAreSeenAfterAReconnect(t *testing.T) {
	t.Parallel()
	venue.Both(t, func(t *testing.T, v venue.Venue) {
		b := newBehind(t, v, 30*time.Second)
		_, _, _, err := b.conn.GetW(b.dir)
		must(t, err)
		b.Cut()
		test.Eventually(t, 10*time.Second, "the watch is set again", func() bool { return b.Seen(proxy.WatchesOp) == 1 })
	})
}

func TestHookMayCut(t *testing.T) {
	t.Parallel()
	venue.Both(t, func(t *testing.T, v venue.Venue) {
		b := newBehind(t, v, 10*time.Second)
		b.OnRequest(func(op proxy.Op) {
			if op == proxy.CreateOp {
				b.OnRequest(nil)
				b.Cut()
			}
		})
		if err := b.create(); err == nil {
			t.Error("no error from a create that was cut")
		}
		if n := b.committed(t); n != 0 {
			t.Errorf("%d nodes, want 0", n)
		}
		must(t, b.create())
	})
}

func TestManyClientsThroughCuts(t *testing.T) {
	t.Parallel()
	venue.Both(t, func(t *testing.T, v venue.Venue) {
		p := v.Proxy(t, v.Servers(t)[0])
		var conns []*zk.Conn
		for range 4 {
			conns = append(conns, v.Connect(t, 10*time.Second, p.Addr()).Conn)
		}
		stop := make(chan struct{})
		var wg sync.WaitGroup
		for _, conn := range conns {
			wg.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
						_, _, _ = conn.Exists("/")
						time.Sleep(time.Microsecond) // a goroutine that never waits stops the clock of a bubble
					}
				}
			})
		}
		for range 20 {
			before := p.Seen(proxy.AnyOp)
			test.Eventually(t, 20*time.Second, "requests go through", func() bool { return p.Seen(proxy.AnyOp) > before+20 })
			p.Cut()
		}
		close(stop)
		wg.Wait()
	})
}

// ReadFrame returns the first frames of any stream.
func FuzzReadFrame(f *testing.F) {
	f.Add([]byte{0, 0, 0, 3, 'a', 'b', 'c', 0, 0, 0, 0, 0, 0})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff})
	f.Add([]byte{0, 0, 0, 9, 'a'})
	f.Fuzz(func(t *testing.T, stream []byte) {
		r := bytes.NewReader(stream)
		var again bytes.Buffer
		for {
			body, err := jute.ReadFrame(r)
			if err != nil {
				break
			}
			if err := jute.WriteFrame(&again, body); err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.HasPrefix(stream, again.Bytes()) {
			t.Errorf("%x was read as %x", stream, again.Bytes())
		}
	})
}

func TestHideContainers(t *testing.T) {
	t.Parallel()
	venue.Both(t, func(t *testing.T, v venue.Venue) {
		b := newBehind(t, v, 10*time.Second)
		if _, err := b.conn.CreateContainer(b.dir+"/a", nil, zk.FlagContainer, acl); err != nil {
			t.Fatal(err)
		}
		b.HideContainers()
		multi := func(path string, flags int32) error {
			_, err := b.conn.Multi(&zk.CreateRequest{Path: path, Acl: acl, Flags: flags})
			return err
		}
		if err := multi(b.dir+"/m", zk.FlagContainer); err != zk.ErrBadArguments {
			t.Errorf("a container in a Multi: %v", err)
		}
		if err := multi(b.dir+"/p", zk.FlagPersistent); err != nil {
			t.Errorf("a plain node in a Multi: %v", err)
		}
		test.Eventually(t, 10*time.Second, "an answer", func() bool {
			_, err := b.conn.CreateContainer(b.dir+"/b", nil, zk.FlagContainer, acl)
			return err != nil && err.Error() == "unknown error: -6"
		})
		// After such an answer the server may cut the connection before the reply to a create. So
		// there may be more nodes than successful creates.
		test.Eventually(t, 10*time.Second, "the connection is there again", func() bool { return b.create() == nil })
		left := test.Children(t, b.witness, b.dir)
		if !slices.Contains(left, "a") || slices.Contains(left, "b") || slices.Contains(left, "m") || !slices.Contains(left, "p") {
			t.Errorf("the container made before is to be there and the refused one not: %q", left)
		}
	})
}
