package zktest_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/zktest"
)

// one is a host with a connection, and a second connection that sees what the server has done.
type one struct {
	server *zktest.Server
	*zktest.Host
	conn, witness *zk.Conn
}

func newOne(t *testing.T) one {
	t.Helper()
	s := zktest.NewServer(t)
	a := s.Host("a")
	o := one{s, a, a.Connect(t, 10*time.Second).Client(), s.Host("b").Connect(t, 10*time.Second).Client()}
	_, err := o.conn.Create("/dir", nil, 0, acl)
	must(t, err)
	return o
}

func (o one) create() error {
	_, err := o.conn.Create("/dir/n-", nil, zk.FlagEphemeral|zk.FlagSequence, acl)
	return err
}

func (o one) nodes(t *testing.T) int {
	t.Helper()
	names, _, err := o.witness.Children("/dir")
	must(t, err)
	return len(names)
}

func TestPacketFaults(t *testing.T) {
	for _, c := range []struct {
		action zktest.Action
		fails  string // the error of the create that is struck
		nodes  int    // how many nodes the create has made
		took   time.Duration
	}{
		{zktest.CutBefore, zk.ErrConnectionClosed.Error(), 0, 0},
		{zktest.CutOnSend, zk.ErrConnectionClosed.Error(), 1, 0},
		{zktest.CutAfterCommit, zk.ErrConnectionClosed.Error(), 1, 0},
		{zktest.DelayRequest(3 * time.Second), "", 1, 3 * time.Second},
		{zktest.DelayReply(3 * time.Second), "", 1, 3 * time.Second},
		{zktest.LoseRequest, zk.ErrConnectionClosed.Error(), 0, 6 * time.Second}, // two thirds of the session timeout
		{zktest.LoseReply, zk.ErrConnectionClosed.Error(), 1, 6 * time.Second},
		{zktest.DelayRequest(0), "", 1, 0},
		{zktest.Answer(-127), "unknown error: -127", 0, 0},
	} {
		t.Run(c.action.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				o := newOne(t)
				f := o.Nth(zktest.Create, 2, c.action)
				must(t, o.create())
				began := time.Now()
				err := o.create()
				if err == nil && c.fails != "" || err != nil && err.Error() != c.fails {
					t.Errorf("the create: %v, want %q", err, c.fails)
				}
				if took := time.Since(began); took < c.took || took > c.took+time.Second {
					t.Errorf("it took %v, want %v", took, c.took)
				}
				select {
				case <-f.Fired():
				default:
					t.Error("the fault did not strike")
				}
				time.Sleep(time.Millisecond) // the server may not have executed the request yet
				if n := o.nodes(t) - 1; n != c.nodes {
					t.Errorf("it has made %d nodes, want %d", n, c.nodes)
				}
				eventually(t, 10*time.Second, o.create)
			})
		})
	}
}

func TestHeldPackets(t *testing.T) {
	for _, c := range []struct {
		action zktest.Action
		nodes  int
	}{{zktest.HoldRequest, 0}, {zktest.HoldReply, 1}, {zktest.DelayRequest(3 * time.Second), 0}, {zktest.DelayReply(3 * time.Second), 1}} {
		t.Run(c.action.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				o := newOne(t)
				for _, end := range []func(*zktest.Fault){(*zktest.Fault).Release, (*zktest.Fault).Cancel} {
					before := o.nodes(t)
					f := o.Next(zktest.Create, c.action)
					done := make(chan error, 1)
					go func() { done <- o.create() }()
					<-f.Fired()
					time.Sleep(time.Second)
					if n := o.nodes(t) - before; n != c.nodes {
						t.Errorf("%d nodes while it is held, want %d", n, c.nodes)
					}
					select {
					case err := <-done:
						t.Errorf("the create has returned: %v", err)
					default:
					}
					end(f)
					must(t, <-done)
				}
			})
		})
	}
}

func TestCanceledFaultsDoNotStrike(t *testing.T) {
	bubble(t, func(t *testing.T) {
		o := newOne(t)
		f := o.Next(zktest.Any, zktest.CutBefore)
		f.Cancel()
		must(t, o.create())
		o.Next(zktest.Create, zktest.HoldReply).Release() // holds for no time
		must(t, o.create())
	})
}

// The fault is canceled while the server has the request and has not answered it.
func TestAFaultThatIsCanceledBeforeTheReplyDoesNotStrike(t *testing.T) {
	for _, action := range []zktest.Action{zktest.CutAfterCommit, zktest.LoseReply, zktest.HoldReply} {
		t.Run(fmt.Sprint(action), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				o := newOne(t)
				m := o.server.Members()[0]
				m.Pause()
				f := o.Next(zktest.Create, action)
				made := make(chan error, 1)
				go func() { made <- o.create() }()
				synctest.Wait()
				time.Sleep(time.Second) // virtual: the request is at the server
				f.Cancel()
				m.Resume()
				must(t, <-made)
				select {
				case <-f.Fired():
					t.Error("it has struck")
				default:
				}
			})
		})
	}
}

