package zkclient

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/internal/test/venue"
)

// Two calls read many nodes: few of their requests are on the way at a time, and each reply is that
// of its node. A call whose ctx ends waits for no slot.
func TestGetEach(t *testing.T) {
	t.Parallel()
	venue.InMemory(t, func(t *testing.T, v venue.Venue) {
		const latency = 50 * time.Millisecond // each way
		v.Latency(latency)
		l := newLine(t, v, 10*time.Second)
		const nodes = 3 * mostReads
		var paths []string
		for i := range nodes {
			path := fmt.Sprintf("%s/%d", l.dir, i)
			paths = append(paths, path)
			if i%3 > 0 {
				_, err := l.witness.Create(path, []byte(path), 0, open)
				must(t, err)
			}
		}
		before := l.Seen(proxy.ReadOp)
		var all sync.WaitGroup
		for range 2 {
			all.Go(func() {
				for i, r := range l.client.GetEach(t.Context(), paths) {
					if i%3 == 0 {
						mustBe(t, r.Err, zk.ErrNoNode)
					} else if must(t, r.Err); string(r.Data) != paths[i] || r.Stat == nil {
						t.Errorf("%s: %q, %+v", paths[i], r.Data, r.Stat)
					}
				}
			})
		}
		time.Sleep(latency * 3 / 2) // virtual: the first requests have come, and no reply
		if n := l.Seen(proxy.ReadOp) - before; n != mostReads {
			t.Errorf("%d requests at once", n)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for _, r := range l.client.GetEach(ctx, paths) {
			mustBe(t, r.Err, context.Canceled)
		}
		if n := l.Seen(proxy.ReadOp) - before; n != mostReads {
			t.Errorf("%d requests at once, after a call that was canceled", n)
		}
		all.Wait()
		if n := l.Seen(proxy.ReadOp) - before; n != 2*nodes {
			t.Errorf("%d requests", n)
		}
	})
}
