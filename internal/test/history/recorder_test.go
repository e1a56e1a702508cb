package history

import (
	"sync"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestRecorderOfAMutexFindsNothing(t *testing.T) {
	rec := NewRecorder("me")
	var mu sync.Mutex
	var token int64
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 200 {
				called := Now()
				mu.Lock()
				token++
				span := rec.Begin(Hold{Path: "/l", Kind: Exclusive, Token: token, Who: string(rune('a' + i)), Called: called})
				span.End()
				mu.Unlock()
				span.End() // too late to count
			}
		})
	}
	wg.Wait()
	report := Check(Rules{}, rec.Holds())
	if !report.OK() {
		t.Error(report)
	}
}

func TestRecorderWithoutALockFindsOverlaps(t *testing.T) {
	rec := NewRecorder("me")
	a := rec.Begin(Hold{Path: "/l", Kind: Exclusive, Token: 1})
	b := rec.Begin(Hold{Path: "/l", Kind: Exclusive, Token: 2})
	b.End()
	a.End()
	if report := Check(Rules{}, rec.Holds()); report.Total != 1 || report.Violations[0].Rule != Overlap {
		t.Error(report)
	}
	if who := rec.Holds()[0].Who; who != "me" {
		t.Errorf("held by %q", who)
	}
}

func TestNowNeverGoesBack(t *testing.T) {
	last := Now()
	for range 10_000 {
		now := Now()
		if now < last {
			t.Fatalf("%d after %d", now, last)
		}
		last = now
	}
}

func TestASpanMayEndBeforeItIsKnown(t *testing.T) {
	rec := NewRecorder("me")
	a := rec.Begin(Hold{Path: "/l", Kind: Exclusive, Token: 1})
	sure := Now()
	b := rec.Begin(Hold{Path: "/l", Kind: Exclusive, Token: 2})
	a.EndAt(sure)
	a.End() // too late to count
	b.End()
	if report := Check(Rules{}, rec.Holds()); !report.OK() {
		t.Error(report)
	}
}
