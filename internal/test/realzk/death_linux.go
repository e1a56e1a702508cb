package realzk

import (
	"os/exec"
	"syscall"
)

// dieWithUs makes the system kill the child when the thread that has started it ends.
func dieWithUs(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
