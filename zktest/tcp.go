package zktest

import (
	"context"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/zklocks/zklocks/internal/memnet"
)

// inBubble ends the test if t runs in a bubble, for which real connections are no good.
func inBubble(t testing.TB, what string) {
	t.Helper()
	if bubble() != "" {
		t.Fatalf("zktest: %s in a synctest bubble: the clock of a bubble stands still while a goroutine waits for a real connection. "+
			"Call it outside of synctest.Test, or connect by Host.Connect or Host.Dial", what)
	}
}

// ListenTCP opens a real port on the loopback interface for each member and returns their
// addresses, for programs that cannot take a dialer, such as other processes. A member that is dead
// listens when it is restarted. The faults of Hosts do not concern what connects there; see
// Host.ListenTCP. t fails in a synctest bubble, in which real connections do not work.
func (s *Server) ListenTCP(t testing.TB) []string {
	t.Helper()
	inBubble(t, "ListenTCP")
	var addrs []string
	for _, m := range s.members {
		// The first Listen picks the port, which a member that restarts takes again.
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

// ListenTCP opens a real port on the loopback interface for each member, and returns their
// addresses. What connects there is on the host: all its faults concern it. The ports are closed at
// t's cleanup. t fails in a synctest bubble, in which real connections do not work.
func (h *Host) ListenTCP(t testing.TB) []string {
	t.Helper()
	inBubble(t, "ListenTCP")
	var addrs []string
	for i := range h.doors {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatalf("zktest: ListenTCP: %v", err)
		}
		b := &bridge{h: h, to: i, conns: make(map[net.Conn]struct{})}
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

// A bridge forwards real connections to the network in memory.
type bridge struct {
	h      *Host
	to     int // member
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]struct{} // nil: stopped
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

// keep has stop close c; false: it has been stopped.
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

// carry serves one connection.
func (b *bridge) carry(out net.Conn) {
	defer out.Close()
	if !b.keep(out) {
		return
	}
	in, err := b.h.from.DialContext(b.ctx, "tcp", b.h.way(b.to))
	if err != nil {
		reset(out)
		return
	}
	defer in.Close()
	if !b.keep(in) {
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

type halfCloser interface {
	net.Conn
	CloseWrite() error
}

// pipe forwards what is read, and how it ends.
func pipe(to halfCloser, from net.Conn) {
	if _, err := io.Copy(to, from); err != nil {
		reset(to)
		reset(from)
		return
	}
	_ = to.CloseWrite()
}

// reset ends a connection by a TCP reset, where Close would send what is left.
func reset(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	c.Close()
}
