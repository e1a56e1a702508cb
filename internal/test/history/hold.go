// Package history records which owner held which lock when, and checks that a correct lock can
// leave such a record.
//
// It records the *certain* part of each hold: from the instant after the acquiring call returned to
// the instant before the release was called, or the loss was observed, whichever came first. The
// certain part lies within the true hold. So if two certain parts conflict, the holds conflict,
// too: the checker has no false alarms. And if no certain parts conflict, the ends of these parts,
// as the moments of locking and unlocking, make a legal sequential history. So the checker misses
// nothing that the callers could have detected.
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
// A downgrade is two holds of one owner with one token: End the exclusive hold before the call of
// Downgrade, and Begin a shared hold after Downgrade has returned.
package history

import (
	"fmt"
	"math"
)

// Kind says what a hold excludes.
type Kind string

const (
	Exclusive Kind = "exclusive" // all others
	Shared    Kind = "shared"    // all but other shared holds
	Permits   Kind = "permits"   // more permits than the limit
)

// Hold is one certain-hold interval. Instants are nanoseconds of Now.
type Hold struct {
	Path string `json:"path"`
	Kind Kind   `json:"kind"`
	// Permits is the number of permits, if Kind is Permits; 0 counts as 1.
	Permits int `json:"permits,omitempty"`
	// Token is the fencing token; 0: the token is unknown, and is not checked.
	Token int64 `json:"token,omitempty"`
	// Who is the owner. Each goroutine or process that should exclude others has its own name.
	Who string `json:"who"`
	// Claim and Session name the nodes by which the hold exists, and their session, for a judge who
	// knows of faults of either.
	Claim   string `json:"claim,omitempty"`
	Session int64  `json:"session,omitempty"`
	// Called is when the acquiring call began; 0 if unknown.
	Called int64 `json:"called,omitempty"`
	// Acquired is when the acquiring call had returned.
	Acquired int64 `json:"acquired"`
	// Ended is when the release was about to be called, or when the loss was observed; 0: held to
	// the end of the record.
	Ended int64 `json:"ended,omitempty"`
}

// until is Ended with "never" as the largest instant.
func (h Hold) until() int64 {
	if h.Ended == 0 {
		return math.MaxInt64
	}
	return h.Ended
}

// permits returns how many permits of a limit the hold takes.
func (h Hold) permits() int { return max(h.Permits, 1) }

func (h Hold) String() string {
	kind := string(h.Kind)
	if h.Kind == Permits {
		kind = fmt.Sprintf("%d permits", h.permits())
	}
	return fmt.Sprintf("%s by %s, token %d", kind, h.Who, h.Token)
}
