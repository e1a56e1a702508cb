package zklocks

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/hold"
	"github.com/zklocks/zklocks/internal/queue"
	"github.com/zklocks/zklocks/internal/slot"
	"github.com/zklocks/zklocks/internal/wire"
	"github.com/zklocks/zklocks/internal/znode"
	"github.com/zklocks/zklocks/observe"
)

type connSlot = slot.Conn

// Conn is a connection to an ensemble, with one session at a time. All locks of a program can share
// it. If the connection is lost, it reconnects by itself. It must not be copied.
type Conn struct{ connSlot }

// Connect opens a connection to an ensemble and returns when a server has granted a session. While
// no server answers it waits as long as ctx allows: without a deadline, forever.
//
// servers are the servers of the ensemble, each "host:port", or "host" for port 2181.
//
// sessionTimeout is how long the servers keep the session, and with it the locks, while they
// receive nothing from the client; 10 s is a good start. With 10 s, a holder that is cut off is
// notified of its loss 4 to 7.5 s after the last answer, and the lock of a dead or cut-off process
// passes on after 10 to 12 s. The server may grant another timeout, by default 2 to 20 of its
// ticks, so 4 to 40 s; [Conn.SessionTimeout] returns it.
//
// A call on the connection waits while no server can be reached, as long as its own context allows.
// It does not fail with zk.ErrNoServer.
//
// Connect fails
//   - at once on bad input: no servers, an invalid address, a session timeout below a millisecond
//     or above 24 days, a user name that is empty or contains a colon;
//   - when the servers refuse the credentials, each server at least once and twice in all: the error
//     matches zk.ErrAuthFailed;
//   - at once when the file of [WithSessionFile] cannot be used;
//   - when ctx is canceled first: the error wraps ctx's error and the error of the last attempt.
//
// After a failure Connect leaves no network connection, no session and no goroutine behind. There
// are two exceptions: a function of [WithSessionEvents] that has not returned yet keeps its
// goroutine, and a server that refuses the credentials of [WithSASL] keeps the session, which has
// no nodes, until its timeout.
//
// # Compared with zk.Connect
//
// A connection made here
//   - reconnects within milliseconds; zk.Connect sleeps a second before every round over the
//     servers;
//   - leaves a server that accepts but does not answer after a sixth of the session timeout, at
//     most a second (longer while no server answers), and then prefers the others for a while;
//     zk.Connect waits 6.7 session timeouts;
//   - resolves the host names again when a round of attempts at the known addresses has failed, and
//     checks a certificate against the host name, not the address;
//   - drops the connection on a malformed frame; zk.Connect panics;
//   - sets all watches again after a reconnect, and again if the server refuses that: they fire only
//     on changes, and miss none;
//   - closes within milliseconds, also while no server can be reached or none answers the
//     handshake, and within a second if the server does not answer;
//   - takes 40 kB of memory and one goroutine. A zk.Conn takes 3 MB and three goroutines; [Conn.Client]
//     makes one when it is first called.
func Connect(ctx context.Context, servers []string, sessionTimeout time.Duration, opts ...ConnectOption) (*Conn, error) {
	hold.NeedContext(ctx)
	var connect []wire.Option
	var defaults []slot.Common
	var chroot slot.Chroot
	for _, opt := range opts {
		switch o := opt.(type) {
		case slot.Chroot:
			if o != "" {
				if err := validChroot(string(o)); err != nil {
					return nil, err
				}
			}
			chroot = o
		case slot.Connect:
			connect = append(connect, o.Wire)
			if o.Lock != nil {
				defaults = append(defaults, o.Lock)
			}
		case slot.Common:
			defaults = append(defaults, o)
		}
	}
	conn, err := wire.Connect(ctx, servers, sessionTimeout, connect...)
	if err != nil {
		return nil, err
	}
	c := new(Conn)
	slot.PutConn(c, conn, chroot, defaults...)
	return c, nil
}

// Client returns a client of go-zookeeper for the program's own nodes, in the session of the locks.
// The first call makes it. Its requests pass through the Conn, which reconnects for it: so its
// SessionID and State follow those of the Conn a little later, and if the Conn is not connected at
// the first call, SessionID is 0 until it is. Credentials that the program adds (AddAuth) are sent
// first on each later connection. Do not close the client: close the Conn. Closing the client closes
// the Conn and loses all holds, too, but while the client cannot send it may remain open.
//
// The servers execute the client's requests and those of the locks in one order. A request that
// begins when another has been answered is executed after it. No other order is promised between
// requests of several goroutines. When the connection is lost, requests under way return
// zk.ErrConnectionClosed. Later requests wait until it is back: a call of go-zookeeper has no
// context. A move ([Conn.SetServers]) carries over the requests that were not sent.
//
// A watch that the program sets on the client survives reconnects. It fires on a change, and rarely
// without one: if the connection was lost again before all watches were set again. Set no watch on a
// semaphore's node or on the directory of an election: the locks may remove it with their own watch.
func (c *Conn) Client() *zk.Conn {
	if conn := slot.Wire(c.need()); conn != nil {
		return conn.Client()
	}
	return nil
}

