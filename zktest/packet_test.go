package zktest_test

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/zktest"
)

// one is a host with a connection.
type one struct {
	server *zktest.Server
	*zktest.Host
	conn *zk.Conn
}

func newOne(t *testing.T) one {
	t.Helper()
	s := zktest.NewServer(t)
	a := s.Host("a")
	o := one{s, a, a.Connect(t, 10*time.Second).Client()}
	_, err := o.conn.Create("/dir", nil, 0, acl)
	must(t, err)
	return o
}

func (o one) create() error {
	_, err := o.conn.Create("/dir/n-", nil, zk.FlagEphemeral|zk.FlagSequence, acl)
	return err
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

// The proxy's tests show what each action does, and of what kind a request of the program is.
func TestActionsAndKindsAreTheProxys(t *testing.T) {
	for action, name := range map[zktest.Action]string{
		zktest.CutBefore: "cut before", zktest.CutOnSend: "cut on send", zktest.CutAfterCommit: "cut after commit",
		zktest.HoldRequest: "hold request", zktest.HoldReply: "hold reply", zktest.LoseRequest: "lose request", zktest.LoseReply: "lose reply",
		zktest.DelayRequest(time.Second): "hold request for 1s", zktest.DelayReply(time.Minute): "hold reply for 1m0s", zktest.Answer(-127): "answer -127",
	} {
		if action.String() != name {
			t.Errorf("%q is called %q", name, action)
		}
	}
	same := map[zktest.Op]string{zktest.Handshake: "connect", zktest.Rewatch: "watches"}
	for op := zktest.Any; op <= zktest.Close; op++ {
		if name := cmp.Or(same[op], strings.ToLower(op.String())); name != proxy.Op(op).String() {
			t.Errorf("%v is the proxy's %v", op, proxy.Op(op))
		}
	}
	if name := zktest.Op(99).String(); name != "unknown" {
		t.Errorf("a kind that does not exist is called %q", name)
	}
}

// What the client sends by itself is no request of the program.
func TestWhatTheClientSendsByItself(t *testing.T) {
	bubble(t, func(t *testing.T) {
		o := newOne(t)
		_, _, _, err := o.conn.GetW("/dir")
		must(t, err)
		before := o.Seen(zktest.Any)
		o.Cut()
		time.Sleep(30 * time.Second)
		o.conn.Close()
		time.Sleep(time.Second)
		if o.Seen(zktest.Handshake) != 2 || o.Seen(zktest.Rewatch) != 1 || o.Seen(zktest.Ping) == 0 || o.Seen(zktest.Close) != 1 || o.Seen(zktest.Any) != before {
			t.Errorf("%d handshakes, %d rewatches, %d pings, %d closes, %d requests", o.Seen(zktest.Handshake), o.Seen(zktest.Rewatch), o.Seen(zktest.Ping), o.Seen(zktest.Close), o.Seen(zktest.Any)-before)
		}
	})
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
