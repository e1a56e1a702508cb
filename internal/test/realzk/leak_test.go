package realzk

import (
	"net"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/zklocks/zklocks/internal/jute"
	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/proxy"
)

// These tests run alone, before the parallel tests.

func TestServersCanBeIgnoredInASearchForLeaks(t *testing.T) {
	before := goleak.IgnoreCurrent()
	Standalone(t, Options{})
	if err := goleak.Find(before, goleak.IgnoreAnyFunction(ServerGoroutine)); err != nil {
		t.Error(err)
	}
}

func TestProxyLeavesNothingBehind(t *testing.T) {
	s := Standalone(t, Options{})
	for name, breaks := range map[string]func(*proxy.Proxy){
		"idle":     func(*proxy.Proxy) {},
		"muted":    (*proxy.Proxy).Mute,
		"refusing": (*proxy.Proxy).Refuse,
		"holding":  func(p *proxy.Proxy) { p.Next(proxy.ConnectOp, proxy.HoldRequest) },
		"paused":   func(*proxy.Proxy) { must(t, s.Pause()) },
	} {
		t.Run(name, func(t *testing.T) {
			before := goleak.IgnoreCurrent()
			p, err := proxy.New(s.Addr())
			must(t, err)
			breaks(p)
			if c, err := net.Dial("tcp", p.Addr()); err == nil {
				defer c.Close()
				must(t, jute.WriteFrame(c, make([]byte, 45))) // a handshake
			}
			test.Within(t, 5*time.Second, "close", p.Close)
			p.Close()
			if err := goleak.Find(before); err != nil {
				t.Error(err)
			}
		})
		if name == "paused" {
			must(t, s.Resume())
		}
	}
}
