//go:build unix

package main

import (
	"os/exec"
	"syscall"
	"time"
)

// patience is how long a command may take to end after SIGTERM.
const patience = 10 * time.Second

// inGroup puts the command and all processes that it starts into a process group, which a canceled
// context ends as a whole. To end go test alone would leave its test programs running.
func inGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error {
		group := -cmd.Process.Pid
		time.AfterFunc(patience, func() { _ = syscall.Kill(group, syscall.SIGKILL) })
		return syscall.Kill(group, syscall.SIGTERM)
	}
}
