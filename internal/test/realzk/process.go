package realzk

import (
	"os/exec"
	"runtime"
)

// process is one running JVM.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended and was waited for
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

// run starts the process and waits for it. The parent-death signal comes when the *thread* that
// started the child ends, not the process; so this goroutine keeps its thread to itself for as long
// as the child lives. Its name is ServerGoroutine.
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

// kill works on a paused process, too.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}
