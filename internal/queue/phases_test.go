package queue

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/internal/test/venue"
	"github.com/zklocks/zklocks/internal/znode"
)

// A lost hold whose node still lives deletes it, and so lets the next one in. By then every holder
// must have been told. They are many, so that a deletion that begins in the middle reaches the
// proxy before the last of them.
func TestALostHoldIsToldBeforeItsNodeIsDeleted(t *testing.T) {
	t.Parallel()
	venue.InMemory(t, func(t *testing.T, v venue.Venue) {
		server := v.Servers(t)[0]
		p := v.Proxy(t, server)
		conn := v.Connect(t, 10*time.Second, p.Addr())
		path := test.Path(t)
		l, err := New(conn, path, with(Default(), lockNames))
		if err != nil {
			t.Fatal(err)
		}
		for range 5 {
			place, err := l.Wait(t.Context(), Request{Kind: znode.Lock, Nodes: 1})
			if err != nil {
				t.Fatal(err)
			}
			parts := make([]Hold, 5_000)
			lost := make([]<-chan struct{}, len(parts))
			for i := range parts {
				parts[i].Begin(place)
				lost[i] = parts[i].State().Lost()
			}
			var open atomic.Int64
			deleted := make(chan struct{})
			p.OnRequest(func(op proxy.Op) {
				if op != proxy.DeleteOp {
					return
				}
				for _, c := range lost {
					select {
					case <-c:
					default:
						open.Add(1)
					}
				}
				close(deleted)
			})
			place.state.Lose(errors.New("test"))
			test.Within(t, 20*time.Second, "the node is deleted", func() { <-deleted })
			p.OnRequest(nil)
			if n := open.Load(); n > 0 {
				t.Fatalf("%d of %d holders have not been told when the node is deleted", n, len(parts))
			}
		}
		test.AssertEmpty(t, conn, path)
	})
}

// The end of the session deletes the node, and so lets the next one in. By then the holder must
// have been told.
func TestAHolderIsToldBeforeTheSessionOfAClosedConnectionEnds(t *testing.T) {
	t.Parallel()
	venue.InMemory(t, func(t *testing.T, v venue.Venue) {
		p := v.Proxy(t, v.Servers(t)[0])
		conn := v.Connect(t, 10*time.Second, p.Addr())
		path := test.Path(t)
		q, err := New(conn, path, with(Default(), lockNames))
		if err != nil {
			t.Fatal(err)
		}
		grant, err := q.Wait(t.Context(), Request{Kind: znode.Lock, Nodes: 1})
		if err != nil {
			t.Fatal(err)
		}
		lost := grant.State().Lost()
		var open, asked atomic.Int64
		p.OnRequest(func(op proxy.Op) {
			if op != proxy.CloseOp {
				return
			}
			asked.Add(1)
			select {
			case <-lost:
			default:
				open.Add(1)
			}
		})
		conn.Close()
		if asked.Load() == 0 || open.Load() > 0 {
			t.Errorf("the end of the session was asked for %d times, %d times before the holder was told", asked.Load(), open.Load())
		}
		test.AssertEmpty(t, v.Connect(t, 10*time.Second), path)
	})
}
