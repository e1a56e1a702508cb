// Package history records which owner held which lock when, and checks that the record is one that
// a correct lock can leave.
//
// It records the *certain* part of each hold: from the instant after the acquiring call returned to
// the instant before the release was called, or loss was observed, whichever came first. It lies
// within the true hold, so if two certain parts conflict the holds did, too: the checker has no
// false alarms. And if no certain parts conflict, choosing their ends as the moments of locking and
// unlocking is a legal sequential history: it misses nothing that the callers could have noticed.
//
//	rec := history.NewRecorder("worker-1")
//	...
//	called := history.Now()
//	hold, err := mu.Lock(ctx)
//	span := rec.Begin(history.Hold{
//		Path: path, Kind: history.Exclusive, Token: hold.Token(), Called: called,
//	})
//	...
//	span.End()
//	hold.Unlock(ctx)
//	...
//	report := history.Check(history.Rules{}, rec.Holds())
//
// A downgrade is two holds of one owner with one token: End the exclusive one before calling
// Downgrade, Begin a shared one after it has returned.
package history

import (
	"fmt"
	"math"
)

// Kind says what a hold excludes.
type Kind string

const (
	Exclusive Kind = "exclusive" // all others
	Shared    Kind = "shared"    // all but other shared ones
	Permits   Kind = "permits"   // more permits than the limit
)

// Hold is one certain-hold interval. Instants are nanoseconds of Now.
type Hold struct {
	Path string `json:"path"`
	Kind Kind   `json:"kind"`
	// Permits is how many, when Kind is Permits; 0 counts as 1.
	Permits int `json:"permits,omitempty"`
	// Token is the fencing token; 0: none is known, and none is checked.
	Token int64 `json:"token,omitempty"`
	// Who is the owner: a name of its own for each goroutine or process that should exclude others.
	Who string `json:"who"`
	// Called is when the acquiring call began; 0 if unknown.
	Called int64 `json:"called,omitempty"`
	// Acquired is when the acquiring call had returned.
	Acquired int64 `json:"acquired"`
	// Ended is when the release was about to be called, or loss was observed; 0: held to the end of
	// the record.
	Ended int64 `json:"ended,omitempty"`
}

// until is Ended with "never" as the largest instant.
func (h Hold) until() int64 {
	if h.Ended == 0 {
		return math.MaxInt64
	}
	return h.Ended
}

// permits is what the hold takes of a limit.
func (h Hold) permits() int { return max(h.Permits, 1) }

func (h Hold) String() string {
	kind := string(h.Kind)
	if h.Kind == Permits {
		kind = fmt.Sprintf("%d permits", h.permits())
	}
	return fmt.Sprintf("%s by %s, token %d", kind, h.Who, h.Token)
}
