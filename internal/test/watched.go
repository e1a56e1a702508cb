package test

import (
	"fmt"
	"strings"
)

// WatchedBy returns the paths on which a session has watches, from a server's answer to "wchc".
func WatchedBy(wchc string, session int64) (paths []string) {
	mine := false
	for line := range strings.Lines(wchc) {
		if path, ok := strings.CutPrefix(line, "\t"); !ok {
			mine = strings.TrimSpace(line) == fmt.Sprintf("0x%x", uint64(session))
		} else if mine {
			paths = append(paths, strings.TrimSpace(path))
		}
	}
	return paths
}
