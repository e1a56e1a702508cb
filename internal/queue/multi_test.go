package queue

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/hold"
	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/internal/test/venue"
	"github.com/zklocks/zklocks/internal/znode"
)

// A hold that ends while its transaction waits ends the call. If a server may have received the
// request, the error says that the transaction may have taken place, and does not match the end of
// the hold, which would mean that it has not.
func TestATransactionWhoseHoldEndsMeanwhile(t *testing.T) {
	for name, c := range map[string]struct {
		begin   func(*testing.T, *proxy.Proxy) (sent func())
		perhaps bool
	}{
		"it is under way": {func(t *testing.T, p *proxy.Proxy) func() {
			f := p.Next(proxy.SetOp, proxy.HoldReply)
			return func() { <-f.Fired(); t.Cleanup(f.Release) }
		}, true},
		"there is no connection": {func(_ *testing.T, p *proxy.Proxy) func() {
			p.Refuse()
			time.Sleep(time.Second) // virtual: what is under way arrives
			return func() {}
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			venue.InMemory(t, func(t *testing.T, v venue.Venue) {
				p := v.Proxy(t, v.Servers(t)[0])
				conn := v.Connect(t, 10*time.Second, p.Addr())
				path := test.Path(t)
				l := newQueue(t, conn, path, with(Default(), lockNames))
				place := lock(t, l, znode.Lock)
				ctx := place.Context(t.Context())
				sent := c.begin(t, p)
				result := make(chan error, 1)
				go func() {
					_, err := place.Multi(ctx, &zk.SetDataRequest{Path: path, Version: -1})
					result <- err
				}()
				sent()
				synctest.Wait()
				go func() { _ = place.Release(t.Context()) }() // its answer may have to wait for a connection
				err := <-result
				if err == nil || errors.Is(err, hold.ErrReleased) == c.perhaps || errors.Is(err, context.Canceled) != c.perhaps {
					t.Errorf("error %v, and the transaction may have taken place: %v", err, c.perhaps)
				}
				if err != nil && strings.Contains(err.Error(), "may have taken place") != c.perhaps {
					t.Errorf("error %q, and the transaction may have taken place: %v", err, c.perhaps)
				}
				if err := p.Accept(); err != nil {
					t.Error(err)
				}
				test.AssertEmpty(t, v.Connect(t, 10*time.Second), path)
			})
		})
	}
}

// A transaction may be sent after the call has returned because ctx is canceled. The caller may
// overwrite the operations by then.
func TestATransactionHasItsOperationsForItself(t *testing.T) {
	theirs := func() []any {
		return []any{
			&zk.CreateRequest{Path: "/made", Data: []byte("data"), Acl: zk.DigestACL(zk.PermAll, "user", "password"), Flags: zk.FlagEphemeral},
			&zk.SetDataRequest{Path: "/set", Data: []byte("data"), Version: 1},
			&zk.DeleteRequest{Path: "/gone", Version: 2},
			&zk.CheckVersionRequest{Path: "/there", Version: 3},
		}
	}
	ops := theirs()
	own, err := owned(ops)
	if err != nil {
		t.Fatal(err)
	}
	made, set := ops[0].(*zk.CreateRequest), ops[1].(*zk.SetDataRequest)
	clear(made.Data)
	clear(made.Acl)
	clear(set.Data)
	*made, *set = zk.CreateRequest{}, zk.SetDataRequest{}
	*ops[2].(*zk.DeleteRequest), *ops[3].(*zk.CheckVersionRequest) = zk.DeleteRequest{}, zk.CheckVersionRequest{}
	if want := theirs(); !reflect.DeepEqual(own, want) {
		t.Errorf("%+v, want %+v", own, want)
	}
}
