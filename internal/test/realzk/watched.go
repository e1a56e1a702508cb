package realzk

import (
	"testing"

	"github.com/zklocks/zklocks/internal/test"
)

// Watched returns the paths on which a session has watches, as the shared server reports them.
func Watched(tb testing.TB, session int64) (paths []string) {
	tb.Helper()
	answer, err := Shared(tb).Word("wchc")
	if err != nil {
		tb.Fatal(err)
	}
	return test.WatchedBy(answer, session)
}
