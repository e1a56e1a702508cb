package zktest_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/zklocks/zklocks/rwlock"
	"github.com/zklocks/zklocks/zktest"
)

func TestTheOldHolderKnows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.NewServer(t)
		a, b := s.Host("a"), s.Host("b")
		old, err := rwlock.New(a.Connect(t, 10*time.Second), "/jobs/nightly").Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		a.Partition()
		// Virtual seconds later, when the server has given up the session of a.
		next, err := rwlock.New(b.Connect(t, 10*time.Second), "/jobs/nightly").Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if old.Held() {
			t.Error("two hold at a time, and the old holder does not know")
		}
		if err := next.Release(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
