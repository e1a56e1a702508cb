//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package crash

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/sessionfile"
	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/loopback"
	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/internal/test/realzk"
	"github.com/zklocks/zklocks/internal/wire"
	"github.com/zklocks/zklocks/rwlock"
)

// half is less than the session timeout, so what happens within it is the session file's work.
const half = long / 2

// A scene is a lock, and a file for the process that holds it.
type scene struct {
	*testing.T
	order
	conn *zklocks.Conn // of the test
}

func newScene(t *testing.T) *scene {
	t.Helper()
	s := &scene{t, order{Server: loopback.For(t).Addr(), Path: "/lock", File: filepath.Join(t.TempDir(), "session")}, nil}
	var err error
	if s.conn, err = zklocks.Connect(t.Context(), []string{s.Server}, long); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.conn.Close() })
	return s
}

// holder starts a process that holds the lock.
func (s *scene) holder() *realzk.Child {
	s.Helper()
	c := realzk.StartChild(s, childEnv, s.order)
	c.HearsWithin("granted", half)
	return c
}

// freed asserts that the lock is free, or soon.
func (s *scene) freed() {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), half)
	defer cancel()
	h, err := rwlock.New(s.conn, s.Path).Lock(ctx)
	if err != nil {
		s.Fatal(err)
	}
	if err := h.Release(ctx); err != nil {
		s.Error(err)
	}
}

// taken asserts that the lock is taken, after what a reaper and a second process with the file have
// tried.
func (s *scene) taken(by int) {
	s.Helper()
	if ended, err := s.reap(false); ended != 0 || !errors.Is(err, sessionfile.ErrInUse) {
		s.Errorf("a reaper ended session %#x, %v", ended, err)
	}
	ctx, cancel := context.WithTimeout(s.Context(), time.Second)
	defer cancel()
	conn, err := zklocks.Connect(ctx, []string{s.Server}, long, zklocks.WithSessionFile(s.File))
	if err == nil {
		_ = conn.Close()
	}
	if want := fmt.Sprintf("in use by process %d,", by); err == nil || !strings.Contains(err.Error(), want) || !errors.Is(err, context.DeadlineExceeded) {
		s.Errorf("%v, want %q and the deadline", err, want)
	}
	if _, err := rwlock.New(s.conn, s.Path).TryLock(s.Context()); !errors.Is(err, zklocks.ErrBusy) {
		s.Errorf("the lock is free while its process lives: %v", err)
	}
}

func (s *scene) reap(wait bool) (int64, error) { return wire.Reap(s.File, wait, nil, long) }

// reaped is the result of a reaper that waits.
func (s *scene) reaped() <-chan error {
	done := make(chan error, 1)
	go func() {
		ended, err := s.reap(true)
		if err == nil && ended == 0 {
			err = errors.New("it has ended no session")
		}
		done <- err
	}()
	return done
}

var deaths = map[string]func(*testing.T, *realzk.Child){
	"killed": func(_ *testing.T, c *realzk.Child) { c.Kill() },
	"exits":  func(_ *testing.T, c *realzk.Child) { c.Say("exit") },
	"panics": func(_ *testing.T, c *realzk.Child) { c.Say("panic") },
	"aborts": func(_ *testing.T, c *realzk.Child) { c.Say("abort") },
	"a parent": func(t *testing.T, c *realzk.Child) {
		c.Say("start a process")
		started(t, c)
		c.Kill()
	},
}

// started returns the process that a child has started. It outlives the child, and is killed when the
// test ends.
func started(t *testing.T, c *realzk.Child) int {
	t.Helper()
	pid, err := strconv.Atoi(c.Hears("started"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) })
	return pid
}

func TestAReaperFreesTheLocksOfADeadProcess(t *testing.T) {
	t.Parallel()
	for name, die := range deaths {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			c := s.holder()
			done := s.reaped()
			die(t, c)
			s.freed()
			if err := <-done; err != nil {
				t.Error(err)
			}
			if ended, err := s.reap(false); ended != 0 || err != nil {
				t.Errorf("a second reaper ended session %#x, %v", ended, err)
			}
		})
	}
}

func TestARestartFreesTheLocksOfTheDeadProcess(t *testing.T) {
	t.Parallel()
	for name, die := range deaths {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			c := s.holder()
			die(t, c)
			again := s.holder() // its own lock
			again.Say("close")
			again.Ends()
			if text, err := os.ReadFile(s.File); err != nil || len(text) > 0 {
				t.Errorf("after Close the file has %q, %v", text, err)
			}
			s.freed()
		})
	}
}