var errNilConn = fmt.Errorf("zklocks: %w", queue.ErrNoConn)

// need panics if c is nil, in the methods that return no error.
func (c *Conn) need() *Conn {
	if c == nil {
		panic(errNilConn)
	}
	return c
}

// Path returns the path that a node of the program has on the server: path below the path of
// [WithChroot], or path itself without a chroot. Use it for nodes that belong to the locks, in
// [Hold.Multi], in [Hold.Guard] and with [Conn.Client]:
//
//	hold.Multi(ctx, &zk.SetDataRequest{Path: conn.Path("/jobs/last"), Data: data, Version: -1})
//
// Pass paths to locks without it. [Member].Path is already the path on the server. Path does not
// check its argument: a call with an invalid path fails.
func (c *Conn) Path(path string) string { return slot.Path(c.need(), path) }

// SessionTimeout returns the session timeout that the server granted, which may differ from the
// timeout that Connect asked for. If several servers granted different timeouts in the session, it
// returns the shortest.
func (c *Conn) SessionTimeout() time.Duration {
	if conn := slot.Wire(c.need()); conn != nil {
		return conn.Timeout()
	}
	return 0
}

// Heartbeat returns the worst of the heartbeats that were answered in the last minute: the longest
// latency, until this process had read the answer, and the smallest margin. A margin is how much
// later the holds would have been lost without that answer. A slow network and goroutines that wait
// for a processor make it smaller. A connection sends heartbeats while it has holds or waiters;
// without heartbeats both are 0. Module github.com/zklocks/zklocks/metrics exports them.
func (c *Conn) Heartbeat() (latency, margin time.Duration) {
	if conn := slot.Wire(c.need()); conn != nil {
		return conn.Heartbeat()
	}
	return 0, 0
}

// SetServers replaces the servers of the ensemble, for members that are added and removed while the
// program runs. servers are as for [Connect].
//
// A connection to a server that is not in the list moves to a server that is. If servers were
// added, some clients move, chosen at random, so that about as many clients use each server. A
// connection that moves opens the new connection first: session, holds and waiters remain, and
// requests pause for milliseconds. A watch and a request of [Conn.Client] may end as when a
// connection is lost.
//
// If no server can be reached to which the connection would move, it stays where it is. SetServers
// then returns nil, too, and only [WithLogger] reports it. The new list is kept: when the connection
// is lost, the client tries these servers alone.
//
// SetServers returns when the connection has moved, or stays. It waits up to a second for each
// server that does not answer. It fails on bad input, as Connect does, and with an error that
// matches zk.ErrClosing if the connection was closed; then nothing has changed.
func (c *Conn) SetServers(servers []string) error {
	conn := slot.Wire(c.need())
	if conn == nil {
		return errNilConn
	}
	if err := conn.SetServers(servers); err != nil {
		if err == zk.ErrClosing {
			return fmt.Errorf("zklocks: set servers: %w", err)
		}
		return err
	}
	return nil
}

// Rebalance moves the connection to a server chosen at random, perhaps the present one, as
// [Conn.SetServers] does. After a rolling restart of the servers most clients are connected to the
// servers that were restarted first. If all clients call Rebalance, about as many use each server.
// It does nothing while there is no connection, and if the server cannot be reached.
func (c *Conn) Rebalance() {
	if conn := slot.Wire(c.need()); conn != nil {
		conn.Rebalance()
	}
}

// RequestRelease asks m, a member that a Queue method listed, to release the lock. It is compatible
// with Curator's Revoker: [Hold.ReleaseRequested] notifies the holder, and a RevocationListener
// notifies a holder that uses Curator. A waiter is notified when it becomes a holder. The holder
// may ignore the request. A second request to the same member changes nothing.
//
// RequestRelease writes the request into the member's node, in front of its data. If another library
// has created the node, the request replaces the data, and [Member] then has no Data, Host and Pid;
// requests that Curator makes always replace the data. The request remains until the node is
// deleted or the holder writes into it. A Downgrade creates a node without the request.
//
// The error matches
//   - zk.ErrNoNode if the member has released, left or downgraded;
//   - ctx's error if there was no answer; the request may have been made;
//   - zk.ErrClosing if the connection was closed;
//   - zk.ErrNoAuth if the client lacks READ or WRITE on the node.
func (c *Conn) RequestRelease(ctx context.Context, m Member) error {
	err := znode.ValidateNode(m.Path)
	switch {
	case c == nil || slot.Wire(c) == nil:
		err = queue.ErrNoConn
	case err == nil:
		err = queue.RequestRelease(ctx, slot.Wire(c), m.Path, m.Token)
	}
	if err != nil {
		return fmt.Errorf("zklocks: request release of %s: %w", znode.Shown(m.Path), err)
	}
	return nil
}

