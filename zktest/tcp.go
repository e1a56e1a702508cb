package zktest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/zklocks/zklocks/internal/memnet"
)

// inBubble fails the test in a bubble, where real connections do not work.
func inBubble(t testing.TB, what string) {
	t.Helper()
	if bubble() != "" {
		t.Fatalf("zktest: %s in a synctest bubble: the clock of a bubble stands still while a goroutine waits for a real connection. "+
			"Call it outside of synctest.Test, or connect by Host.Connect or Host.Dial", what)
	}
}

// ListenTCP opens a real port on the loopback interface for each member and returns the addresses,
// for programs that cannot use a dialer, such as other processes. A dead member listens when it is
// restarted. The faults of Hosts do not affect these connections; see Host.ListenTCP. The ports
// answer the four letter words ruok, srvr, mntr, wchc and wchp; by default a ZooKeeper server
// answers only srvr. t fails in a synctest bubble, in which real connections do not work.
func (s *Server) ListenTCP(t testing.TB) []string {
	t.Helper()
	inBubble(t, "ListenTCP")
	var addrs []string
	for _, m := range s.Members() {
		// The first Listen picks the port. A restart of the member listens on the same port.
		first, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatalf("zktest: ListenTCP: %v", err)
		}
		addr := first.Addr().String()
		if err := m.listen(first, func() (net.Listener, error) { return net.Listen("tcp", addr) }); err != nil {
			t.Fatalf("zktest: ListenTCP: %v", err)
		}
		addrs = append(addrs, addr)
	}
	return addrs
}

// ListenTCP opens a real port on the loopback interface for each member, and returns the addresses.
// These connections belong to the host: all its faults affect them. Only the ports of
// Server.ListenTCP answer four letter words. The ports are closed at t's cleanup. t fails in a
// synctest bubble, in which real connections do not work.
func (h *Host) ListenTCP(t testing.TB) []string {
	t.Helper()
	inBubble(t, "ListenTCP")
	var addrs []string
	for _, m := range h.s.Members() {
		_, door := h.door(m.Addr())
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatalf("zktest: ListenTCP: %v", err)
		}
		b := &bridge{h: h, to: m, door: door, conns: make(map[net.Conn]struct{})}
		b.ctx, b.cancel = context.WithCancel(context.Background())
		b.wg.Go(func() { b.accept(l) })
		t.Cleanup(func() {
			l.Close()
			b.stop()
		})
		addrs = append(addrs, l.Addr().String())
	}
	return addrs
}

// A bridge forwards real connections to the in-memory network.
type bridge struct {
	h      *Host
	to     *Member
	door   string // of the host to the member
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]struct{} // guarded by mu; nil: stopped
}

func (b *bridge) accept(l net.Listener) {
	for {
		out, err := l.Accept()
		if err != nil {
			return
		}
		b.wg.Go(func() { b.carry(out) })
	}
}

// keep registers c so that stop closes it. If stop has run, keep closes c and returns false.
func (b *bridge) keep(c net.Conn) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.conns == nil {
		c.Close()
		return false
	}
	b.conns[c] = struct{}{}
	return true
}

func (b *bridge) stop() {
	b.cancel()
	b.mu.Lock()
	for c := range b.conns {
		c.Close()
	}
	b.conns = nil
	b.mu.Unlock()
	b.wg.Wait()
}

func (b *bridge) carry(out net.Conn) {
	defer out.Close()
	if !b.keep(out) {
		return
	}
	in, early, err := b.dial(out)
	if err != nil {
		reset(out)
		return
	}
	defer in.Close()
	if !b.keep(in) {
		return
	}
	if _, err := in.Write(early); err != nil {
		reset(out)
		return
	}
	var wg sync.WaitGroup
	wg.Go(func() { pipe(in.(*memnet.Conn), out) })
	wg.Go(func() { pipe(out.(*net.TCPConn), in) })
	wg.Wait()
	b.mu.Lock()
	delete(b.conns, out)
	delete(b.conns, in)
	b.mu.Unlock()
}

// dial connects out's client to the member, and returns what the client has sent meanwhile. The
// system has already accepted the client's connection, and a partition may keep the host from the
// member. If the client closes its connection before the partition ends, the member receives
// nothing, as if the client had never connected.
func (b *bridge) dial(out net.Conn) (in net.Conn, early []byte, err error) {
	ctx, cancel := context.WithCancel(b.ctx)
	defer cancel()
	var sent bytes.Buffer
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := io.Copy(&sent, out); !errors.Is(err, os.ErrDeadlineExceeded) {
			cancel()
		}
	})
	in, err = b.h.reach(ctx, b.to, b.door)
	_ = out.SetReadDeadline(time.Unix(1, 0)) // ends the Copy
	wg.Wait()
	_ = out.SetReadDeadline(time.Time{})
	return in, sent.Bytes(), err
}

type halfCloser interface {
	net.Conn
	CloseWrite() error
}

// pipe forwards what it reads, and how the connection ends.
func pipe(to halfCloser, from net.Conn) {
	if _, err := io.Copy(to, from); err != nil {
		reset(to)
		reset(from)
		return
	}
	_ = to.CloseWrite()
}

// reset ends a connection by a TCP reset; Close would send the remaining data.
func reset(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	c.Close()
}
