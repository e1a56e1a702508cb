//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package realzk

import (
	"errors"
	"os"
	"syscall"
	"time"

	"github.com/zklocks/zklocks/internal/test"
)

// The signal only requests the stop: each thread stops when it next checks. Without the wait
// another request might be answered.
func pauseProcess(p *os.Process) error {
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	if !test.Poll(5*time.Second, func() bool { return isPaused(p.Pid) }) {
		return errors.New("process does not stop")
	}
	return nil
}

func resumeProcess(p *os.Process) error { return p.Signal(syscall.SIGCONT) }

func tryLockFile(f *os.File) error {
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
}
