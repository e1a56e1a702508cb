package zktest

import (
	"bytes"
	"errors"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
)

// behind is a client behind a proxy, and a witness that is not.
type behind struct {
	*Proxy
	conn    *zk.Conn
	witness *zk.Conn
	dir     string
}

func newBehind(t *testing.T, timeout time.Duration) *behind {
	t.Helper()
	t.Parallel() // on the shared server, each in its own directory
	p := ProxyFor(t, Servers(t)[0])
	b := &behind{
		Proxy:   p,
		conn:    Connect(t, timeout, p.Addr()), // zk.Connect waits a second before each reconnect
		witness: ConnectForeign(t, 10*time.Second),
		dir:     Path(t),
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
	return len(Children(t, b.witness, b.dir))
}

// async runs f and gives its error.
func async(f func() error) <-chan error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	return done
}

func fired(t *testing.T, f *Fault) {
	t.Helper()
	Within(t, 10*time.Second, "the fault strikes", func() { <-f.Fired() })
}

func notFired(t *testing.T, f *Fault) {
	t.Helper()
	select {
	case <-f.Fired():
		t.Error("the fault struck too early")
	default:
	}
}

func TestProxyForwards(t *testing.T) {
	b := newBehind(t, 10*time.Second)
	for range 3 {
		must(t, b.create())
	}
	if n := b.committed(t); n != 3 || b.Seen(CreateOp) != 3 || b.Seen(AnyOp) != 3 || b.Seen(ConnectOp) != 1 {
		t.Errorf("committed %d, seen %d creates, %d in all, %d handshakes", n, b.Seen(CreateOp), b.Seen(AnyOp), b.Seen(ConnectOp))
	}
}

func TestCutBeforeKeepsTheRequestFromTheServer(t *testing.T) {
	b := newBehind(t, 10*time.Second)
	f := b.Next(CreateOp, CutBefore)
	if err := b.create(); err == nil {
		t.Error("no error from a create that was cut")
	}
	fired(t, f)
	if n := b.committed(t); n != 0 {
		t.Errorf("%d nodes, want 0", n)
	}
	must(t, b.create()) // a fault strikes once
	if b.Seen(CreateOp) != 1 {
		t.Errorf("seen %d creates, want 1: the one that was cut was not forwarded", b.Seen(CreateOp))
	}
}

func TestCutAfterCommitHidesWhatTheServerHasDone(t *testing.T) {
	b := newBehind(t, 10*time.Second)
	f := b.Next(CreateOp, CutAfterCommit)
	if err := b.create(); !errors.Is(err, zk.ErrConnectionClosed) {
		t.Errorf("create: %v", err)
	}
	fired(t, f)
	if n := b.committed(t); n != 1 {
		t.Errorf("%d nodes, want 1", n)
	}
}

func TestCutAfterCommitOfADelete(t *testing.T) {
	b := newBehind(t, 10*time.Second)
	must(t, b.create())
	name := b.dir + "/" + Children(t, b.witness, b.dir)[0]
	f := b.Next(DeleteOp, CutAfterCommit)
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
}

func TestCutOnSendReachesTheServer(t *testing.T) {
	b := newBehind(t, 10*time.Second)
	f := b.Next(CreateOp, CutOnSend)
	if err := b.create(); err == nil {
		t.Error("no error from a create that was cut")
	}
	fired(t, f)
	Eventually(t, 5*time.Second, "the server has made the node", func() bool { return b.committed(t) == 1 })
}

func TestHoldRequestKeepsItUntilRelease(t *testing.T) {
	b := newBehind(t, 20*time.Second)
	f := b.Next(CreateOp, HoldRequest)
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
}

func TestHoldReplyKeepsItUntilRelease(t *testing.T) {
	b := newBehind(t, 20*time.Second)
	f := b.Next(CreateOp, HoldReply)
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
}

func TestHoldReplyHoldsTheWatchEventsBehindIt(t *testing.T) {
	b := newBehind(t, 20*time.Second)
	_, _, watch, err := b.conn.GetW(b.dir)
	must(t, err)
	f := b.Next(CreateOp, HoldReply)
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
	f.Cancel() // lets go, too
	must(t, <-done)
	<-watch
	if n := b.Notifications(); n != 1 {
		t.Errorf("%d notifications, want 1", n)
	}
}

