package reentrant_test

import (
	"testing"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test/contract"
	"github.com/zklocks/zklocks/internal/test/locks"
	"github.com/zklocks/zklocks/reentrant"
)

// Another goroutine of the process, without the context of the owner, is not the owner: its Lock
// waits with a node of its own, and its TryLock returns ErrBusy.
func TestAnotherGoroutineOfTheValueWaits(t *testing.T) {
	contract.InMemory(t, "", func(s *contract.Stage) {
		mu := reentrant.New(locks.On(s.Connect()), s.Path)
		h, err := mu.Lock(s.Ctx)
		s.Must(err)
		s.Is(contract.Begin(s, s.Ctx, mu.TryLock).Failed(), zklocks.ErrBusy)
		a := contract.Begin(s, s.Ctx, mu.Lock)
		s.InLine(2)
		a.Waits()
		again, err := mu.Lock(s.Ctx) // the owner re-enters at once, although a waiter is queued
		s.Must(err)
		if again.Token() != h.Token() {
			s.Errorf("the owner has entered with token %d, not %d", again.Token(), h.Token())
		}
		s.Must(again.Release(s.Ctx))
		a.Waits()
		s.Must(h.Release(s.Ctx))
		s.Must(a.Granted().Release(s.Ctx))
		s.Empty()
	})
}
