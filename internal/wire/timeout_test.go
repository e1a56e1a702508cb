package wire_test

import (
	"testing"
	"time"

	"github.com/zklocks/zklocks/internal/test/venue"
)

func TestSessionTimeoutIsWhatWasGranted(t *testing.T) {
	t.Parallel()
	venue.InMemory(t, func(t *testing.T, v venue.Venue) {
		server := v.Shared(t)
		const asked = 700 * time.Millisecond
		if got := v.Connect(t, asked, server.Addr()).Timeout(); got != asked {
			t.Errorf("%v, asked for %v", got, asked)
		}
		const tooLong = 24 * time.Hour
		if got := v.Connect(t, tooLong, server.Addr()).Timeout(); got <= 0 || got >= tooLong {
			t.Errorf("%v, asked for %v", got, tooLong)
		}
	})
}