func TestCutEndsAHeldRequest(t *testing.T) {
	b := newBehind(t, 20*time.Second)
	f := b.Next(CreateOp, HoldRequest)
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
}

func TestNthAndCancel(t *testing.T) {
	b := newBehind(t, 10*time.Second)
	canceled := b.Next(CreateOp, CutBefore)
	canceled.Cancel()
	f := b.Nth(CreateOp, 3, CutBefore)
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
}

func TestTwoFaultsForOneRequestStrikeInTurn(t *testing.T) {
	b := newBehind(t, 10*time.Second)
	first, second := b.Next(CreateOp, CutBefore), b.Next(CreateOp, CutAfterCommit)
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
}

func TestWhereTellsRequestsApartByPath(t *testing.T) {
	b := newBehind(t, 10*time.Second)
	f := b.Where(func(r Request) bool {
		return r.Is(ReadOp) && r.Watch && slices.Contains(r.Paths, b.dir)
	}, 1, CutBefore)
	_, _, _, err := b.conn.GetW("/")
	must(t, err)
	_, _, err = b.conn.Get(b.dir)
	must(t, err)
	notFired(t, f)
	if _, _, _, err := b.conn.GetW(b.dir); err == nil {
		t.Error("no error")
	}
	fired(t, f)
}

func TestCutHandshake(t *testing.T) {
	b := newBehind(t, 20*time.Second)
	session := b.conn.SessionID()
	f := b.Next(ConnectOp, CutAfterCommit)
	b.Cut()
	fired(t, f)
	Eventually(t, 10*time.Second, "the session is back", func() bool { return b.create() == nil })
	if b.conn.SessionID() != session {
		t.Error("another session")
	}
}

func TestMuteSwallowsAndUnmuteCuts(t *testing.T) {
	b := newBehind(t, 30*time.Second)
	b.Mute()
	done := async(b.create)
	select {
	case err := <-done:
		t.Fatalf("a muted connection answered: %v", err)
	case <-time.After(200 * time.Millisecond):
	}
	b.Unmute()
	if err := <-done; err == nil {
		t.Error("no error: the request was swallowed, and the connection has to be cut")
	}
	if n := b.committed(t); n != 0 {
		t.Errorf("%d nodes, want 0", n)
	}
	must(t, b.create())
}

func TestMuteKeepsTheEndOfTheSessionFromTheClient(t *testing.T) {
	b := newBehind(t, 30*time.Second)
	session := b.conn.SessionID()
	must(t, b.create())
	b.Mute()
	Expire(t, b.conn) // goes around the proxy
	if n := b.committed(t); n != 0 {
		t.Errorf("%d nodes, want 0", n)
	}
	if b.conn.State() != zk.StateHasSession || b.conn.SessionID() != session {
		t.Error("the client heard of it through a black hole")
	}
	b.Unmute()
	Eventually(t, 10*time.Second, "a new session", func() bool {
		id := b.conn.SessionID()
		return id != 0 && id != session && b.conn.State() == zk.StateHasSession
	})
}

func TestMuteOutlastsReconnects(t *testing.T) {
	b := newBehind(t, time.Second) // gives a silent server up after 0.7s
	b.Mute()
	Eventually(t, 10*time.Second, "the client notices", func() bool { return b.conn.State() != zk.StateHasSession })
	Eventually(t, 20*time.Second, "the client tries again", func() bool {
		return len(b.live(func(*proxyConn) bool { return true })) > 1
	})
	b.Unmute()
	Eventually(t, 20*time.Second, "a session again, the old one or another", func() bool { return b.create() == nil })
}

