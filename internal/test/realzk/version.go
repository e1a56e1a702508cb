package realzk

import (
	"fmt"
	"testing"
	"time"
)

// OlderThan reports whether the server at addr has an older version.
func OlderThan(tb testing.TB, addr string, major, minor int) bool {
	tb.Helper()
	answer, err := fourLetterWord(addr, "srvr", 10*time.Second)
	if err != nil {
		tb.Fatal(err)
	}
	var a, b int
	if _, err := fmt.Sscanf(answer, "Zookeeper version: %d.%d.", &a, &b); err != nil {
		tb.Fatalf("%s does not say its version: %q", addr, answer)
	}
	return a < major || a == major && b < minor
}