func TestAPausedProcessIsNotDead(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	c := s.holder()
	c.Pause()
	s.taken(c.PID())
	c.Resume()
	c.Say("still held?")
	if held := c.Hears("held"); held != "true" {
		t.Errorf("held: %s", held)
	}
}

// Such a program has lost its lock on the file. It lives, and its locks with it.
func TestAProgramThatClosesTheFile(t *testing.T) {
	t.Parallel()
	witnessed(t)
	s := newScene(t)
	c := s.holder()
	c.Say("close the file")
	c.Hears("closed")
	s.taken(c.PID())
	done := s.reaped()
	c.Kill()
	if err := <-done; err != nil {
		_, err = s.reap(true) // its patience was over
		if err != nil {
			t.Error(err)
		}
	}
	s.freed()
}

// The process lives, though no code of it knows of the lock.
func TestAProgramThatBecomesAnother(t *testing.T) {
	t.Parallel()
	witnessed(t)
	s := newScene(t)
	c := s.holder()
	c.Say("become another program")
	test.Eventually(t, half, "the file is closed", func() bool {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", c.PID()))
		return strings.TrimSpace(string(text)) == "sleep"
	})
	s.taken(c.PID())
	c.Kill()
	if _, err := s.reap(true); err != nil {
		t.Error(err)
	}
	s.freed()
}

// The program that it becomes is itself, as after an update. It needs the file and the lock again.
func TestAProgramThatExecutesItself(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	c := s.holder()
	go func() { _, _ = s.reap(true) }() // it must not keep the program waiting for long
	c.Say("execute yourself")
	c.HearsWithin("granted", half)
	s.taken(c.PID())
	c.Say("close")
	c.Ends()
	s.freed()
}

func witnessed(t *testing.T) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux shows when a process was started")
	}
}

// A process that has the file keeps it locked: the lock is free late, not early.
func TestAForkedProcessKeepsTheFile(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	c := s.holder()
	c.Say("fork")
	fork := started(t, c)
	c.Kill()
	s.taken(c.PID())
	done := s.reaped()
	if err := syscall.Kill(fork, syscall.SIGKILL); err != nil {
		t.Error(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	s.freed()
}

// The server has granted a session, and its answer does not reach the process.
func TestAProcessThatDiesBeforeItKnowsItsSession(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	c := s.holder()
	c.Kill()
	p := proxy.For(t, s.Server)
	o := s.order
	o.Server = p.Addr()
	for _, nth := range []int{2, 1} { // the second handshake asks for a new session, the first resumes the dead one
		f := p.Nth(proxy.ConnectOp, nth, proxy.HoldReply)
		c = realzk.StartChild(t, childEnv, o)
		test.Within(t, half, "the handshake", func() { <-f.Fired() })
		c.Kill()
		f.Cancel()
		s.freed()
	}
	s.holder()
}

// Whenever a process dies, the next one is not kept waiting, and no node remains.
func TestAProcessThatDiesAtAnyMoment(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	for range 15 {
		c := realzk.StartChild(t, childEnv, s.order)
		switch rand.IntN(3) {
		case 0:
			c.HearsWithin("connected", half)
		case 1:
			c.HearsWithin("granted", half)
		}
		time.AfterFunc(rand.N(20*time.Millisecond), func() { _ = syscall.Kill(c.PID(), syscall.SIGKILL) })
		c.Ends()
	}
	s.holder().Kill()
	if _, err := s.reap(true); err != nil {
		t.Error(err)
	}
	q, err := rwlock.New(s.conn, s.Path).Queue(t.Context())
	if err != nil || len(q) > 0 {
		t.Errorf("left in the queue: %v, %v", q, err)
	}
}

// Without room on the disk the process holds as without a file.
func TestAFullDisk(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.Full = true
	c := realzk.StartChild(t, childEnv, s.order)
	want := "if this process dies, its locks pass on after the session timeout"
	for line := c.HearsWithin("log", half); !strings.HasSuffix(line, want); {
		line = c.HearsWithin("log", half)
	}
	c.HearsWithin("granted", half)
	c.Kill()
	if ended, err := s.reap(false); ended != 0 || err != nil {
		t.Errorf("a reaper ended session %#x, %v", ended, err)
	}
}