func TestMuteRepliesLetsRequestsThrough(t *testing.T) {
	b := newBehind(t, 30*time.Second)
	b.MuteReplies()
	done := async(b.create)
	Eventually(t, 5*time.Second, "the server has made the node", func() bool { return b.committed(t) == 1 })
	Eventually(t, 5*time.Second, "its answer is lost", func() bool {
		return len(b.live(func(c *proxyConn) bool { return c.lossy[toClient] })) > 0
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
}

func TestRefuseAndAccept(t *testing.T) {
	b := newBehind(t, 30*time.Second)
	session := b.conn.SessionID()
	b.Refuse()
	b.Refuse()
	if c, err := net.Dial("tcp", b.Addr()); err == nil {
		c.Close()
		t.Error("accepted while refusing")
	}
	Eventually(t, 5*time.Second, "the client notices", func() bool { return b.conn.State() != zk.StateHasSession })
	must(t, b.Accept())
	must(t, b.Accept())
	Eventually(t, 10*time.Second, "the session is back", func() bool { return b.create() == nil })
	if b.conn.SessionID() != session {
		t.Error("another session")
	}
}

func TestSetTargetMovesTheNextConnection(t *testing.T) {
	t.Parallel()
	other := Standalone(t, Options{})
	p := ProxyFor(t, Servers(t)[0])
	here := ConnectForeign(t, 10*time.Second, p.Addr())
	p.SetTarget(other.Addr())
	there := ConnectForeign(t, 10*time.Second, p.Addr())
	path := Path(t)
	_, err := here.Create(path, nil, 0, acl)
	must(t, err)
	if ok, _, err := there.Exists(path); err != nil || ok {
		t.Errorf("exists %v, %v: the new connection goes to the old server", ok, err)
	}
}

func TestRequestsAreToldApart(t *testing.T) {
	b := newBehind(t, 30*time.Second)
	var mu sync.Mutex
	var got []Op
	b.OnRequest(func(op Op) {
		mu.Lock()
		defer mu.Unlock()
		if op != PingOp {
			got = append(got, op)
		}
	})
	// Only what the request is counts; some of these fail, and may.
	ephemeral := &zk.CreateRequest{Path: b.dir + "/e-", Acl: acl, Flags: zk.FlagEphemeral | zk.FlagSequence}
	dir := &zk.CreateRequest{Path: b.dir + "/d-", Acl: acl, Flags: zk.FlagSequence}
	set := &zk.SetDataRequest{Path: b.dir, Version: -1}
	check := &zk.CheckVersionRequest{Path: b.dir, Version: -1}
	del := &zk.DeleteRequest{Path: b.dir + "/none", Version: -1}
	for _, call := range []struct {
		want Op
		do   func()
	}{
		{CreateOp, func() { b.conn.Create(b.dir+"/a", []byte("data"), zk.FlagEphemeral, acl) }},
		{MkdirOp, func() { b.conn.Create(b.dir+"/b", nil, 0, acl) }},
		{MkdirOp, func() { b.conn.Create(b.dir+"/b", nil, zk.FlagSequence, acl) }},
		{MkdirOp, func() { b.conn.CreateContainer(b.dir+"/c", nil, zk.FlagContainer, acl) }},
		{DeleteOp, func() { b.conn.Delete(b.dir+"/b", -1) }},
		{ListOp, func() { b.conn.Children(b.dir) }},
		{ListOp, func() { b.conn.ChildrenW(b.dir) }},
		{ReadOp, func() { b.conn.Get(b.dir) }},
		{ReadOp, func() { b.conn.GetW(b.dir) }},
		{ExistsOp, func() { b.conn.Exists(b.dir) }},
		{SetOp, func() { b.conn.Set(b.dir, nil, -1) }},
		{SyncOp, func() { b.conn.Sync(b.dir) }},
		{CreateOp, func() { b.conn.Multi(ephemeral, set) }},
		{CreateOp, func() { b.conn.Multi(check, ephemeral, ephemeral, set) }},
		{MoveOp, func() { b.conn.Multi(ephemeral, del) }},
		{DeleteOp, func() { b.conn.Multi(del, del) }},
		{MkdirOp, func() { b.conn.Multi(check, dir) }},
		{SetOp, func() { b.conn.Multi(check, set) }},
		{CheckOp, func() { b.conn.Multi(check) }},
		{AuthOp, func() { b.conn.AddAuth("digest", []byte("a:b")) }},
		{OtherOp, func() { b.conn.GetACL(b.dir) }},
	} {
		mu.Lock()
		got = nil
		mu.Unlock()
		call.do()
		mu.Lock()
		if !slices.Equal(got, []Op{call.want}) {
			t.Errorf("got %v, want %v", got, call.want)
		}
		mu.Unlock()
	}
	if b.Seen(MoveOp) != 1 || b.Seen(CheckOp) != 1 || b.Seen(AuthOp) != 1 || b.Seen(AnyOp) != 20 {
		t.Errorf("seen %d moves, %d checks, %d auths, %d in all", b.Seen(MoveOp), b.Seen(CheckOp), b.Seen(AuthOp), b.Seen(AnyOp))
	}
}

func TestWatchesAreSeenAfterAReconnect(t *testing.T) {
	b := newBehind(t, 30*time.Second)
	_, _, _, err := b.conn.GetW(b.dir)
	must(t, err)
	b.Cut()
	Eventually(t, 10*time.Second, "the watch is set again", func() bool { return b.Seen(WatchesOp) == 1 })
}

func TestHookMayCut(t *testing.T) {
	b := newBehind(t, 10*time.Second)
	b.OnRequest(func(op Op) {
		if op == CreateOp {
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
}

func TestManyClientsThroughCuts(t *testing.T) {
	t.Parallel()
	p := ProxyFor(t, Servers(t)[0])
	var conns []*zk.Conn
	for range 4 {
		conns = append(conns, Connect(t, 10*time.Second, p.Addr()))
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
				}
			}
		})
	}
	for range 20 {
		before := p.Seen(AnyOp)
		Eventually(t, 20*time.Second, "requests go through", func() bool { return p.Seen(AnyOp) > before+20 })
		p.Cut()
	}
	close(stop)
	wg.Wait()
}

func FuzzParseRequest(f *testing.F) {
	f.Add([]byte{0, 0, 0, 1, 0, 0, 0, codeMulti, 0, 0, 0, codeCreate, 0, 255, 255, 255, 255, 0, 0, 0, 1, '/'})
	f.Add([]byte{0, 0, 0, 1, 0, 0, 0, codeGetData})
	f.Fuzz(func(t *testing.T, body []byte) {
		r := parseRequest(body) // whatever a client sends: no panic, no endless loop
		if !r.Is(r.Op) {
			t.Errorf("%v is not %v", r, r.Op)
		}
	})
}

// What has been read of a stream are its first frames.
func FuzzReadFrame(f *testing.F) {
	f.Add([]byte{0, 0, 0, 3, 'a', 'b', 'c', 0, 0, 0, 0, 0, 0})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff})
	f.Add([]byte{0, 0, 0, 9, 'a'})
	f.Fuzz(func(t *testing.T, stream []byte) {
		r := bytes.NewReader(stream)
		var again bytes.Buffer
		for {
			body, err := readFrame(r)
			if err != nil {
				break
			}
			if err := writeFrame(&again, body); err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.HasPrefix(stream, again.Bytes()) {
			t.Errorf("%x was read as %x", stream, again.Bytes())
		}
	})
}

