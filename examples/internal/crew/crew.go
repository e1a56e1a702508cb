// Package crew runs an example as several processes: it starts its own program again as workers,
// reads their reports, and stops, freezes or kills them. It uses no locks, so its measurements do
// not depend on them.
package crew

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	nameEnv = "ZKLOCKS_EXAMPLE_WORKER"
	pathEnv = "ZKLOCKS_EXAMPLE_PATH"

	failed = "failed:" // begins a worker's last report

	// tooLong is the time limit of an example.
	tooLong = 45 * time.Second

	// patience is the time for workers to finish their step and close their session after a
	// request.
	patience = 3 * time.Second
)

var errInterrupted = errors.New("interrupted")

// Crew is the leading process with its workers, or a worker's own state.
type Crew struct {
	Servers []string
	Path    string // for the nodes of this run, removed at its end
	Name    string // of this worker; empty in the leading process

	ctx    context.Context // canceled when the example ends
	lines  chan Line
	pipe   *os.File // all workers write to it
	cancel context.CancelCauseFunc
	orders chan string // to this worker
	screen screen

	mu      sync.Mutex
	workers map[string]*Worker
}

// Line is a report of a worker. All workers write to one pipe, so all reports are in the order in
// which they were written.
type Line struct {
	From, Text string
	At         time.Time
}

// Int returns the number in the report.
func (l Line) Int() int64 {
	n, _ := strconv.ParseInt(l.Text, 10, 64)
	return n
}

// Main calls the function lead in the leading process, and the function work in a worker, which is
// a process that Start has started. The contexts of both are canceled after the time tooLong.
// The context of lead is also canceled by an interrupt, and when a worker fails, or ends without
// Kill. A worker ignores interrupts: its context is canceled when the leading process closes its
// orders or ends, even by SIGKILL. The exit status is 130 after an interrupt, and 1 after any other
// error.
func Main(lead, work func(context.Context, *Crew) error) {
	servers := flag.String("servers", envOr("ZK_SERVERS", "127.0.0.1:2181"), "ZooKeeper servers, `host:port,...`; default from ZK_SERVERS")
	flag.Parse()
	program := filepath.Base(os.Args[0])
	ctx, cancel := context.WithCancelCause(context.Background())
	ctx, stop := context.WithTimeoutCause(ctx, tooLong, fmt.Errorf("not done after %v", tooLong))
	defer stop()
	c := &Crew{
		Servers: strings.FieldsFunc(*servers, func(r rune) bool { return r == ',' || r == ' ' }),
		Path:    os.Getenv(pathEnv),
		Name:    os.Getenv(nameEnv),
		ctx:     ctx,
		cancel:  cancel,
		workers: map[string]*Worker{},
	}
	// A broken connection to ZooKeeper also causes SIGPIPE, which must not end the process. Prints
	// to a closed pipe return errors.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	if c.Name != "" { // an interrupt from the terminal reaches all processes; the leading process decides
		c.listen()
		if err := work(ctx, c); err != nil && ctx.Err() == nil {
			c.Say("%s %v", failed, err)
		}
		return
	}

	go func() {
		<-signals
		cancel(errInterrupted)
	}()
	c.Path = "/zklocks-" + program + "-" + strings.ToLower(rand.Text()[:6])
	c.screen.begin()
	err := c.open()
	if err == nil {
		err = c.reach(ctx)
	}
	if err == nil {
		err = lead(ctx, c)
	}
	cause := context.Cause(ctx)
	cancel(nil)
	c.screen.end()
	c.stop()
	c.sweep()
	if cause != nil {
		err = cause // lead returned only the error of its canceled context
	}
	switch {
	case errors.Is(err, errInterrupted):
		fmt.Fprintf(os.Stderr, "%s: interrupted\n", program)
		os.Exit(130)
	case err != nil:
		fmt.Fprintf(os.Stderr, "%s: FAILED: %v\n", program, err)
		os.Exit(1)
	}
}

func envOr(key, otherwise string) string {
	if v := os.Getenv(key); v != "" {
		return v
	}
	return otherwise
}

func (c *Crew) open() error {
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	c.pipe, c.lines = w, make(chan Line, 1024)
	go func() {
		for in := bufio.NewScanner(r); in.Scan(); {
			from, text, _ := strings.Cut(in.Text(), " ")
			if why, ok := strings.CutPrefix(text, failed+" "); ok {
				c.Fail("%s: %s", from, why)
			}
			c.lines <- Line{from, text, time.Now()}
		}
	}()
	return nil
}

