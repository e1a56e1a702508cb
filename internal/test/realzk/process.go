package realzk

import (
	"os/exec"
	"runtime"
)

// process is a running JVM.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended and was waited for
}

func startProcess(cmd *exec.Cmd) (*process, error) {
	dieWithUs(cmd)
	p := &process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error, 1)
	go p.run(started)
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// run starts the process and waits for it. The system kills the child when the *thread* that
// started it ends, so this goroutine keeps its thread while the child lives. Its name is
// ServerGoroutine.
func (p *process) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(p.done)
	err := p.cmd.Start()
	started <- err
	if err == nil {
		_ = p.cmd.Wait()
	}
}

func (p *process) alive() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// kill also works on a paused process.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}
