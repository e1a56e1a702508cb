package queue

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/zklocks/zklocks/internal/test/venue"
	"github.com/zklocks/zklocks/internal/znode"
)

// A node of this library keeps its data behind the word. A node that may belong to Curator gets the
// word alone, because Curator compares it with all of the data.
func TestARequestKeepsTheDataOfOurNodesAlone(t *testing.T) {
	const curators, ours = "/l/_c_0f8fad5b-d9cb-469f-a165-70867728950e-", "/l/_c_0f8fad5b-d9cb-869f-a165-70867728950e-"
	const text = `{"host":"web1","pid":7}`
	for _, c := range []struct {
		path, data, want string
	}{
		{ours + "lock-0000000001", "10.0.0.1", "__REVOKE__\n10.0.0.1"},
		{ours + "__WRIT__0000000001", text, "__REVOKE__\n" + text},
		{"/l/0f8fad5bd9cb869fa16570867728950e__lock__0000000001", "10.0.0.1", "__REVOKE__\n10.0.0.1"},
		{"/l/" + znode.Prefix(znode.NewID(), znode.Latch) + "0000000001", "10.0.0.1", "__REVOKE__\n10.0.0.1"},
		{ours + "lock-0000000001", "", "__REVOKE__"},
		{curators + "write-0000000001", "mine", "__REVOKE__\nmine"}, // kinds that Curator does not have
		{curators + "permit-0000000001", "\ntwo\nlines\n", "__REVOKE__\n\ntwo\nlines\n"},
		{curators + "lock-0000000001", text, "__REVOKE__"},
		{curators + "__WRIT__0000000001", "10.0.0.1", "__REVOKE__"},
		{"/l/lock-0000000001", "10.0.0.1", "__REVOKE__"},
		{"/l/0f8fad5bd9cb469fa16570867728950e__lock__0000000001", "10.0.0.1", "__REVOKE__"},
	} {
		request := requestFor(c.path, []byte(c.data))
		if string(request) != c.want || !isReleaseRequest(request) {
			t.Errorf("%s with %q: %q, want %q", c.path, c.data, request, c.want)
		}
		if c.want != "__REVOKE__" && string(withoutRequest(request)) != c.data {
			t.Errorf("%q was read back as %q", c.data, withoutRequest(request))
		}
	}
	for _, data := range []string{"", "text", "__REVOKE__ text", "\n__REVOKE__"} {
		if isReleaseRequest([]byte(data)) || string(withoutRequest([]byte(data))) != data {
			t.Errorf("%q was read as a request", data)
		}
	}
}

// While the client may not read its node, the server withholds the event of a request. The holder
// reads the node again after a while, also if the right was missing when it began to watch.
func TestAWithheldRequestReachesTheHolder(t *testing.T) {
	t.Parallel()
	for _, before := range []bool{false, true} {
		venue.InMemory(t, func(t *testing.T, v venue.Venue) {
			x := newTestQueue(t, v, 10*time.Second)
			h := lock(t, x.queue, znode.Lock)
			if before {
				h.ReleaseRequested()
				synctest.Wait()
			}
			x.blind(h.Guard()[0].Path, func() {
				h.ReleaseRequested()
				synctest.Wait()
				x.must(x.witness.Client().Set(h.Guard()[0].Path, []byte(releaseRequest), -1))
			})
			time.Sleep(FirstRecheck) // virtual
			synctest.Wait()
			select {
			case <-h.ReleaseRequested():
			default:
				t.Errorf("it is not notified; watched before: %v", before)
			}
		})
	}
}
