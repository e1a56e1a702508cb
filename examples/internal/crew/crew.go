// Package crew runs an example as several processes: it starts its own program again as workers,
// reads their reports, and stops, freezes or kills them. It uses no locks, so its measurements do
// not depend on them.
package crew

import (
	"bufio"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	nameEnv = "ZKLOCKS_EXAMPLE_WORKER"
	pathEnv = "ZKLOCKS_EXAMPLE_PATH"

	failed = "failed:" // begins a worker's last report

	// tooLong is the time limit of an example.
	tooLong = 45 * time.Second
)

var errInterrupted = errors.New("interrupted")

// Crew is the leading process with its workers, or a worker's own state.
type Crew struct {
	Servers []string
	Path    string // for the nodes of this run, removed at its end
	Name    string // of this worker; empty in the leading process

	ctx    context.Context // canceled when the example ends
	cancel context.CancelCauseFunc
	begun  time.Time
	lines  chan Line
	pipe   *os.File    // all workers write to it
	orders chan string // to this worker

	mu      sync.Mutex // guards the fields below, and the lines that are printed
	workers map[string]*Worker
	shown   time.Time // when Live has printed last
	ended   bool      // the verdict was printed
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
// a process that Start has started. The contexts of both are canceled after the time tooLong. The
// context of lead is also canceled by an interrupt, and when a worker fails, or ends without Kill.
// A worker ignores interrupts: its context is canceled when the leading process closes its orders
// or ends, even by SIGKILL. The exit status is 130 after an interrupt, and 1 after any other error.
func Main(lead, work func(context.Context, *Crew) error) {
	servers := flag.String("servers", cmp.Or(os.Getenv("ZK_SERVERS"), "127.0.0.1:2181"), "ZooKeeper servers, `host:port,...`; default from ZK_SERVERS")
	flag.Parse()
	program := filepath.Base(os.Args[0])
	ctx, cancel := context.WithCancelCause(context.Background())
	ctx, stop := context.WithTimeoutCause(ctx, tooLong, fmt.Errorf("not done after %v", tooLong))
	defer stop()
	c := &Crew{
		Servers: strings.FieldsFunc(*servers, func(r rune) bool { return r == ',' || r == ' ' }),
		Path:    os.Getenv(pathEnv), Name: os.Getenv(nameEnv),
		ctx: ctx, cancel: cancel, begun: time.Now(), workers: map[string]*Worker{},
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
	err := c.open(ctx)
	if err == nil {
		err = lead(ctx, c)
	}
	cause := context.Cause(ctx)
	cancel(nil)
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

// open makes the pipe of the reports, and connects once, so that a wrong address is reported early.
func (c *Crew) open(ctx context.Context) error {
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
	return c.connected(ctx, nil)
}

// Next returns the next line of a worker, or an error if ctx is canceled first. It skips unread
// lines of workers that were killed.
func (c *Crew) Next(ctx context.Context) (Line, error) {
	for {
		select {
		case l := <-c.lines:
			if !c.dead(l.From) {
				return l, nil
			}
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

// print prints a line that begins with the time. If its output is closed, as with "| head", that
// ends the example. The caller holds mu.
func (c *Crew) print(format string, args ...any) {
	line := fmt.Sprintf("%5.1fs  ", time.Since(c.begun).Seconds()) + fmt.Sprintf(format, args...) + "\n"
	if _, err := os.Stdout.WriteString(line); err != nil {
		c.cancel(errInterrupted)
	}
}

func (c *Crew) Note(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.print(format, args...)
}

// Live prints the present state, at most twice a second.
func (c *Crew) Live(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.ended && time.Since(c.shown) >= 500*time.Millisecond {
		c.print(format, args...)
		c.shown = time.Now()
	}
}

// Proved prints what the example has proved, or returns the error if the example has failed.
func (c *Crew) Proved(format string, args ...any) error {
	if err := context.Cause(c.ctx); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	fmt.Printf("PROVED: "+format+"\n", args...)
	return nil
}

// Verdict returns the text for the result of an attempt.
func Verdict(err error) string {
	if err != nil {
		return "refused, " + err.Error()
	}
	return "accepted"
}
