package realzk

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
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
		// The format is "pid (name) state ..."; the name may contain anything.
		_, after, found := bytes.Cut(stat[max(0, bytes.LastIndexByte(stat, ')')):], []byte(") "))
		if !found || len(after) == 0 || after[0] != 'T' {
			return false
		}
	}
	return true
}

// describeTree describes a process and its descendants for the message of a failed test: program,
// state, and the signals that are pending, blocked, ignored and handled.
func describeTree(pid int) string {
	var b strings.Builder
	line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	fmt.Fprintf(&b, "%d %q", pid, strings.TrimRight(strings.ReplaceAll(string(line), "\x00", " "), " "))
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for field := range strings.Lines(string(status)) {
		for _, name := range []string{"State:", "SigPnd:", "ShdPnd:", "SigBlk:", "SigIgn:", "SigCgt:"} {
			if value, is := strings.CutPrefix(field, name); is {
				fmt.Fprintf(&b, " %s %s", name, strings.TrimSpace(value))
			}
		}
	}
	b.WriteByte('\n')
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, list := range lists {
		children, _ := os.ReadFile(list)
		for child := range strings.FieldsSeq(string(children)) {
			var n int
			if _, err := fmt.Sscan(child, &n); err == nil {
				b.WriteString(describeTree(n))
			}
		}
	}
	return b.String()
}