// Next returns the next line of a worker, or an error if ctx is canceled first. It skips unread
// lines of workers that were killed.
func (c *Crew) Next(ctx context.Context) (Line, error) {
	for {
		select {
		case l := <-c.lines:
			if w := c.Worker(l.From); w != nil && w.killed.Load() {
				continue
			}
			return l, nil
		case <-ctx.Done():
			return Line{}, context.Cause(ctx)
		}
	}
}

// Fail ends the example: its claim is false.
func (c *Crew) Fail(format string, args ...any) { c.cancel(fmt.Errorf(format, args...)) }

// Say sends a worker's line to the leading process.
func (c *Crew) Say(format string, args ...any) {
	// One write, small enough for a pipe not to split it.
	_, _ = io.WriteString(os.Stdout, c.Name+" "+fmt.Sprintf(format, args...)+"\n")
}

// Repeat does a worker's work in n goroutines again and again, with a pause in between, until it
// fails.
func (c *Crew) Repeat(ctx context.Context, n int, pause time.Duration, work func(i int) error) error {
	failed := make(chan error, n)
	for i := range n {
		go func() {
			var err error
			for ; err == nil; err = work(i) {
				select {
				case <-time.After(pause):
				case <-ctx.Done():
				}
			}
			failed <- err
		}()
	}
	return <-failed
}

// Task reports the start of a part of a worker's work, and returns a function that reports its end.
func (c *Crew) Task(part int) (end func()) {
	c.Say("start %d", part)
	return func() { c.Say("end %d", part) }
}

// Hear returns the next order to this worker, or an error if ctx is canceled first.
func (c *Crew) Hear(ctx context.Context) (string, error) {
	select {
	case order := <-c.orders:
		return order, nil
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// listen reads the orders to this worker. They end when the leading process ends, even by SIGKILL.
func (c *Crew) listen() {
	c.orders = make(chan string, 16)
	go func() {
		for in := bufio.NewScanner(os.Stdin); in.Scan(); {
			c.orders <- in.Text()
		}
		c.cancel(errors.New("the leading process has ended"))
	}()
}

// Worker is a process that runs the example's work.
type Worker struct {
	Name string

	crew   *Crew
	cmd    *exec.Cmd
	orders io.WriteCloser
	done   chan struct{} // closed when the process has ended and was waited for

	killed atomic.Bool // by Kill
}

// Names returns n names: prefix1, prefix2, ...
func Names(prefix string, n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = prefix + strconv.Itoa(i+1)
	}
	return names
}

// Start starts workers with these names. If that fails, the example fails.
func (c *Crew) Start(names ...string) {
	program, err := os.Executable()
	for _, name := range names {
		if err == nil {
			err = c.start(program, name)
		}
	}
	if err != nil {
		c.Fail("start a worker: %w", err)
	}
}

func (c *Crew) start(program, name string) (err error) {
	w := &Worker{Name: name, crew: c, cmd: exec.Command(program, os.Args[1:]...), done: make(chan struct{})}
	w.cmd.Env = append(os.Environ(), nameEnv+"="+name, pathEnv+"="+c.Path)
	w.cmd.Stdout, w.cmd.Stderr = c.pipe, os.Stderr
	if w.orders, err = w.cmd.StdinPipe(); err != nil {
		return err
	}
	if err := w.cmd.Start(); err != nil {
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

// Tag returns the worker's name, with a mark if the worker was killed.
func (c *Crew) Tag(name string) string {
	if w := c.Worker(name); w != nil && w.killed.Load() {
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
func (w *Worker) Freeze() {
	if err := freeze(w.cmd.Process); err != nil {
		w.crew.Fail("freeze %s: %w", w.Name, err)
	}
}

// Thaw continues a frozen worker, with SIGCONT.
func (w *Worker) Thaw() {
	if err := thaw(w.cmd.Process); err != nil {
		w.crew.Fail("thaw %s: %w", w.Name, err)
	}
}

// stop ends all workers: if possible by closing their orders, so that they close their sessions.
func (c *Crew) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.workers) == 0 {
		return
	}
	go func() {
		for range c.lines { // a worker may block on a full pipe
		}
	}()
	for _, w := range c.workers {
		_ = w.orders.Close()
		_ = thaw(w.cmd.Process)
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
