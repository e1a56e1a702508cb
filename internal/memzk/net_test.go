package memzk

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// pipe is a connection in memory with a buffer: unlike net.Pipe, its Write never blocks.
type pipe struct {
	in, out *stream
}

type stream struct {
	mu       sync.Mutex
	b        []byte
	closed   bool
	deadline time.Time
	timer    *time.Timer
	changed  chan struct{} // closed and replaced at each change
}

type addr string

func (addr) Network() string  { return "memory" }
func (a addr) String() string { return string(a) }

func newPipe() (client, server net.Conn) {
	a, b := &stream{changed: make(chan struct{})}, &stream{changed: make(chan struct{})}
	return &pipe{a, b}, &pipe{b, a}
}

func (s *stream) change(f func()) {
	s.mu.Lock()
	f()
	close(s.changed)
	s.changed = make(chan struct{})
	s.mu.Unlock()
}

func (p *pipe) Read(b []byte) (int, error) {
	s := p.in
	for {
		s.mu.Lock()
		if len(s.b) > 0 {
			n := copy(b, s.b)
			s.b = s.b[n:]
			s.mu.Unlock()
			return n, nil
		}
		if s.closed {
			s.mu.Unlock()
			return 0, io.EOF
		}
		if !s.deadline.IsZero() && !time.Now().Before(s.deadline) {
			s.mu.Unlock()
			return 0, os.ErrDeadlineExceeded
		}
		changed := s.changed
		s.mu.Unlock()
		<-changed
	}
}

func (p *pipe) Write(b []byte) (int, error) {
	err := errors.New("closed")
	p.out.change(func() {
		if !p.out.closed {
			p.out.b = append(p.out.b, b...)
			err = nil
		}
	})
	if err != nil {
		return 0, err
	}
	return len(b), nil
}

func (p *pipe) Close() error {
	p.in.change(func() { p.in.closed = true })
	p.out.change(func() { p.out.closed = true })
	p.SetReadDeadline(time.Time{})
	return nil
}

func (p *pipe) SetReadDeadline(t time.Time) error {
	p.in.change(func() {
		p.in.deadline = t
		if p.in.timer != nil {
			p.in.timer.Stop()
			p.in.timer = nil
		}
		if !t.IsZero() && !p.in.closed {
			p.in.timer = time.AfterFunc(time.Until(t), func() { p.in.change(func() {}) })
		}
	})
	return nil
}

func (p *pipe) SetDeadline(t time.Time) error    { return p.SetReadDeadline(t) }
func (p *pipe) SetWriteDeadline(time.Time) error { return nil }
func (p *pipe) LocalAddr() net.Addr              { return addr("here") }
func (p *pipe) RemoteAddr() net.Addr             { return addr("there") }
