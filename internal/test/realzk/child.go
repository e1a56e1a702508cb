package realzk

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const childPatience = 60 * time.Second

// Child is another process of the same test binary, which a test can stop and kill. They exchange
// lines; the first word of each line is its kind. The package's TestMain calls Ordered first, and
// then runs the child's main function:
//
//	func TestMain(m *testing.M) {
//		var o order
//		if realzk.Ordered("X_CHILD", &o) {
//			os.Exit(child(o))
//		}
//		leaks.Main(m)
//	}
type Child struct {
	tb    testing.TB
	proc  *process
	stdin io.WriteCloser
	said  chan string // closed when the child's output has ended

	mu    sync.Mutex
	cries bytes.Buffer
}

// StartChild starts a Child; Ordered reads order in it, under the name env. The Child is killed at
// cleanup.
func StartChild(tb testing.TB, env string, order any) *Child {
	tb.Helper()
	text, err := json.Marshal(order)
	if err != nil {
		tb.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		tb.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), env+"="+string(text),
		// By default, a program with the race detector waits a second at its end, to find races of
		// goroutines that still run. Children do not wait.
		"GORACE=atexit_sleep_ms=0 "+os.Getenv("GORACE"))
	return StartProgram(tb, cmd)
}

// StartProgram starts a Child that runs another program.
func StartProgram(tb testing.TB, cmd *exec.Cmd) *Child {
	tb.Helper()
	c := &Child{tb: tb, said: make(chan string, 8)}
	cmd.Stderr = (*childCries)(c)
	in, err := cmd.StdinPipe()
	if err != nil {
		tb.Fatal(err)
	}
	// Not the command's pipe: Wait would close it with unread lines.
	out, in2, err := os.Pipe()
	if err != nil {
		tb.Fatal(err)
	}
	cmd.Stdout = in2
	c.stdin = in
	c.proc, err = startProcess(cmd)
	in2.Close()
	if err != nil {
		out.Close()
		tb.Fatal(err)
	}
	go c.listen(out)
	tb.Cleanup(func() {
		c.Kill()
		in.Close()
		for range c.said { // until its output has ended
		}
	})
	return c
}

func (c *Child) listen(out *os.File) {
	defer close(c.said)
	defer out.Close()
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		c.said <- lines.Text()
	}
}

// childCries collects what the child writes to stderr.
type childCries Child

func (c *childCries) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cries.Write(p)
}

func (c *Child) Say(line string) {
	c.tb.Helper()
	if _, err := io.WriteString(c.stdin, line+"\n"); err != nil {
		c.fail("does not listen: " + err.Error())
	}
}

// Hears waits for a line that begins with word, and returns the rest of the line.
func (c *Child) Hears(word string) string { c.tb.Helper(); return c.HearsWithin(word, childPatience) }

// HearsWithin is Hears with a limit of its own.
func (c *Child) HearsWithin(word string, patience time.Duration) string {
	c.tb.Helper()
	late := time.NewTimer(patience)
	defer late.Stop()
	for {
		select {
		case line, ok := <-c.said:
			if !ok {
				c.fail(fmt.Sprintf("ended before it said %q", word))
			}
			if first, rest, _ := strings.Cut(line, " "); first == word {
				return rest
			}
		case <-late.C:
			c.fail(fmt.Sprintf("has not said %q for %v", word, patience))
		}
	}
}

// Pause stops the process (SIGSTOP), and returns when all its threads are stopped.
func (c *Child) Pause() {
	c.tb.Helper()
	if err := pauseProcess(c.proc.cmd.Process); err != nil {
		c.fail("cannot be paused: " + err.Error())
	}
}

// Resume ends a Pause.
func (c *Child) Resume() {
	c.tb.Helper()
	if err := resumeProcess(c.proc.cmd.Process); err != nil {
		c.fail("cannot be resumed: " + err.Error())
	}
}

func (c *Child) Signal(sig os.Signal) {
	c.tb.Helper()
	if err := c.proc.cmd.Process.Signal(sig); err != nil {
		c.fail("cannot be sent " + sig.String() + ": " + err.Error())
	}
}

// Ends waits for the end of the process, and returns its exit code, -1 if a signal has ended it,
// and its stderr.
func (c *Child) Ends() (code int, cries string) {
	c.tb.Helper()
	late := time.NewTimer(childPatience)
	defer late.Stop()
	select {
	case <-c.proc.done:
	case <-late.C:
		c.fail(fmt.Sprintf("has not ended for %v", childPatience))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.proc.cmd.ProcessState.ExitCode(), c.cries.String()
}

// PID returns the process id.
func (c *Child) PID() int { return c.proc.cmd.Process.Pid }

// Kill ends the process with SIGKILL, and waits for its end.
func (c *Child) Kill() {
	if c.proc.alive() {
		c.proc.kill()
	}
}

// fail ends the child first, so that all of its stderr has arrived. A Go program prints the stacks
// of its goroutines when it is aborted.
func (c *Child) fail(text string) {
	c.tb.Helper()
	_ = c.proc.cmd.Process.Signal(syscall.SIGABRT)
	select {
	case <-c.proc.done:
	case <-time.After(5 * time.Second): // real: it is paused, or handles the signal
	}
	c.Kill()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tb.Fatalf("the child %s\n%s", text, c.cries.String())
}

// Ordered reports whether this process is a Child, and reads its order.
func Ordered(env string, order any) bool {
	text, is := os.LookupEnv(env)
	if is {
		if err := json.Unmarshal([]byte(text), order); err != nil {
			panic(err)
		}
	}
	return is
}

// Lines returns the lines that the parent sends. When the parent has ended, the process exits.
func Lines() <-chan string {
	lines := make(chan string)
	go func() {
		in := bufio.NewScanner(os.Stdin)
		for in.Scan() {
			lines <- in.Text()
		}
		os.Exit(3)
	}()
	return lines
}
