package wire_test

import (
	"testing"
	"time"

	"github.com/zklocks/zklocks/internal/liveness"
	"github.com/zklocks/zklocks/internal/test/venue"
)

func TestSessionTimeoutIsWhatWasGranted(t *testing.T) {
	t.Parallel()
	venue.InMemory(t, func(t *testing.T, v venue.Venue) {
		server := v.Shared(t)
		const asked = 700 * time.Millisecond
		if got := liveness.Of(v.Connect(t, asked, server.Addr())).Timeout(); got != asked {
			t.Errorf("%v, asked for %v", got, asked)
		}
		const tooLong = 24 * time.Hour
		if got := liveness.Of(v.Connect(t, tooLong, server.Addr())).Timeout(); got <= 0 || got >= tooLong {
			t.Errorf("%v, asked for %v", got, tooLong)
		}
		if l := liveness.Of(v.ConnectForeign(t, asked, server.Addr())); l != nil {
			t.Errorf("%v of a connection that Connect did not make", l.Timeout())
		}
	})
}
