package wire_test

import (
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/internal/test/venue"
)

// A request for the first watch may wait in the client's queue during a reconnect. The server may
// answer it before the client has searched for watches to set again. Neither that search nor the
// request that sets the watch again on the next connection delays the answer.
func TestAWatchAfterAReconnectIsAnsweredAtOnce(t *testing.T) {
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
		for _, which := range []string{"first", "second"} {
			if took := asks(); took != 0 {
				t.Errorf("the %s watch is answered after %v", which, took)
			}
		}
	})
}
