package liveness

import "context"

type closer struct{}

// WithCloser returns a context that gives a dialer the function that closes the client it dials
// for. Package zktest uses it: it reports and closes the clients that a test leaves open. The
// synctest bubble of the test would otherwise panic.
func WithCloser(ctx context.Context, end func()) context.Context {
	return context.WithValue(ctx, closer{}, end)
}

// Closer returns the function that closes the client that dials, or nil if ctx has none.
func Closer(ctx context.Context) func() {
	end, _ := ctx.Value(closer{}).(func())
	return end
}
