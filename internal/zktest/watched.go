package zktest

import (
	"fmt"
	"strings"
	"testing"
)

// Watched are the paths on which a session has watches, by the account of the server
// that all tests share.
func Watched(tb testing.TB, session int64) (paths []string) {
	tb.Helper()
	answer, err := Shared(tb).Word("wchc")
	if err != nil {
		tb.Fatal(err)
	}
	mine := false
	for line := range strings.Lines(answer) {
		if path, ok := strings.CutPrefix(line, "\t"); !ok {
			mine = strings.TrimSpace(line) == fmt.Sprintf("0x%x", uint64(session))
		} else if mine {
			paths = append(paths, strings.TrimSpace(path))
		}
	}
	return paths
}
