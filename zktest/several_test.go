package zktest_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/zktest"
)

// Two servers that start at the same instant with the same seed reject each other's sessions and
// addresses.
func TestTwoServersRejectEachOthersSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, other := zktest.NewServer(t), zktest.NewServer(t)
		if a, b := one.Addrs()[0], other.Addrs()[0]; a == b {
			t.Errorf("both are at %s", a)
		}
		conn := one.Host("a").Connect(t, 10*time.Second)
		bystander := other.Host("a").Connect(t, 10*time.Second)
		session := bystander.Client().SessionID()
		if session == conn.Client().SessionID() {
			t.Errorf("both have session %#x", session)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := zklocks.Connect(ctx, one.Addrs(), time.Second, zklocks.WithDialer(other.Host("a").Dial))
		if err == nil || !strings.Contains(err.Error(), "not an address of this server") {
			t.Errorf("connect to another server: %v", err)
		}
		fails(t, func(t testing.TB) {
			s := zktest.NewServer(t)
			s.Host("a").Connect(t, 10*time.Second)
			s.Expire(bystander)
		}, "no session")
	})
}