// A stream with a gap is nothing that a network can do.
func TestAfterALostPacketNoneGetsThrough(t *testing.T) {
	p := ProxyFor(t, "127.0.0.1:1")
	c := &proxyConn{proxy: p}
	p.MuteReplies()
	if !p.swallows(c, toClient) || p.swallows(c, toServer) {
		t.Error("only replies are mute")
	}
	p.setMute(false, false) // as Unmute begins, before it cuts the connection
	if !p.swallows(c, toClient) || p.swallows(c, toServer) {
		t.Error("a reply behind one that was lost gets through")
	}
	if other := (&proxyConn{proxy: p}); p.swallows(other, toClient) {
		t.Error("a connection that has lost nothing stays mute")
	}
}

func TestHideContainers(t *testing.T) {
	b := newBehind(t, 10*time.Second)
	if _, err := b.conn.CreateContainer(b.dir+"/a", nil, zk.FlagContainer, acl); err != nil {
		t.Fatal(err)
	}
	b.HideContainers()
	Eventually(t, 10*time.Second, "an answer", func() bool {
		_, err := b.conn.CreateContainer(b.dir+"/b", nil, zk.FlagContainer, acl)
		return err != nil && err.Error() == "unknown error: -6"
	})
	// The server may cut the connection behind such an answer, and the reply to a
	// create with it, so there may be more nodes than creates that succeeded.
	Eventually(t, 10*time.Second, "the connection is there again", func() bool { return b.create() == nil })
	left := Children(t, b.witness, b.dir)
	if !slices.Contains(left, "a") || slices.Contains(left, "b") {
		t.Errorf("the container made before is to be there and the refused one not: %q", left)
	}
}
