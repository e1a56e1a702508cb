package contract

import (
	"context"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/proxy"
	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/observe"
)

var inputs = []scenario{
	{"bad input is an error at once and nothing is asked", badInput, 0},
	{"a nil connection is an error", nilConnection, 0},
	{"a nil context is a panic before anything changes", nilContext, 0},
	{"a closed connection is an error at once", closedConnection, 0},
	{"a lock below an ephemeral node is an error", belowEphemeral, 0},
}

// every calls all ways to take a lock, and to look at it.
func (s *scene) every(l Locker, f func(name string, err error)) {
	s.Helper()
	for _, call := range []struct {
		name string
		call func(context.Context) (Hold, error)
	}{
		{"Lock", l.Lock},
		{"TryLock", l.TryLock},
		{"Block", l.Block},
		{"Queue", func(ctx context.Context) (Hold, error) { _, err := l.Queue(ctx); return nil, err }},
	} {
		var h Hold
		var err error
		began := time.Now()
		test.Within(s, soon, call.name, func() { h, err = call.call(s.Ctx) })
		took, most := time.Since(began), time.Duration(0)
		if c, ok := l.(*client); ok {
			most = c.closing
		}
		s.Within(call.name, took, most)
		if err == nil {
			s.Errorf("%s: no error", call.name)
			if h != nil {
				s.unlock(h)
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
		path     string
		settings Settings
		says     string
	}{
		{"", Settings{}, "empty"},
		{"relative", Settings{}, "relative"},
		{"jobs/a", Settings{}, "relative"},
		{"/", Settings{}, "root"},
		{"/trailing/", Settings{}, "slash"},
		{"//", Settings{}, "slash"},
		{"/a//b", Settings{}, "empty part"},
		{"/a/../b", Settings{}, "relative part"},
		{"/a/./b", Settings{}, "relative part"},
		{"/zookeeper", Settings{}, "reserved"},
		{"/zookeeper/quota", Settings{}, "reserved"},
		{"/nul\x00", Settings{}, "U+0000"},
		{"/not\xff\xfeutf8", Settings{}, "UTF-8"},
		{"/surrogate\xed\xa0\x80", Settings{}, "UTF-8"},
		{"/" + strings.Repeat("x", 64<<10), Settings{}, "limit"},
		{s.Path, Settings{ACL: []zk.ACL{}}, "WithACL"},
		{s.Path, Settings{Data: make([]byte, 512<<10+1)}, "WithData"},
		{s.Path, Settings{Grace: -1}, "WithGrace"},
	} {
		s.every(s.r.New(c.conn, in.path, in.settings), func(name string, err error) {
			if !strings.Contains(err.Error(), in.says) {
				s.Errorf("%s of %q: error %q does not say %q", name, in.path, err, in.says)
			}
		})
	}
	if n := c.proxy.Seen(proxy.AnyOp); n != 0 {
		s.Errorf("%d requests", n)
	}
	l := s.r.New(c.conn, s.Path, Settings{ACL: []zk.ACL{}})
	_, err := l.Lock(s.Ctx)
	s.Is(err, zk.ErrInvalidACL)
}

func nilConnection(s *scene) {
	s.every(s.r.New(nil, s.Path, Settings{}), func(name string, err error) {
		if !strings.Contains(err.Error(), "connection is nil") {
			s.Errorf("%s: %v", name, err)
		}
	})
}

// A nil context is a mistake in the program, and the error of a deferred Unlock is seldom looked
// at. What is held stays held, for the program may recover.
func nilContext(s *scene) {
	c := s.client()
	events := c.observed()
	var none context.Context
	calls := map[string]func(Hold){
		"Lock":    func(Hold) { _, _ = c.Lock(none) },
		"TryLock": func(Hold) { _, _ = c.TryLock(none) },
		"Block":   func(Hold) { _, _ = c.Block(none) },
		"Queue":   func(Hold) { _, _ = c.Queue(none) },
		"Unlock":  func(h Hold) { _ = h.Unlock(none) },
		"Context": func(h Hold) { h.Context(none) },
		"Verify":  func(h Hold) { _ = h.Verify(none) },
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
		s.unlock(h)
		s.EmptyNow()
	}
	Next[observe.Released](events, len(calls))
	events.Balanced()
}

func closedConnection(s *scene) {
	for _, connect := range []func() *client{s.client, s.foreign} {
		used, unused := connect(), connect()
		s.unlock(used.lock())
		for _, c := range []*client{used, unused} {
			c.conn.Close()
			// While it says goodbye a new request can hang the client's own goroutine.
			test.Eventually(s, soon, "it is closed", func() bool { return c.conn.State() == zk.StateDisconnected })
			s.every(c, func(name string, err error) { s.Is(err, zk.ErrClosing) })
		}
	}
}

func belowEphemeral(s *scene) {
	_, err := s.Witness.Create(s.Path, nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
	s.Must(err)
	c := s.client()
	c.Locker = s.r.New(c.conn, s.Path+"/a/b", Settings{})
	a := c.begin(c.Lock)
	s.Is(a.Failed(), zk.ErrNoChildrenForEphemerals)
	s.AtOnce("a Lock", a.At.Sub(a.Began))
	if left := test.Children(s, s.Witness, s.Path); len(left) > 0 {
		s.Errorf("left %v", left)
	}
}
