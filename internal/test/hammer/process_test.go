package hammer

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// process is one child, seen by its parent. They exchange lines: the child sends "ready" and the
// parent "go"; the child sends "done" with an outcome, then the parent checks whether anything was
// left behind and sends "close".
type process struct {
	name  string
	cmd   *exec.Cmd
	stdin io.WriteCloser
	said  chan string // closed when the child has ended
	err   error       // how it ended; read after said is closed
	cries bytes.Buffer
}

func launch(t *testing.T, j job) *process {
	t.Helper()
	order, err := json.Marshal(j)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{name: name(j.Process), cmd: exec.Command(self), said: make(chan string, 8)}
	p.cmd.Env = append(os.Environ(), childEnv+"="+string(order),
		// A program with the race detector ends a second later, to find races of goroutines that
		// still run; a child has none left when it ends.
		"GORACE=atexit_sleep_ms=0 "+os.Getenv("GORACE"))
	p.cmd.Stderr = &p.cries
	dieWithUs(p.cmd)
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	started := make(chan error, 1)
	go p.run(stdout, started)
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.stdin.Close()
		_ = p.cmd.Process.Kill()
		for range p.said {
		}
	})
	return p
}

func name(process int) string { return fmt.Sprintf("p%02d", process) }

// run keeps the child on one thread, because the end of that thread would end the child.
func (p *process) run(stdout io.Reader, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(p.said)
	err := p.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	lines := bufio.NewScanner(stdout)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		p.said <- lines.Text()
	}
	p.err = p.cmd.Wait()
}

func (p *process) say(t *testing.T, word string) {
	t.Helper()
	if _, err := io.WriteString(p.stdin, word+"\n"); err != nil {
		p.fail(t, "does not listen: "+err.Error())
	}
}

// hears waits until the child sends word, and returns what follows it.
func (p *process) hears(t *testing.T, word string, within time.Duration) string {
	t.Helper()
	late := time.NewTimer(within)
	defer late.Stop()
	for {
		select {
		case line, ok := <-p.said:
			if !ok {
				p.fail(t, fmt.Sprintf("ended (%v) before it said %q", p.err, word))
			}
			if first, rest, _ := strings.Cut(line, " "); first == word {
				return rest
			}
		case <-late.C:
			p.fail(t, fmt.Sprintf("has not said %q for %v", word, within))
		}
	}
}

// ends waits for the end of the child.
func (p *process) ends(t *testing.T, within time.Duration) {
	t.Helper()
	late := time.NewTimer(within)
	defer late.Stop()
	for {
		select {
		case _, ok := <-p.said:
			if ok {
				continue
			}
			if p.err != nil {
				p.fail(t, p.err.Error())
			}
			return
		case <-late.C:
			p.fail(t, fmt.Sprintf("has not ended after %v", within))
		}
	}
}

// ended waits for the end of the child, and reports whether it succeeded.
func (p *process) ended(within time.Duration) bool {
	late := time.NewTimer(within)
	defer late.Stop()
	for {
		select {
		case _, ok := <-p.said:
			if !ok {
				return p.err == nil
			}
		case <-late.C:
			return false
		}
	}
}

// fail kills the child first, because only then is all of its stderr there.
func (p *process) fail(t *testing.T, text string) {
	t.Helper()
	_ = p.cmd.Process.Kill()
	for range p.said {
	}
	t.Fatalf("process %s %s\n%s", p.name, text, p.cries.String())
}

func (p *process) stop() error   { return p.cmd.Process.Signal(syscall.SIGSTOP) }
func (p *process) resume() error { return p.cmd.Process.Signal(syscall.SIGCONT) }
