package zklocks_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/rwlock"
	"github.com/zklocks/zklocks/zktest"
)

var open = zk.WorldACL(zk.PermAll)

// An operation whose result the client could not interpret is refused before it is sent, and so is
// a value that is no operation.
func TestMultiRefusesWhatItCouldNotJudge(t *testing.T) {
	atDesk(t, func(d *desk) {
		hold, err := d.lock.Lock(d.Context())
		if err != nil {
			d.Fatal(err)
		}
		for what, op := range map[string]any{
			"a container":  &zk.CreateRequest{Path: "/made", Flags: zk.FlagContainer, Acl: open},
			"a value":      zk.CreateRequest{Path: "/made", Acl: open},
			"nothing":      nil,
			"no create":    (*zk.CreateRequest)(nil),
			"no write":     (*zk.SetDataRequest)(nil),
			"no delete":    (*zk.DeleteRequest)(nil),
			"no check":     (*zk.CheckVersionRequest)(nil),
			"several":      []any{&zk.CreateRequest{Path: "/made", Acl: open}},
			"unknown flag": &zk.CreateRequest{Path: "/made", Flags: 64, Acl: open},
		} {
			before := d.host.Seen(zktest.Any)
			replies, err := hold.Multi(d.Context(), &zk.CreateRequest{Path: "/made", Acl: open}, op)
			if err == nil || len(replies) != 0 || !strings.Contains(err.Error(), "operation 1") {
				t.Errorf("%s: %+v, %v", what, replies, err)
			}
			if n := d.host.Seen(zktest.Any) - before; n != 0 {
				t.Errorf("%s: %d requests", what, n)
			}
		}
		if err := hold.Release(d.Context()); err != nil {
			d.Error(err)
		}
	})
}

// What no server takes is not sent, and the error says so.
func TestMultiOfMoreThanTheClientSends(t *testing.T) {
	atDesk(t, func(d *desk) {
		hold, err := d.lock.Lock(d.Context())
		if err != nil {
			d.Fatal(err)
		}
		before := d.host.Seen(zktest.Any)
		_, err = hold.Multi(d.Context(), &zk.CreateRequest{Path: "/made", Data: make([]byte, 2<<20), Acl: open})
		if !errors.Is(err, zk.ErrShortBuffer) || !strings.Contains(err.Error(), "larger than servers take") {
			d.Errorf("multi: %v", err)
		}
		if n := d.host.Seen(zktest.Any) - before; n != 0 || !hold.Held() {
			d.Errorf("%d requests, held %v", n, hold.Held())
		}
		if err := hold.Release(d.Context()); err != nil {
			d.Error(err)
		}
	})
}

// A downgrade that goes on without its caller, because the network is down, blocks no other caller.
func TestMultiAndVerifyEndWithTheirContextsBesideADowngrade(t *testing.T) {
	atDesk(t, func(d *desk) {
		hold, err := d.lock.Lock(d.Context())
		if err != nil {
			d.Fatal(err)
		}
		short := func() context.Context {
			ctx, cancel := context.WithTimeout(d.Context(), time.Second)
			d.Cleanup(cancel)
			return ctx
		}
		d.host.Partition()
		if err := d.lock.Downgrade(short(), hold); !errors.Is(err, context.DeadlineExceeded) {
			d.Errorf("downgrade: %v", err)
		}
		for what, ask := range map[string]func(context.Context) error{
			"multi":  func(ctx context.Context) error { _, err := hold.Multi(ctx); return err },
			"verify": hold.Verify,
		} {
			began := time.Now()
			if err := ask(short()); !errors.Is(err, context.DeadlineExceeded) {
				d.Errorf("%s: %v", what, err)
			}
			if took := time.Since(began); took > time.Second {
				d.Errorf("%s: its context bounds nothing: %v", what, took)
			}
		}
		d.host.Heal()
		if err := hold.Release(d.Context()); err != nil {
			d.Errorf("release: %v", err)
		}
	})
}

// Readers share a node, which stays when one of them releases. A transaction that this reader has
// not sent by then is not sent.
func TestMultiOfAHoldThatIsReleasedWhileItWaits(t *testing.T) {
	atDesk(t, func(d *desk) {
		a, err := d.lock.RLock(d.Context())
		if err != nil {
			d.Fatal(err)
		}
		b, err := d.lock.RLock(d.Context())
		if err != nil {
			d.Fatal(err)
		}
		d.host.Refuse()
		time.Sleep(100 * time.Millisecond) // virtual: the connection is lost
		result := make(chan error)
		go func() {
			_, err := a.Multi(d.Context(), &zk.CreateRequest{Path: "/made", Acl: open})
			result <- err
		}()
		synctest.Wait()
		if err := a.Release(d.Context()); err != nil {
			d.Error(err)
		}
		d.host.Accept()
		if err := <-result; !errors.Is(err, zklocks.ErrReleased) {
			d.Errorf("multi: %v", err)
		}
		if made, _, err := d.other.Client().Exists("/made"); made || err != nil {
			d.Errorf("made: %v, %v", made, err)
		}
		if err := b.Release(d.Context()); err != nil {
			d.Error(err)
		}
	})
}

// Zero and nil values are errors or do nothing; none of them ends the program.
func TestZeroAndNilValues(t *testing.T) {
	var conn zklocks.Conn
	if err := conn.Close(); err != nil || conn.SessionTimeout() != 0 || conn.Client() != nil {
		t.Errorf("a zero Conn: %v, %v, %v", err, conn.SessionTimeout(), conn.Client())
	}
	if err := conn.RequestRelease(t.Context(), zklocks.Member{Path: "/x/y"}); err == nil || !strings.Contains(err.Error(), "nil") {
		t.Errorf("a request without a connection: %v", err)
	}
	for _, none := range []*zklocks.Conn{nil, &conn} {
		if _, err := rwlock.New(none, "/x").Lock(t.Context()); err == nil || !strings.Contains(err.Error(), "nil") {
			t.Errorf("a lock without a connection: %v", err)
		}
	}
	atDesk(t, func(d *desk) {
		for _, hold := range []*zklocks.Hold{nil, new(zklocks.Hold)} {
			if err := d.lock.Downgrade(d.Context(), hold); !errors.Is(err, zklocks.ErrLost) {
				d.Errorf("downgrade: %v", err)
			}
		}
		conn := d.server.Host("c").Connect(d, 4*time.Second, nil, zklocks.WithLogger(nil), zklocks.WithSessionEvents(nil), zklocks.WithDialer(nil))
		if _, _, err := conn.Client().Exists("/"); err != nil {
			d.Error(err)
		}
	})
}
