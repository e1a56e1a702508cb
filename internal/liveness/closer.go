package liveness

import "context"

type closer struct{}

// WithCloser gives a dialer a way to close the client that it dials for. Package zktest uses it: what a
// test leaves open is named and closed, or the synctest bubble of the test would end in a panic.
func WithCloser(ctx context.Context, end func()) context.Context {
	return context.WithValue(ctx, closer{}, end)
}

// Closer is what closes the client that dials; nil if it does not say.
func Closer(ctx context.Context) func() {
	end, _ := ctx.Value(closer{}).(func())
	return end
}
