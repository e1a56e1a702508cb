//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package crash

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test/leaks"
	"github.com/zklocks/zklocks/internal/test/realzk"
	"github.com/zklocks/zklocks/rwlock"
)

const childEnv = "CRASH_CHILD"

// An order is what a child does first: it acquires the lock.
type order struct {
	Server, Path, File string
	Full               bool // the disk has no room
}

func TestMain(m *testing.M) {
	var o order
	if realzk.Ordered(childEnv, &o) {
		if err := o.obey(); err != nil {
			fmt.Println("failed", err)
		}
		return
	}
	leaks.Main(m)
}

func (o order) obey() error {
	if o.Full {
		signal.Ignore(syscall.SIGXFSZ)
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{}); err != nil {
			return err
		}
	}
	conn, err := zklocks.Connect(context.Background(), []string{o.Server}, long, zklocks.WithSessionFile(o.File), zklocks.WithLogger(logger{}))
	if err != nil {
		return err
	}
	fmt.Println("connected")
	hold, err := rwlock.New(conn, o.Path).Lock(context.Background())
	if err != nil {
		return err
	}
	fmt.Println("granted")
	for line := range realzk.Lines() {
		switch line {
		case "exit":
			os.Exit(0)
		case "panic":
			go panic("a bug")
		case "abort":
			_ = syscall.Kill(os.Getpid(), syscall.SIGABRT)
		case "close the file":
			_ = syscall.Close(o.descriptor())
			fmt.Println("closed")
		case "start a process":
			err = start()
		case "fork": // a process that keeps the file, as after fork without exec
			fd, _ := syscall.Dup(o.descriptor())
			err = start(os.NewFile(uintptr(fd), o.File))
		case "become another program":
			err = syscall.Exec("/bin/sleep", []string{"sleep", "1000"}, nil)
		case "execute yourself":
			var self string
			if self, err = os.Executable(); err == nil {
				err = syscall.Exec(self, os.Args, os.Environ())
			}
		case "still held?":
			fmt.Println("held", hold.Held())
		case "close":
			return conn.Close()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func start(files ...*os.File) error {
	cmd := exec.Command("sleep", "1000")
	cmd.ExtraFiles = files
	if err := cmd.Start(); err != nil {
		return err
	}
	fmt.Println("started", cmd.Process.Pid)
	return nil
}

// descriptor finds the descriptor of the session file.
func (o order) descriptor() int {
	var want, is syscall.Stat_t
	if err := syscall.Stat(o.File, &want); err != nil {
		return -1
	}
	for fd := range 1000 {
		if syscall.Fstat(fd, &is) == nil && is.Dev == want.Dev && is.Ino == want.Ino {
			return fd
		}
	}
	return -1
}

type logger struct{}

func (logger) Printf(format string, args ...any) { fmt.Printf("log "+format+"\n", args...) }

// long is the session timeout: no test waits for it.
const long = time.Minute
