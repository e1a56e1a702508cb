package crew

import (
	"io"
	"os"
	"os/exec"
	"strconv"
	"sync/atomic"
	"time"
)

// patience is the time for workers to finish their step and close their session after a request.
const patience = 3 * time.Second

// Worker is a process that runs the example's work.
type Worker struct {
	crew   *Crew
	cmd    *exec.Cmd
	orders io.WriteCloser
	done   chan struct{} // closed when the process has ended and was waited for
	killed atomic.Bool   // by Kill
}

// Start starts workers with these names. If that fails, the example fails.
func (c *Crew) Start(names ...string) {
	for _, name := range names {
		if err := c.start(name); err != nil {
			c.Fail("start a worker: %w", err)
		}
	}
}

func (c *Crew) start(name string) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	w := &Worker{crew: c, cmd: exec.Command(program, os.Args[1:]...), done: make(chan struct{})}
	w.cmd.Env = append(os.Environ(), nameEnv+"="+name, pathEnv+"="+c.Path)
	w.cmd.Stdout, w.cmd.Stderr = c.pipe, os.Stderr
	if w.orders, err = w.cmd.StdinPipe(); err == nil {
		err = w.cmd.Start()
	}
	if err != nil {
		return err
	}
	go func() {
		err := w.cmd.Wait()
		close(w.done)
		if !w.killed.Load() { // stop ends all workers only after the example has ended
			c.Fail("worker %s ended by itself (%v)", name, err)
		}
	}()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.workers[name] = w
	return nil
}

// Worker returns the worker with that name.
func (c *Crew) Worker(name string) *Worker {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.workers[name]
}

func (c *Crew) dead(name string) bool {
	w := c.Worker(name)
	return w != nil && w.killed.Load()
}

// Tag returns the worker's name, with a mark if the worker was killed.
func (c *Crew) Tag(name string) string {
	if c.dead(name) {
		return name + "(dead)"
	}
	return name
}

// Tell sends the worker an order, for Hear.
func (w *Worker) Tell(order string) { _, _ = io.WriteString(w.orders, order+"\n") }

// Kill ends the worker with SIGKILL, and waits for its end.
func (w *Worker) Kill() {
	w.killed.Store(true)
	_ = w.cmd.Process.Kill()
	<-w.done
}

// Freeze stops the worker with SIGSTOP: it exists, and does nothing.
func (w *Worker) Freeze() { w.signal("-STOP") }

// Thaw continues a frozen worker, with SIGCONT.
func (w *Worker) Thaw() { w.signal("-CONT") }

// signal runs kill(1): package syscall has these signals on some systems only.
func (w *Worker) signal(sig string) {
	if err := exec.Command("kill", sig, strconv.Itoa(w.cmd.Process.Pid)).Run(); err != nil {
		w.crew.Fail("kill %s: %w", sig, err)
	}
}

// stop ends all workers: if possible by closing their orders, so that they close their sessions.
func (c *Crew) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	go func() {
		for range c.lines { // a worker may block on a full pipe
		}
	}()
	for _, w := range c.workers {
		_ = w.orders.Close()
	}
	late := time.After(patience)
	for _, w := range c.workers {
		select {
		case <-w.done:
		case <-late:
			late = time.After(0)
			w.Kill()
		}
	}
}
