package queue

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/hold"
	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/internal/test/venue"
	"github.com/zklocks/zklocks/internal/znode"
)

// What a downgrade returns, and what the hold is afterwards.
func TestWhatADowngradeDoes(t *testing.T) {
	t.Parallel()
	right := func(x *testQueue, h *Hold) {
		x.must(x.witness.Client().SetACL(x.queue.dir, zk.WorldACL(zk.PermAll&^zk.PermCreate), -1))
	}
	for name, c := range map[string]struct {
		held  proxy.Action // during the event
		event func(*testQueue, *Hold)
		err   error
		kind  znode.Kind // of the node at the end; "": none
	}{
		"nothing happens":            {proxy.HoldRequest, func(*testQueue, *Hold) {}, nil, znode.Read},
		"it is watched for requests": {proxy.HoldRequest, func(_ *testQueue, h *Hold) { h.ReleaseRequested() }, nil, znode.Read},
		"the node is deleted":        {proxy.HoldRequest, func(x *testQueue, h *Hold) { x.goes(h.Guard()[0].Path) }, hold.ErrLost, ""},
		"it is lost after the reply": {proxy.HoldReply, func(_ *testQueue, h *Hold) { h.Grant.state.Lose(hold.ErrLost) }, hold.ErrLost, ""},
		"its session ends":           {proxy.HoldRequest, func(x *testQueue, _ *Hold) { x.venue.Expire(x, x.conn) }, hold.ErrLost, ""},
		"a cut before":               {proxy.CutBefore, func(*testQueue, *Hold) {}, nil, znode.Read},
		"a cut while it is sent":     {proxy.CutOnSend, func(*testQueue, *Hold) {}, nil, znode.Read},
		"a cut after it":             {proxy.CutAfterCommit, func(*testQueue, *Hold) {}, nil, znode.Read},
		"another downgrade": {proxy.HoldRequest, func(x *testQueue, h *Hold) {
			if h.Downgrade(x.Context(), x.queue, znode.Write, znode.Read) == nil {
				x.Error("downgraded twice")
			}
		}, nil, znode.Read},
		"it is released":     {proxy.HoldRequest, func(_ *testQueue, h *Hold) { go h.Release(context.Background()) }, nil, ""},
		"a right is missing": {proxy.HoldRequest, right, zk.ErrNoAuth, znode.Write},
		"a right is missing, and it is released": {proxy.HoldRequest, func(x *testQueue, h *Hold) {
			right(x, h)
			go h.Release(context.Background())
			synctest.Wait()
		}, hold.ErrReleased, ""},
	} {
		t.Run(name, func(t *testing.T) {
			venue.InMemory(t, func(t *testing.T, v venue.Venue) {
				x := shared(t, v)
				h := lock(t, x.queue, znode.Write)
				var lost <-chan struct{}
				if c.kind != "" {
					lost = h.State().Lost()
				}
				if name == "nothing happens" {
					h.ReleaseRequested()
				}
				synctest.Wait()
				if err := h.Downgrade(NoWait, x.queue, znode.Write, znode.Read); !errors.Is(err, context.Canceled) {
					t.Errorf("canceled: %v", err)
				}
				f := x.proxy.Next(proxy.MoveOp, c.held)
				done := make(chan error, 1)
				go func() { done <- h.Downgrade(t.Context(), x.queue, znode.Write, znode.Read) }()
				<-f.Fired()
				c.event(x, h)
				f.Release()
				err := <-done
				if synctest.Wait(); !errors.Is(err, c.err) || errors.Is(err, zk.ErrNoAuth) && !strings.Contains(err.Error(), "CREATE and DELETE on "+x.queue.dir) {
					t.Errorf("got %v, want %v", err, c.err)
				}
				if c.kind == "" {
					test.AssertEmpty(t, x.witness.Client(), x.queue.dir)
					return
				}
				x.must(x.witness.Client().SetACL(x.queue.dir, zk.WorldACL(zk.PermAll), -1))
				node := x.line()[0]
				if !strings.Contains(node, string(c.kind)) || h.Err() != nil || !h.Exists(t.Context()) {
					t.Errorf("%s, %v", node, h.Err())
				}
				if err := h.Downgrade(t.Context(), x.queue, znode.Write, znode.Read); c.kind == znode.Write && err != nil || c.kind == znode.Read && fmt.Sprint(err) != "not held for writing" {
					t.Errorf("again: %v", err)
				}
				x.must(x.witness.Client().Set(x.line()[0], []byte(releaseRequest), -1))
				<-h.ReleaseRequested() // the new node is watched, too
				x.goes(x.line()[0])
				<-lost
			})
		})
	}
}
