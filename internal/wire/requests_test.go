package wire_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/internal/test/venue"
	"github.com/zklocks/zklocks/internal/wire"
)

// The reply to each request says what the server has done. The requests themselves are
// go-zookeeper's: TestRequestsAreTheClients.
func TestRequests(t *testing.T) {
	t.Parallel()
	venue.Both(t, func(t *testing.T, v venue.Venue) {
		conn := v.Connect(t, 20*time.Second)
		ask := func(r wire.Request) wire.Reply {
			t.Helper()
			reply, err := conn.Ask(t.Context(), conn.Session(), r)
			must(t, err)
			return reply
		}
		dir := test.Path(t)
		made := ask(wire.Create(dir, nil, 0, open))
		if found := ask(wire.Exists(dir)); made.Path != dir || made.Zxid != found.Stat.Czxid {
			t.Errorf("create: %+v, %+v", made, found.Stat)
		}
		made = ask(wire.Create(dir+"/n-", []byte("data"), zk.FlagEphemeral|zk.FlagSequence, open))
		read := ask(wire.GetData(made.Path))
		if made.Path != dir+"/n-0000000000" || made.Zxid != read.Stat.Czxid || string(read.Data) != "data" || read.Stat.EphemeralOwner != conn.Session() {
			t.Errorf("create: %+v, %+v, %+v", made, read, read.Stat)
		}
		set := ask(wire.SetData(made.Path, []byte("more"), 0))
		if set.Stat.Mzxid != set.Zxid || set.Stat.Version != 1 || set.Stat.DataLength != 4 || string(read.Data) != "data" {
			t.Errorf("write: %+v, %+v, read before: %q", set, set.Stat, read.Data)
		}
		list := ask(wire.Children(dir))
		if !slices.Equal(list.Children, []string{"n-0000000000"}) || list.Stat.NumChildren != 1 || len(ask(wire.Children(made.Path)).Children) != 0 {
			t.Errorf("list: %+v, %+v", list, list.Stat)
		}
		multi := ask(wire.Multi(
			&zk.CheckVersionRequest{Path: dir, Version: 0},
			&zk.CreateRequest{Path: dir + "/n-", Flags: zk.FlagSequence, Acl: open},
			&zk.CreateRequest{Path: dir + "/c", Flags: zk.FlagContainer, Acl: open},
			&zk.SetDataRequest{Path: dir, Data: []byte("x"), Version: 0},
			&zk.DeleteRequest{Path: made.Path, Version: 1}))
		read = ask(wire.GetData(dir))
		if r := multi.Results; len(r) != 5 || r[1].String != dir+"/n-0000000001" || r[2].String != dir+"/c" || r[3].Stat.Mzxid != read.Stat.Mzxid || r[3].Stat.Version != 1 ||
			multi.Zxid != read.Stat.Mzxid || string(read.Data) != "x" || multi.Failed != -1 {
			t.Errorf("multi: %+v, %+v, %+v", multi, read, read.Stat)
		}
		ask(wire.Delete(dir+"/n-0000000001", -1))
		if left := ask(wire.Children(dir)).Children; !slices.Equal(left, []string{"c"}) {
			t.Errorf("left: %q", left)
		}

		// What the server refuses, and of a transaction the index of the operation.
		check := &zk.CheckVersionRequest{Path: dir, Version: -1}
		none := &zk.DeleteRequest{Path: dir + "/none", Version: -1}
		for name, c := range map[string]struct {
			request wire.Request
			err     error
			failed  int
		}{
			"create":       {wire.Create(dir, nil, 0, open), zk.ErrNodeExists, -1},
			"delete":       {wire.Delete(dir+"/none", -1), zk.ErrNoNode, -1},
			"not empty":    {wire.Delete(dir, -1), zk.ErrNotEmpty, -1},
			"read":         {wire.GetData(dir + "/none"), zk.ErrNoNode, -1},
			"exists":       {wire.Exists(dir + "/none"), zk.ErrNoNode, -1},
			"write":        {wire.SetData(dir, nil, 9), zk.ErrBadVersion, -1},
			"list":         {wire.Children(dir + "/none"), zk.ErrNoNode, -1},
			"no ACL":       {wire.Create(dir+"/a", nil, 0, nil), zk.ErrInvalidACL, -1},
			"multi":        {wire.Multi(check, none, check), zk.ErrNoNode, 1},
			"multi, first": {wire.Multi(none, none), zk.ErrNoNode, 0},
		} {
			reply, err := conn.Ask(t.Context(), conn.Session(), c.request)
			if err != c.err || reply.Failed != c.failed {
				t.Errorf("%s: failed %d, %v, want %d, %v", name, reply.Failed, err, c.failed, c.err)
			}
			if strings.HasPrefix(name, "multi") && reply.Results[len(reply.Results)-1].Error != wire.RolledBack {
				t.Errorf("%s: %+v", name, reply.Results)
			}
		}
	})
}

