package realzk

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// dieWithUs makes the system kill the child when the thread that has started it ends.
func dieWithUs(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

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
