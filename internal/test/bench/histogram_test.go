package bench

import (
	"math/bits"
	"testing"
	"time"
)

// fine is the number of buckets for each power of two: the error of a latency is at most about 1.5
// percent. A list of all latencies would be too long for millions of joins a second.
const fine = 64

// histogram counts durations in nanoseconds.
type histogram struct {
	counts [64 * fine]int64
	total  int64
	max    time.Duration
}

// add counts a duration n times.
func (h *histogram) add(d time.Duration, n int64) {
	h.counts[bucket(d)] += n
	h.total += n
	h.max = max(h.max, d)
}

func (h *histogram) merge(o *histogram) {
	for i, n := range o.counts {
		h.counts[i] += n
	}
	h.total += o.total
	h.max = max(h.max, o.max)
}

// quantile returns the duration that a share q of all durations do not exceed.
func (h *histogram) quantile(q float64) time.Duration {
	rest := int64(q * float64(h.total))
	for i, n := range h.counts {
		if rest -= n; rest < 0 {
			return min(middle(i), h.max)
		}
	}
	return h.max
}

func bucket(d time.Duration) int {
	n := uint64(max(d, 1))
	shift := max(bits.Len64(n)-7, 0) // the rest is below 2*fine
	return shift*fine + int(n>>shift)
}

// middle returns a duration in the middle of a bucket.
func middle(i int) time.Duration {
	shift := max(i/fine-1, 0)
	return time.Duration(i-shift*fine)<<shift + time.Duration(1)<<shift/2
}

func TestHistogram(t *testing.T) {
	var h histogram
	for i := range 100_000 {
		h.add(time.Duration(i)*time.Microsecond, 1)
	}
	for q, want := range map[float64]time.Duration{0.5: 50 * time.Millisecond, 0.99: 99 * time.Millisecond} {
		if got := h.quantile(q); got < want*98/100 || got > want*102/100 {
			t.Errorf("quantile %v is %v, want about %v", q, got, want)
		}
	}
	if got, want := h.quantile(1), 99_999*time.Microsecond; got != want || h.max != want {
		t.Errorf("largest: %v and %v, want %v", got, h.max, want)
	}
	for _, d := range []time.Duration{0, 1, 63, 64, 127, 128, 129, 1 << 20, 1<<62 + 1} {
		if got := middle(bucket(d)); max(got-d, d-got) > d/fine+1 {
			t.Errorf("%d ns are kept as %d ns", d, got)
		}
	}
}
