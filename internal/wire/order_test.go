package wire_test

import (
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/internal/test/venue"
)

// A request for the first watch of a connection may wait in the client's queue during a reconnect,
// and be answered before the client has searched for watches to set again. The client would then
// find this one, and read the last zxid while another goroutine stores it. So the answer is
// delayed, but only then.
func TestTheFirstWatchAfterAReconnectIsHeldBack(t *testing.T) {
	t.Parallel()
	venue.InMemory(t, func(t *testing.T, v venue.Venue) {
		p := v.Proxy(t, v.Servers(t)[0])
		conn := v.Connect(t, 10*time.Second, p.Addr())
		asks := func() (answered time.Duration) {
			p.Refuse()
			test.Eventually(t, time.Second, "the connection is lost", func() bool { return conn.State() != zk.StateHasSession })
			reply := p.Next(proxy.ReadOp, proxy.HoldReply)
			done := make(chan error, 1)
			go func() { _, _, _, err := conn.GetW("/"); done <- err }()
			if err := p.Accept(); err != nil {
				t.Fatal(err)
			}
			<-reply.Fired()
			began := time.Now()
			reply.Release()
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			return time.Since(began)
		}
		if took := asks(); took != 100*time.Millisecond {
			t.Errorf("the first watch is answered after %v, want 100ms", took)
		}
		if took := asks(); took != 0 {
			t.Errorf("the second watch is answered after %v: the client has set the first one again, and all is in order", took)
		}
	})
}
