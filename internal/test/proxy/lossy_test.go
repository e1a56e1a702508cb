package proxy

import (
	"testing"
)

// A network never delivers a stream with a gap.
func TestAfterALostPacketNoneGetsThrough(t *testing.T) {
	p := For(t, "127.0.0.1:1")
	c := &proxyConn{proxy: p}
	p.MuteReplies()
	if !p.swallows(c, toClient) || p.swallows(c, toServer) {
		t.Error("only replies are mute")
	}
	p.setMute(false, false) // the first step of Unmute, which then cuts the connection
	if !p.swallows(c, toClient) || p.swallows(c, toServer) {
		t.Error("a reply behind one that was lost gets through")
	}
	if other := (&proxyConn{proxy: p}); p.swallows(other, toClient) {
		t.Error("a connection that has lost nothing stays mute")
	}
}
