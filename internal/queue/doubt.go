package queue

import (
	"context"
	"time"

	"github.com/zklocks/zklocks/internal/wire"
	"github.com/zklocks/zklocks/internal/zkclient"
)

// FirstRecheck is how long a watch is trusted before a request asks whether the server has withheld
// its event; then twice as long, and so on. Servers from 3.8.4 and 3.9.2 on withhold the events of
// nodes that the client may not read. A waiter's times are up to a quarter shorter, so that waiters
// that came together do not list together. If the client may read the nodes again, the waiter waits
// at most 7/3 of the necessary time plus 5 s. Without READ on the nearest blocker it fails with
// zk.ErrNoAuth.
const FirstRecheck = 5 * time.Second

// A doubt is a wait for events that the server may withhold. The zero doubt is ready to use.
type doubt struct {
	doubled time.Duration // FirstRecheck, doubled for each time that it was due since the last event
}

// after returns how long the watches are trusted.
func (d *doubt) after() time.Duration { return max(d.doubled, FirstRecheck) }

// due is called when a request asks without an event: the next one comes after twice the time, at
// most.
func (d *doubt) due(most time.Duration) { d.doubled = min(2*d.after(), most) }

// wait returns true at the first event of some watches, and false when it is time to ask, or ctx is
// canceled.
func (d *doubt) wait(ctx context.Context, watches ...*zkclient.Watch) (event bool) {
	if event = wire.Wait(ctx, time.After(d.after()), watches...); event {
		d.doubled = 0
	} else {
		d.due(time.Hour)
	}
	return event
}
