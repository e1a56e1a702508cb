package zktest

import (
	"net"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// These run before the parallel tests, alone.

func TestServersCanBeIgnoredInASearchForLeaks(t *testing.T) {
	before := goleak.IgnoreCurrent()
	Standalone(t, Options{})
	if err := goleak.Find(before, IgnoreServers()); err != nil {
		t.Error(err)
	}
}

func TestProxyLeavesNothingBehind(t *testing.T) {
	s := Standalone(t, Options{})
	for name, breaks := range map[string]func(*Proxy){
		"idle":     func(*Proxy) {},
		"muted":    (*Proxy).Mute,
		"refusing": (*Proxy).Refuse,
		"holding":  func(p *Proxy) { p.Next(ConnectOp, HoldRequest) },
		"paused":   func(*Proxy) { must(t, s.Pause()) },
	} {
		t.Run(name, func(t *testing.T) {
			before := goleak.IgnoreCurrent()
			p, err := NewProxy(s.Addr())
			must(t, err)
			breaks(p)
			if c, err := net.Dial("tcp", p.Addr()); err == nil {
				defer c.Close()
				must(t, writeFrame(c, make([]byte, 45))) // a handshake
			}
			Within(t, 5*time.Second, "close", p.Close)
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