func TestWhere(t *testing.T) {
	bubble(t, func(t *testing.T) {
		o := newOne(t)
		var seen []zktest.Request
		f := o.Where(func(r zktest.Request) bool {
			seen = append(seen, r)
			return r.Is(zktest.Read) && r.Watch && slices.Contains(r.Paths, "/dir")
		}, 1, zktest.CutBefore)
		_, _, err := o.conn.Get("/dir")
		must(t, err)
		_, _, _, err = o.conn.GetW("/")
		must(t, err)
		if _, _, _, err := o.conn.GetW("/dir"); !errors.Is(err, zk.ErrConnectionClosed) {
			t.Errorf("get: %v", err)
		}
		<-f.Fired()
		if len(seen) != 3 || seen[0].Op != zktest.Read || seen[0].Is(zktest.Create) || !seen[0].Is(zktest.Any) || seen[0].Is(-1) {
			t.Errorf("seen %v", seen)
		}
	})
}

// Each request has the kind that it is named after.
func TestOps(t *testing.T) {
	bubble(t, func(t *testing.T) {
		o := newOne(t)
		ephemeral := &zk.CreateRequest{Path: "/dir/e-", Acl: acl, Flags: zk.FlagEphemeral | zk.FlagSequence}
		check := &zk.CheckVersionRequest{Path: "/dir", Version: -1}
		calls := map[zktest.Op]func() error{
			zktest.Create: o.create,
			zktest.Mkdir:  func() error { _, err := o.conn.Create("/dir/x", nil, 0, acl); return err },
			zktest.List:   func() error { _, _, err := o.conn.Children("/dir"); return err },
			zktest.Read:   func() error { _, _, err := o.conn.Get("/dir"); return err },
			zktest.Exists: func() error { _, _, err := o.conn.Exists("/dir"); return err },
			zktest.Set:    func() error { _, err := o.conn.Set("/dir", nil, -1); return err },
			zktest.Check:  func() error { _, err := o.conn.Multi(check); return err },
			zktest.Sync:   func() error { _, err := o.conn.Sync("/dir"); return err },
			zktest.Other:  func() error { _, _, err := o.conn.GetACL("/dir"); return err },
			zktest.Auth:   func() error { return o.conn.AddAuth("digest", []byte("a:b")) },
		}
		for op, call := range calls {
			before := o.Seen(op)
			must(t, call())
			if n := o.Seen(op) - before; n != 1 {
				t.Errorf("%d requests seen as %v", n, op)
			}
		}
		names, _, err := o.conn.Children("/dir")
		must(t, err)
		_, err = o.conn.Multi(ephemeral, &zk.DeleteRequest{Path: "/dir/" + names[0], Version: -1})
		must(t, err)
		must(t, o.conn.Delete("/dir/"+names[1], -1))
		if o.Seen(zktest.Move) != 1 || o.Seen(zktest.Delete) != 2 || o.Seen(zktest.Create) != 2 {
			t.Errorf("%d moves, %d deletes, %d creates", o.Seen(zktest.Move), o.Seen(zktest.Delete), o.Seen(zktest.Create))
		}
		_, _, _, err = o.conn.GetW("/dir")
		must(t, err)
		o.Cut()
		time.Sleep(30 * time.Second)
		o.conn.Close()
		time.Sleep(time.Second)
		if o.Seen(zktest.Handshake) != 2 || o.Seen(zktest.Rewatch) != 1 || o.Seen(zktest.Ping) == 0 || o.Seen(zktest.Close) != 1 {
			t.Errorf("%d handshakes, %d rewatches, %d pings, %d closes", o.Seen(zktest.Handshake), o.Seen(zktest.Rewatch), o.Seen(zktest.Ping), o.Seen(zktest.Close))
		}
	})
}

func TestOpsHaveNames(t *testing.T) {
	names := map[string]bool{}
	for op := zktest.Any; op <= zktest.Close; op++ {
		names[op.String()] = true
	}
	if len(names) != 17 || names["unknown"] || names[""] || !names["Handshake"] || zktest.Op(99).String() != "unknown" {
		t.Errorf("names: %v", names)
	}
	if s := zktest.Answer(-127).String(); !strings.Contains(s, "-127") {
		t.Errorf("an answer is %q", s)
	}
}

// Heal cuts a connection that has lost a packet in a packet fault.
func TestHealCutsWhatHasLostAPacket(t *testing.T) {
	bubble(t, func(t *testing.T) {
		o := newOne(t)
		f := o.Next(zktest.Create, zktest.LoseReply)
		done := make(chan error, 1)
		go func() { done <- o.create() }()
		<-f.Fired()
		began := time.Now()
		o.Heal()
		if err := <-done; !errors.Is(err, zk.ErrConnectionClosed) || time.Since(began) > time.Millisecond {
			t.Errorf("create: %v after %v", err, time.Since(began))
		}
	})
}

// In an ensemble a fault strikes at the member that the client uses.
func TestPacketFaultsAtAnEnsemble(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := zktest.NewServer(t, zktest.WithMembers(3))
		a := s.Host("a")
		conn := a.Connect(t, 20*time.Second).Client()
		for range 5 {
			f := a.Next(zktest.Create, zktest.CutAfterCommit)
			if _, err := conn.Create("/n-", nil, zk.FlagEphemeral|zk.FlagSequence, acl); err == nil {
				t.Error("no error")
			}
			<-f.Fired()
		}
	})
}
