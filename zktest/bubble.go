package zktest

import (
	"bytes"
	"fmt"
	"runtime"
	"testing"
	"time"
)

// started is a time of the real clock: package variables are initialized outside of any bubble.
var started = time.Now()

// bubble identifies the synctest bubble of the calling goroutine: equal results mean the same
// bubble, and "" is outside of all bubbles. Package testing/synctest has no function for this, but
// the first line of a goroutine's stack names the bubble. If a future version of Go changes that
// line, all bubbles look alike: their clock, which begins in the year 2000, still distinguishes
// them from the outside.
func bubble() string {
	var head [128]byte
	line, _, _ := bytes.Cut(head[:runtime.Stack(head[:], false)], []byte("]:"))
	if _, id, ok := bytes.Cut(line, []byte("synctest bubble ")); ok {
		id, _, _ = bytes.Cut(id, []byte(" ")) // labels may follow
		return string(id)
	}
	if time.Now().Before(started) {
		return "unknown"
	}
	return ""
}

// wrongT reports that t does not belong to the caller's bubble. Its cleanups would run outside,
// after the bubble has ended and panicked.
func wrongT(t testing.TB) (wrong bool) {
	own, ok := t.(interface{ Deadline() (time.Time, bool) })
	if !ok || bubble() == "" {
		return false
	}
	// The t of a bubble has no deadline: Deadline panics.
	defer func() { wrong = recover() == nil }()
	own.Deadline()
	return true
}

// foreign returns why the caller cannot use what was made in the bubble home, or "" if it can.
func foreign(home string) string {
	switch here := bubble(); {
	case here == home:
		return ""
	case home == "":
		return "the server was made outside of this synctest bubble: call NewServer in the function that synctest.Test runs"
	case here == "":
		return "the server was made in a synctest bubble, and this goroutine runs outside of it"
	default:
		return fmt.Sprintf("the server was made in another synctest bubble (%s, this is %s): each needs a server of its own", home, here)
	}
}
