package queue

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/internal/test/venue"
	"github.com/zklocks/zklocks/internal/znode"
)

// The process that has lost a hold deletes the node, and so lets the next holder in. Every holder
// must be notified before. There are many, so that a deletion that begins too early reaches the
// proxy before the last of them is notified.
func TestALostHoldIsToldBeforeItsNodeIsDeleted(t *testing.T) {
	t.Parallel()
	venue.InMemory(t, func(t *testing.T, v venue.Venue) {
		server := v.Servers(t)[0]
		p := v.Proxy(t, server)
		conn := v.Connect(t, 10*time.Second, p.Addr())
		path := test.Path(t)
		l := newQueue(t, conn, path, with(Default(), lockNames))
		for range 5 {
			place, err := l.Acquire(t.Context(), Request{Kind: znode.Lock, Nodes: 1}, true)
			if err != nil {
				t.Fatal(err)
			}
			parts := make([]Hold, 5_000)
			lost := make([]<-chan struct{}, len(parts))
			for i := range parts {
				parts[i].Begin(place, l, nil, nil)
				lost[i] = parts[i].State().Lost()
			}
			sent, open := openAt(p, proxy.DeleteOp, lost)
			place.state.Lose(errors.New("test"))
			test.Within(t, 20*time.Second, "the node is deleted", func() { <-sent })
			p.OnRequest(nil)
			if n := open.Load(); n > 0 {
				t.Fatalf("%d of %d holders have not been told when the node is deleted", n, len(parts))
			}
		}
		test.AssertEmpty(t, conn, path)
	})
}

// openAt counts the holders that are not notified when a request of that kind is sent, which closes
// sent.
func openAt(p *proxy.Proxy, kind proxy.Op, lost []<-chan struct{}) (sent <-chan struct{}, open *atomic.Int64) {
	asked := make(chan struct{})
	open = new(atomic.Int64)
	p.OnRequest(func(op proxy.Op) {
		if op != kind {
			return
		}
		for _, c := range lost {
			select {
			case <-c:
			default:
				open.Add(1)
			}
		}
		close(asked)
	})
	return asked, open
}

// The end of the session deletes the node, and so lets the next holder in. The holders must be
// notified before, also if a goroutine that calls Err all the time is the first to detect the loss.
func TestHoldersAreToldBeforeTheSessionOfAClosedConnectionEnds(t *testing.T) {
	t.Parallel()
	for range 10 {
		venue.InMemory(t, func(t *testing.T, v venue.Venue) {
			p := v.Proxy(t, v.Servers(t)[0])
			conn := v.Connect(t, 10*time.Second, p.Addr())
			path := test.Path(t)
			q := newQueue(t, conn, path, with(Default(), lockNames))
			grant, err := q.Acquire(t.Context(), Request{Kind: znode.Lock, Nodes: 1}, true)
			if err != nil {
				t.Fatal(err)
			}
			holds := make([]Hold, 10_000)
			lost := make([]<-chan struct{}, len(holds))
			for i := range holds {
				holds[i].Begin(grant, q, nil, nil)
				lost[i] = holds[i].State().Lost()
			}
			sent, open := openAt(p, proxy.CloseOp, lost)
			var asker sync.WaitGroup
			asker.Go(func() {
				for grant.Err() == nil {
				}
			})
			conn.Close()
			asker.Wait()
			test.Within(t, 20*time.Second, "the end of the session is asked for", func() { <-sent })
			if n := open.Load(); n > 0 {
				t.Errorf("%d of %d holders have not been told", n, len(holds))
			}
			test.AssertEmpty(t, v.Connect(t, 10*time.Second), path)
		})
	}
}
