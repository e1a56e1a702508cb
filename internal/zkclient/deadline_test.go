package zkclient

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/zklocks/zklocks/internal/test/venue"
)

// unanswered returns a client with a session, whose server no longer answers.
func unanswered(t *testing.T, v venue.Venue, timeout time.Duration) (c *Client, session int64) {
	p := v.Proxy(t, v.Servers(t)[0])
	conn := v.Connect(t, timeout, p.Addr())
	p.Mute()
	return Of(conn), conn.Session()
}

// A hold must end at its deadline, even if the monitor has set its timer shortly before.
func TestLossIsToldAtTheDeadline(t *testing.T) {
	const timeout = 10 * time.Second
	for _, before := range []time.Duration{1, time.Millisecond, 5 * time.Millisecond, timeout / 256, timeout / 8, timeout} {
		t.Run(before.String(), func(t *testing.T) {
			venue.InMemory(t, func(t *testing.T, v venue.Venue) {
				c, session := unanswered(t, v, timeout)
				deadline := c.conn.Deadline(session)
				time.Sleep(time.Until(deadline) - before)
				lease := c.Keep(session) // sets the timer
				defer lease.End()
				lost := make(chan time.Time, 1)
				lease.OnLoss(nil, func(error) { lost <- time.Now() })
				if late := (<-lost).Sub(deadline); late != 0 {
					t.Errorf("reported %v after the deadline", late)
				}
			})
		})
	}
}

// After the deadline has passed, the monitor pauses between two checks. Without a pause it would
// check in a busy loop, and no time would pass in this bubble.
func TestThePassedDeadlineIsNotLookedAtAllTheTime(t *testing.T) {
	const timeout = 10 * time.Second
	venue.InMemory(t, func(t *testing.T, v venue.Venue) {
		c, session := unanswered(t, v, timeout)
		lease := c.Keep(session)
		defer lease.End()
		told := 0
		lease.OnLoss(nil, func(error) { told++ })
		time.Sleep(3 * timeout)
		synctest.Wait()
		if told != 1 {
			t.Errorf("the loss was reported %d times", told)
		}
		lease.OnLoss(nil, func(error) { told++ })
		time.Sleep(timeout / 32) // the monitor still checks: it also reports the loss to a later lease
		synctest.Wait()
		if told != 2 {
			t.Errorf("the second loss was reported %d times", told-1)
		}
	})
}
