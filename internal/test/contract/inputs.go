package contract

import (
	"context"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/locks"
	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/observe"
)

var inputs = []scenario{
	{"bad input is an error at once and nothing is asked", badInput, 0},
	{"a nil connection is an error", nilConnection, 0},
	{"a nil context is a panic before anything changes", nilContext, 0},
	{"a closed connection is an error at once", closedConnection, 0},
}

// every calls all methods that acquire a lock, and the methods that read its queue. All must fail
// within the given time.
func (s *scene) every(l Locker, most time.Duration, f func(name string, err error)) {
	s.Helper()
	for _, call := range []struct {
		name string
		call lockFunc
	}{
		{"Lock", l.Lock},
		{"TryLock", l.TryLock},
		{"Block", l.Block},
		{"Queue", only(l.look)},
	} {
		var h *zklocks.Hold
		var err error
		began := time.Now()
		test.Within(s, soon, call.name, func() { h, err = call.call(s.Ctx) })
		s.Within(call.name, time.Since(began), most)
		if err == nil {
			s.Errorf("%s: no error", call.name)
			if h != nil {
				s.release(h)
			}
			continue
		}
		if !strings.HasPrefix(err.Error(), s.r.Package+": ") {
			s.Errorf("%s: error %q", call.name, err)
		}
		f(call.name, err)
	}
}

func badInput(s *scene) {
	c := s.behind()
	for _, in := range []struct {
		path string
		opts []zklocks.Option
		says string
	}{
		{"", nil, "empty"},
		{"relative", nil, "relative"},
		{"jobs/a", nil, "relative"},
		{"/", nil, "root"},
		{"/trailing/", nil, "slash"},
		{"//", nil, "slash"},
		{"/a//b", nil, "empty part"},
		{"/a/../b", nil, "relative part"},
		{"/a/./b", nil, "relative part"},
		{"/zookeeper", nil, "reserved"},
		{"/zookeeper/quota", nil, "reserved"},
		{"/nul\x00", nil, "U+0000"},
		{"/not\xff\xfeutf8", nil, "UTF-8"},
		{"/surrogate\xed\xa0\x80", nil, "UTF-8"},
		{"/" + strings.Repeat("x", 64<<10), nil, "limit"},
		{s.Path, []zklocks.Option{zklocks.WithACL([]zk.ACL{})}, "WithACL"},
		{s.Path, []zklocks.Option{zklocks.WithData(make([]byte, 512<<10+1))}, "WithData"},
		{s.Path, []zklocks.Option{zklocks.WithData([]byte("__REVOKE__"))}, "WithData"},
	} {
		s.every(s.r.New(locks.On(c.conn), in.path, in.opts...), 0, func(name string, err error) {
			if !strings.Contains(err.Error(), in.says) {
				s.Errorf("%s of %q: error %q does not say %q", name, in.path, err, in.says)
			}
		})
	}
	if n := c.proxy.Seen(proxy.AnyOp); n != 0 {
		s.Errorf("%d requests", n)
	}
	l := s.on(c.conn, zklocks.WithACL([]zk.ACL{}))
	_, err := l.Lock(s.Ctx)
	s.Is(err, zk.ErrInvalidACL)
}

func nilConnection(s *scene) {
	s.every(s.on(nil), 0, func(name string, err error) {
		if !strings.Contains(err.Error(), "connection is nil") {
			s.Errorf("%s: %v", name, err)
		}
	})
}

// A call with a nil context panics. It does not return an error, because programs seldom check the
// error of a deferred Release. The hold remains, because the program may recover from the panic.
func nilContext(s *scene) {
	c := s.client()
	events := c.observed()
	var none context.Context
	calls := map[string]func(*zklocks.Hold){
		"Lock":    func(*zklocks.Hold) { _, _ = c.Lock(none) },
		"TryLock": func(*zklocks.Hold) { _, _ = c.TryLock(none) },
		"Block":   func(*zklocks.Hold) { _, _ = c.Block(none) },
		"Queue":   func(*zklocks.Hold) { _, _ = c.Queue(none) },
		"Release": func(h *zklocks.Hold) { _ = h.Release(none) },
		"Context": func(h *zklocks.Hold) { h.Context(none) },
		"Verify":  func(h *zklocks.Hold) { _ = h.Verify(none) },
		"Multi":   func(h *zklocks.Hold) { _, _ = h.Multi(none) },
	}
	for name, call := range calls {
		h := c.lock()
		func() {
			defer func() {
				if p := recover(); p != "zklocks: the context is nil" {
					s.Errorf("%s: panic %v", name, p)
				}
			}()
			call(h)
		}()
		if !h.Held() {
			s.Errorf("%s: the hold has ended", name)
		}
		s.inLine(1)
		s.Must(h.Verify(s.Ctx))
		s.release(h)
		s.EmptyNow()
	}
	Next[observe.Released](events, len(calls))
	events.Balanced()
}

func closedConnection(s *scene) {
	used, unused := s.client(), s.client()
	s.release(used.lock())
	for _, c := range []*client{used, unused} {
		c.conn.Close()
		s.every(c.Locker, 0, func(name string, err error) { s.Is(err, zk.ErrClosing) })
	}
}
