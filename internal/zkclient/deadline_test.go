package zkclient

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/liveness"
)

// unanswered returns a client with a known session, whose server never answers.
func unanswered(session int64, timeout time.Duration) *Client {
	c := &connection{conn: new(zk.Conn), link: liveness.New()}
	c.monitor.client = &Client{connection: c}
	c.link.Connected(session, timeout, time.Now())
	return c.monitor.client
}

// A hold must end at its deadline, even if the monitor has set its timer shortly before.
func TestLossIsToldAtTheDeadline(t *testing.T) {
	const session, timeout = 7, 10 * time.Second
	for _, before := range []time.Duration{1, time.Millisecond, 5 * time.Millisecond, timeout / 256, timeout / 8, timeout} {
		t.Run(before.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := unanswered(session, timeout)
				deadline := c.link.Deadline(session)
				time.Sleep(timeout - before)
				lease := c.Keep(session) // sets the timer
				defer lease.End()
				lost := make(chan time.Time, 1)
				lease.OnLoss(func(error) { lost <- time.Now() })
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
	const session, timeout = 7, 10 * time.Second
	synctest.Test(t, func(t *testing.T) {
		c := unanswered(session, timeout)
		lease := c.Keep(session)
		defer lease.End()
		told := 0
		lease.OnLoss(func(error) { told++ })
		time.Sleep(3 * timeout)
		synctest.Wait()
		if told != 1 {
			t.Errorf("the loss was reported %d times", told)
		}
		lease.OnLoss(func(error) { told++ })
		time.Sleep(timeout / 32) // the monitor still checks: it also reports the loss to a later lease
		synctest.Wait()
		if told != 2 {
			t.Errorf("the second loss was reported %d times", told-1)
		}
	})
}
