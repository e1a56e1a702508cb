package realzk

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
)

// isPaused reports whether all threads of a process are stopped.
func isPaused(pid int) bool {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil || len(threads) == 0 {
		return false
	}
	for _, thread := range threads {
		stat, err := os.ReadFile(thread)
		if err != nil {
			continue // the thread has ended
		}
		// "pid (name) state ...", and the name may hold anything.
		_, after, found := bytes.Cut(stat[max(0, bytes.LastIndexByte(stat, ')')):], []byte(") "))
		if !found || len(after) == 0 || after[0] != 'T' {
			return false
		}
	}
	return true
}
