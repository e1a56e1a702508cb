package hostile

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test/contract"
	"github.com/zklocks/zklocks/internal/test/proxy"
)

// few requests take a member into its queue, to its turn or its error, and out again. While nothing
// happens a waiter sends none.
const few = 20

// caller is a lock value behind a proxy that counts, and a call of it.
type caller struct {
	recipe
	locker
	proxy   *proxy.Proxy
	attempt *contract.Attempt[*zklocks.Hold]
	before  int64 // requests when it began
}

// begin begins a call that has so long.
func (c *caller) begin(t *testing.T, wait time.Duration, call acquire) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), wait)
	t.Cleanup(cancel)
	c.before = c.proxy.Seen(proxy.AnyOp)
	c.attempt = contract.Begin(t, ctx, call)
}

// inVain asserts that the call has waited until its time was over, and returns how many requests it
// has made.
func (c *caller) inVain(t *testing.T) (asked int64) {
	t.Helper()
	if err := c.attempt.Failed(); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%s: %v, want %v", c.name, err, context.DeadlineExceeded)
	}
	return c.proxy.Seen(proxy.AnyOp) - c.before
}
