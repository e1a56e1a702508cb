package wire_test

import (
	"testing"
	"time"

	"github.com/zklocks/zklocks/internal/test/venue"
	"github.com/zklocks/zklocks/internal/wire"
)

func TestSessionTimeoutIsWhatWasGranted(t *testing.T) {
	t.Parallel()
	venue.InMemory(t, func(t *testing.T, v venue.Venue) {
		server := v.Shared(t)
		const asked = 700 * time.Millisecond
		if got := wire.SessionTimeout(v.Connect(t, asked, server.Addr())); got != asked {
			t.Errorf("%v, asked for %v", got, asked)
		}
		const tooLong = 24 * time.Hour
		if got := wire.SessionTimeout(v.Connect(t, tooLong, server.Addr())); got <= 0 || got >= tooLong {
			t.Errorf("%v, asked for %v", got, tooLong)
		}
		if got := wire.SessionTimeout(v.ConnectForeign(t, asked, server.Addr())); got != 0 {
			t.Errorf("%v of a connection that Connect did not make", got)
		}
	})
}