// A request belongs to one session. On the next session's connection it is not sent.
func TestARequestBelongsToItsSession(t *testing.T) {
	behind(t, func(t *testing.T, v venue.Venue, p *proxy.Proxy, conn, witness *wire.Conn) {
		session := conn.Session()
		v.Expire(t, conn)
		test.Eventually(t, 20*time.Second, "a new session", func() bool { return conn.Session() != session && conn.Up() != 0 })
		before := p.Seen(proxy.AnyOp)
		_, err := conn.Ask(t.Context(), session, wire.GetData("/"))
		_, err2 := conn.WatchNodes(t.Context(), session, []string{"/"}, "")
		_, err3 := conn.WatchData(t.Context(), session, "/")
		if err != wire.ErrOver || err2 != wire.ErrOver || err3 != wire.ErrOver || p.Seen(proxy.AnyOp) != before {
			t.Errorf("%v, %v, %v, and %d requests", err, err2, err3, p.Seen(proxy.AnyOp)-before)
		}
		must(t, errOf(conn.Ask(t.Context(), wire.AnySession, wire.GetData("/"))))
	})
}

// The error of a request without a reply says whether the server may have executed it.
func TestRequestsWithoutAReply(t *testing.T) {
	ended, end := context.WithCancel(context.Background())
	end()
	next := func(a proxy.Action) func(*proxy.Proxy) *proxy.Fault {
		return func(p *proxy.Proxy) *proxy.Fault { return p.Next(proxy.SetOp, a) }
	}
	for name, c := range map[string]struct {
		ctx   func(*testing.T) context.Context
		fault func(*proxy.Proxy) *proxy.Fault // nil: none
		do    func(*proxy.Proxy, *wire.Conn)
		want  error
		done  bool // the server has executed it
	}{
		"lost before": {fault: next(proxy.CutBefore), want: zk.ErrConnectionClosed},
		"lost behind": {fault: next(proxy.CutAfterCommit), want: zk.ErrConnectionClosed, done: true},
		"no connection": {do: func(p *proxy.Proxy, _ *wire.Conn) {
			p.Refuse()
			time.Sleep(time.Second) // virtual
		}, want: wire.ErrUnsent},
		"closed":             {do: func(_ *proxy.Proxy, c *wire.Conn) { c.Close() }, want: wire.ErrUnsent},
		"canceled before":    {ctx: func(*testing.T) context.Context { return ended }, want: wire.ErrUnsent},
		"canceled meanwhile": {ctx: soon, fault: next(proxy.HoldReply), want: wire.ErrNoAnswer, done: true},
		"throttled":          {fault: next(proxy.Answer(-127)), want: wire.Throttled},
	} {
		t.Run(name, func(t *testing.T) {
			behind(t, func(t *testing.T, v venue.Venue, p *proxy.Proxy, conn, witness *wire.Conn) {
				path := nodes(t, witness, 1)[0]
				ctx := t.Context()
				if c.ctx != nil {
					ctx = c.ctx(t)
				}
				var f *proxy.Fault
				if c.fault != nil {
					f = c.fault(p)
				}
				if c.do != nil {
					c.do(p, conn)
				}
				if _, err := conn.Ask(ctx, wire.AnySession, wire.SetData(path, nil, -1)); err != c.want {
					t.Errorf("got %v, want %v", err, c.want)
				}
				if f != nil {
					f.Release()
				}
				time.Sleep(time.Second) // virtual time: a request under way arrives
				if _, stat, err := witness.Client().Get(path); err != nil || (stat.Version == 1) != c.done {
					t.Errorf("%+v, %v", stat, err)
				}
			})
		})
	}
}

// soon returns a context that is canceled after a second.
func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	t.Cleanup(cancel)
	return ctx
}

// On each new connection the credentials are the first packets, although the locks send their
// requests at once.
func TestRequestsWaitForTheCredentials(t *testing.T) {
	behind(t, func(t *testing.T, v venue.Venue, p *proxy.Proxy, conn, _ *wire.Conn) {
		path := test.Path(t)
		must(t, errOf(conn.Client().Create(path, nil, 0, zk.AuthACL(zk.PermAll))))
		for range 20 {
			auth := p.Next(proxy.AuthOp, proxy.HoldRequest)
			p.Cut()
			got := make(chan error, 1)
			go func() {
				for {
					_, err := conn.Ask(t.Context(), wire.AnySession, wire.GetData(path))
					if err != wire.ErrUnsent && err != zk.ErrConnectionClosed {
						got <- err
						return
					}
					time.Sleep(time.Millisecond)
				}
			}()
			<-auth.Fired()
			before := p.Seen(proxy.AnyOp)
			time.Sleep(time.Second)
			if n := p.Seen(proxy.AnyOp) - before; n != 0 {
				t.Errorf("%d requests before the credentials", n)
			}
			// A caller that does not wait any more withdraws its request.
			if _, err := conn.Ask(soon(t), wire.AnySession, wire.SetData(path, nil, -1)); err != wire.ErrUnsent {
				t.Errorf("withdrawn: %v", err)
			}
			auth.Release()
			must(t, <-got)
		}
		if _, stat, err := conn.Client().Get(path); err != nil || stat.Version != 0 {
			t.Errorf("%+v, %v", stat, err)
		}
	}, wire.WithDigestAuth("ann", "secret"))
}
