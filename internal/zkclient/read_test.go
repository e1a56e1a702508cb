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

// Two calls read many nodes: not all of their requests are on the way at a time, and each answer is
// that of its node. A call whose ctx ends waits for no slot.
func TestReadable(t *testing.T) {
	t.Parallel()
	venue.InMemory(t, func(t *testing.T, v venue.Venue) {
		const latency = 50 * time.Millisecond // each way
		v.Latency(latency)
		l := newLine(t, v, 10*time.Second)
		const nodes = mostReads * 3 / 4
		var paths []string
		var made sync.WaitGroup
		for i := range nodes {
			path := fmt.Sprintf("%s/%d", l.dir, i)
			paths = append(paths, path)
			if i%3 > 0 {
				made.Go(func() {
					_, err := l.witness.Create(path, nil, 0, open)
					must(t, err)
				})
			}
		}
		made.Wait()
		before := l.Seen(proxy.ReadOp)
		var all sync.WaitGroup
		for range 2 {
			all.Go(func() {
				for i, err := range l.client.Readable(t.Context(), paths) {
					if i%3 == 0 {
						mustBe(t, err, zk.ErrNoNode)
					} else {
						must(t, err)
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
		for _, err := range l.client.Readable(ctx, paths) {
			mustBe(t, err, context.Canceled)
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
