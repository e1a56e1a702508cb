package queue

import (
	"testing"

	"github.com/zklocks/zklocks/internal/test/venue"
)

// A writer comes and leaves while one reader lists: its listing and its watch have seen different
// versions. Another reader, whose listing and watch agree, has been told first. What the first does
// not know must not take from the second what it does know.
func TestAListingThatTellsNothingDoesNotEndTheSharing(t *testing.T) {
	for name, mixed := range map[string]bool{"listing and watch differ": true, "both are old": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			venue.InMemory(t, func(t *testing.T, v venue.Venue) {
				x := shared(t, v)
				slow, quick := x.shares(), x.shares()
				epoch := x.queue.client.Epoch()
				line, dir, err := x.queue.list(x.Context(), slow.sess)
				x.must(nil, err)
				old := x.queue.watchWriters(x.Context(), slow.sess)
				x.must(x.witness.Set(x.queue.dir, nil, -1))
				x.until("it is told", func() bool { _, fired := old.Fired(); return fired })
				x.looks(quick)
				if !quick.request.Sharing.CanJoin() {
					t.Fatal("nothing to see")
				}
				if mixed {
					old = x.queue.watchWriters(x.Context(), slow.sess)
				}
				x.queue.view.listed(slow, line, dir, old, epoch)
				if !quick.request.Sharing.CanJoin() {
					t.Error("no other reader joins the second reader's node, and no writer is there")
				}
			})
		})
	}
}
