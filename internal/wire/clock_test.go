package wire

import (
	"testing"
	"time"
	"unsafe"
)

// A fakeClock has a wall and a monotonic reading, which tests move apart. A machine that was
// suspended returns such times. No function makes such a time, so the clock writes the monotonic
// reading itself.
type fakeClock struct {
	origin     time.Time
	wall, mono time.Duration
	looked     int
}

func newClock() *fakeClock { return &fakeClock{origin: time.Now()} }

func (c *fakeClock) now() time.Time {
	c.looked++
	t := c.origin.Add(c.wall)
	// time.Time is {wall uint64; ext int64; loc *Location}; ext is the monotonic reading.
	// TestFakeClock checks this.
	ext := (*int64)(unsafe.Add(unsafe.Pointer(&t), 8))
	*ext += int64(c.mono - c.wall)
	return t
}

// run advances both clocks, for a process that runs or is paused.
func (c *fakeClock) run(d time.Duration) { c.wall += d; c.mono += d }

// suspend suspends the machine: CLOCK_MONOTONIC stops.
func (c *fakeClock) suspend(d time.Duration) { c.wall += d }

// step sets the wall clock.
func (c *fakeClock) step(d time.Duration) { c.wall += d }

func TestFakeClock(t *testing.T) {
	c := newClock()
	a := c.now()
	c.run(3 * time.Second)
	c.step(-time.Minute)
	b := c.now()
	if got := b.Sub(a); got != 3*time.Second {
		t.Errorf("monotonic clock ran %v, want 3s", got)
	}
	if got := b.Round(0).Sub(a.Round(0)); got != -57*time.Second {
		t.Errorf("wall clock ran %v, want -57s", got)
	}
}