// Close ends the session. All holds on the connection are lost: first their Lost channels are
// closed, then the server is asked to delete their nodes. Calls that wait return an error that
// matches zk.ErrClosing.
//
// Close waits for the server's answer, at most a second, and not at all without a connection. If no
// answer comes, the error says so, and the nodes may remain until the session expires. A second call
// waits for the first and returns nil.
func (c *Conn) Close() error {
	if c == nil {
		return errNilConn
	}
	if conn := slot.Wire(&c.connSlot); conn != nil {
		return conn.Close()
	}
	return nil
}

// A ConnectOption changes how [Connect] connects. Every [Option] is also a ConnectOption: given to
// Connect it is the default of all locks on the connection.
type ConnectOption interface{ connectOption }

type connectOption = slot.ConnectOption

// WithLogger sends the client's messages (lost connections, failed attempts) to l. A message that
// is repeated, perhaps with another duration or local port, is logged at most once in five seconds.
//
// When a call has waited in a queue for the session timeout, and again each ten session timeouts, a
// message says for which node it waits, the first in the queue that it waits for: since when the
// node exists, its process or data, whether it belongs to this connection, and what this connection
// itself holds. So a program that waits for itself is seen. Each such message takes one read.
//
// If the program drops a hold without releasing it, that is logged, too, see [observe.Leaked];
// detecting it takes a few microseconds per hold. By default the messages are dropped; errors reach
// the caller in other ways. l may be called by several goroutines at once.
func WithLogger(l zk.Logger) ConnectOption {
	o := slot.Connect{Wire: wire.WithLogger(l)}
	if l != nil {
		o.Lock = observed(observe.Observer{Leaked: func(e observe.Leaked) {
			l.Printf("zklocks: %v: its Hold is gone and was never released, after %v", e.LockInfo, e.Held)
		}})
	}
	return o
}

// WithDigestAuth authenticates the connection, now and after each reconnect, by ZooKeeper's scheme
// "digest". Given twice, the connection has both identities. Default: none.
//
// A wrong password is not an error: the server accepts any pair as an identity, and the calls of an
// identity without rights fail with zk.ErrNoAuth. Connect fails only if the server refuses the
// scheme itself. The password is sent in clear text: combine with [WithTLS].
func WithDigestAuth(user, password string) ConnectOption {
	return slot.Connect{Wire: wire.WithDigestAuth(user, password)}
}

// WithTLS connects by TLS, to the servers' secureClientPort. The certificate is checked against the
// host name as given to Connect unless config.ServerName is set. config is cloned and may be nil.
// The default is no TLS.
func WithTLS(config *tls.Config) ConnectOption { return slot.Connect{Wire: wire.WithTLS(config)} }

// WithDialer opens the network connections, for a SOCKS proxy or a test. dial receives each address
// as given to Connect, host name and port. It must return when its context is canceled. The default
// looks the name up and dials one of its addresses by TCP.
func WithDialer(dial func(ctx context.Context, network, address string) (net.Conn, error)) ConnectOption {
	return slot.Connect{Wire: wire.WithDialer(dial)}
}

// WithSessionFile frees the locks of a process that dies without [Conn.Close]: by a panic, os.Exit,
// kill -9 or for lack of memory. The Conn writes its session into the file and keeps the file
// locked (flock). When the process has died, the next Connect with the same file ends that session
// before it opens its own, so a restarted program does not wait for its own locks. "zklock reap"
// ends the session at the moment of death. Without the option the locks are free after the session
// timeout.
//
// What the dead process has sent or started continues while the next holder begins: a statement on
// a database, a child process. Without the option the session timeout gives it time to end. So use
// the option if the store refuses old tokens ([Hold.Token]), or if work that continues does no
// harm. A process that is paused is not dead: its locks are free after the session timeout.
//
// Use a file of its own for each connection, on a local file system, best below /run. No program
// may close, unlock, remove or copy it while the process lives. Connect creates it with mode 0600.
// While another process has it, Connect waits, and when ctx is canceled its error names that
// process. If another connection of this process has it, Connect fails after two seconds. Connect
// fails at once if the file has other content, which it leaves as it was; if it is a symbolic link,
// has a second name, belongs to another user or can be opened by other users; if it is on a network
// file system (on systems other than Linux that is not checked); and on Windows.
//
// The file is a hint, and no hold depends on it. The locks are free after the session timeout, as
// without a file, if the host stops, if the file cannot be written later, if it is a copy or was
// written on another host, if the next Connect is to another ensemble, if the servers refuse to end
// the session, or if no server answers within a session timeout. All but the first are logged
// ([WithLogger]). By default there is no file.
func WithSessionFile(path string) ConnectOption {
	return slot.Connect{Wire: wire.WithSessionFile(path)}
}

// WithSessionEvents calls f with the events of the session, in order: connected, disconnected,
// expired, as the channel of zk.Connect delivers them, but not the events of watches. f is called
// on a goroutine of its own and may use the connection; while it runs, later events wait. The first
// calls come before Connect returns, and one may come a moment after [Conn.Close] has returned. If
// the option is given several times, each function receives all events. The default is none.
func WithSessionEvents(f func(zk.Event)) ConnectOption {
	return slot.Connect{Wire: wire.WithSessionEvents(f)}
}
