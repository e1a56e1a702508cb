package history

import (
	"bytes"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestRecorderOfAMutexFindsNothing(t *testing.T) {
	var lines bytes.Buffer
	rec := NewRecorder("me", &lines)
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
	if report.Err() != nil || report.Holds != 1600 || report.Owners != 8 {
		t.Error(report)
	}
	read, err := Read(&lines, 0)
	if err != nil || rec.Err() != nil {
		t.Fatal(err, rec.Err())
	}
	if !slices.Equal(read, rec.Holds()) {
		t.Error("the lines tell another story than the recorder")
	}
}

func TestRecorderWithoutALockFindsOverlaps(t *testing.T) {
	rec := NewRecorder("me", nil)
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

func TestReadEndsTheHoldsOfAKilledProcess(t *testing.T) {
	var lines bytes.Buffer
	rec := NewRecorder("victim", &lines)
	rec.Begin(Hold{Path: "/l", Kind: Exclusive, Token: 1}).End()
	rec.Begin(Hold{Path: "/l", Kind: Exclusive, Token: 2})
	died := Now()
	lines.WriteString(`{"id":2,"begin":{"path":"/l"`) // cut short
	holds, err := Read(&lines, died)
	if err != nil {
		t.Fatal(err)
	}
	if len(holds) != 2 || holds[0].Ended == 0 || holds[1].Ended != died {
		t.Errorf("%+v", holds)
	}
}

func TestReadRefusesMixedLines(t *testing.T) {
	for _, lines := range []string{
		"{\"id\":1,\"begin\":{\"path\":\"/l\"}}\n",
		"{\"id\":0,\"end\":5}\n",
		"{\"id\":0}\n",
		"nonsense\n",
	} {
		if holds, err := Read(strings.NewReader(lines), 0); err == nil {
			t.Errorf("%q gave %v", lines, holds)
		}
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
	rec := NewRecorder("me", nil)
	a := rec.Begin(Hold{Path: "/l", Kind: Exclusive, Token: 1})
	sure := Now()
	b := rec.Begin(Hold{Path: "/l", Kind: Exclusive, Token: 2})
	a.EndAt(sure)
	a.End() // too late to count
	b.End()
	if report := Check(Rules{}, rec.Holds()); report.Err() != nil {
		t.Error(report)
	}
}
