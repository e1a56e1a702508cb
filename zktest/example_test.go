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
		here := rwlock.New(a.Connect(t, 10*time.Second), "/jobs/nightly")
		old, err := here.Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		a.Partition()
		// Virtual seconds later, when the server has expired the session of a.
		there := rwlock.New(b.Connect(t, 10*time.Second), "/jobs/nightly")
		next, err := there.Lock(t.Context())
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
