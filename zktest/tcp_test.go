package zktest_test

import (
	"errors"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/zktest"
)

func dialReal(t *testing.T, addrs []string) *zk.Conn {
	t.Helper()
	conn, err := zklocks.Connect(t.Context(), addrs, 20*time.Second)
	must(t, err)
	t.Cleanup(func() { conn.Close() })
	return conn.Client()
}

// refuses waits until the system refuses connections to the address of a dead member. The system
// does not refuse while another test starts a process, because between fork and exec that process
// has a copy of each socket, the listening socket included.
func refuses(t *testing.T, addr string) {
	t.Helper()
	eventually(t, 20*time.Second, func() error {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			return nil
		}
		c.Close()
		return errors.New("a dead member accepts")
	})
}

func TestListenTCP(t *testing.T) {
	t.Parallel()
	s := zktest.NewServer(t, zktest.WithMembers(3))
	addrs := s.ListenTCP(t)
	if len(addrs) != 3 {
		t.Fatalf("addresses %q", addrs)
	}
	conn := dialReal(t, addrs)
	_, err := conn.Create("/x", nil, 0, acl)
	must(t, err)
	s.Host("a").Partition() // does not affect it
	_, err = answers(conn)
	must(t, err)

	m := s.Members()[0]
	m.Kill()
	refuses(t, addrs[0])
	m.Restart()
	c, err := net.Dial("tcp", addrs[0])
	must(t, err)
	must(t, c.Close())
	eventually(t, 20*time.Second, exists(conn, "/x"))
}

// ListenTCP returns the address of a dead member, too.
func TestListenTCPOfADeadMember(t *testing.T) {
	t.Parallel()
	s := zktest.NewServer(t)
	m := s.Members()[0]
	m.Kill()
	addrs := s.ListenTCP(t)
	refuses(t, addrs[0])
	m.Restart()
	_, err := answers(dialReal(t, addrs))
	must(t, err)
}

// Connections to a host's own ports belong to that host.
func TestListenTCPOfAHost(t *testing.T) {
	t.Parallel()
	s := zktest.NewServer(t)
	a := s.Host("a")
	addrs := a.ListenTCP(t)
	conn := dialReal(t, addrs)
	_, err := conn.Create("/x", nil, 0, acl)
	must(t, err)

	f := a.Next(zktest.Create, zktest.CutAfterCommit)
	if _, err := conn.Create("/y", nil, zk.FlagEphemeral, acl); !errors.Is(err, zk.ErrConnectionClosed) {
		t.Errorf("create: %v", err)
	}
	<-f.Fired()
	eventually(t, 20*time.Second, exists(conn, "/y"))

	a.Delay(100 * time.Millisecond)
	if took, err := answers(conn); err != nil || took < 200*time.Millisecond {
		t.Errorf("%v after %v", err, took)
	}
	a.Heal()
	eventually(t, 20*time.Second, exists(conn, "/y"))
	a.Cut()
	eventually(t, 20*time.Second, exists(conn, "/y"))

	a.Partition()
	c, err := net.Dial("tcp", addrs[0]) // the system accepts, and no program answers
	must(t, err)
	defer c.Close()
	must(t, c.SetDeadline(time.Now().Add(50*time.Millisecond)))
	_, err = c.Write([]byte("ruok"))
	must(t, err)
	if n, err := c.Read(make([]byte, 4)); err == nil {
		t.Errorf("%d bytes through a partition", n)
	}
	a.Heal()
	eventually(t, 20*time.Second, exists(conn, "/y"))
}

// A client that waits for a partition to end closes its connection: the connection is never made.
// Its handshake would take the session away from the client's newer connection.
func TestListenTCPOfAHostThatIsCutOff(t *testing.T) {
	t.Parallel()
	s := zktest.NewServer(t)
	a := s.Host("a")
	addr := a.ListenTCP(t)[0]
	a.Partition()
	c, err := net.Dial("tcp", addr)
	must(t, err)
	_, err = c.Write(slices.Concat([]byte{0, 0, 0, 44}, make([]byte, 44))) // the handshake of a new session
	must(t, err)
	must(t, c.Close())
	time.Sleep(100 * time.Millisecond) // real: the end of a connection goes through the system
	a.Heal()
	_, err = answers(dialReal(t, []string{addr}))
	must(t, err)
	if n := a.Seen(zktest.Handshake); n != 1 {
		t.Errorf("%d handshakes, want that of the open connection", n)
	}
}
