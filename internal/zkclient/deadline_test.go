package zkclient

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/liveness"
)

// unanswered is a client whose session is known, and whose server never answers.
func unanswered(session int64, timeout time.Duration) *Client {
	c := &connection{conn: new(zk.Conn), link: liveness.New()}
	c.monitor.client = &Client{connection: c}
	c.link.Connected(session, timeout, time.Now())
	return c.monitor.client
}

// A hold must end at its deadline, however shortly before it the monitor has set its timer.
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
					t.Errorf("told %v after the deadline", late)
				}
			})
		})
	}
}

// While a deadline that has passed stays, the monitor waits between two looks. Without a pause it
// would look again and again, and no time would pass in this bubble.
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
			t.Errorf("the loss was told %d times", told)
		}
		lease.OnLoss(func(error) { told++ })
		time.Sleep(timeout / 32) // the monitor still looks: a lease that asks later is told, too
		synctest.Wait()
		if told != 2 {
			t.Errorf("the second loss was told %d times", told-1)
		}
	})
}
