package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/zklocks/zklocks/internal/zktest"
)

// pty is a terminal that the test types into.
func pty(t *testing.T) (keyboard, tty *os.File) {
	t.Helper()
	keyboard, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { keyboard.Close() })
	if err := unix.IoctlSetPointerInt(int(keyboard.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(keyboard.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tty.Close() })
	return keyboard, tty
}

// At a terminal the command is in front: it reads what is typed, is ended by ^C,
// is not put to sleep by ^Z; and whoever comes after zklock has the terminal back.
func TestAtATerminal(t *testing.T) {
	t.Parallel()
	path := zktest.Path(t)
	keyboard, tty := pty(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-c", `"$0" run "$1" -- sh -c 'echo typed; read line; echo got $line; exec sleep 1000'
		echo code $?; read line; echo after $line`, self, path)
	cmd.Env = append(os.Environ(), asZklock+"=1", "ZK_SERVERS="+strings.Join(zktest.Servers(t), ","))
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	screen := bufio.NewReader(keyboard)
	shows := func(text string) {
		t.Helper()
		zktest.Within(t, soon, "the screen shows "+text, func() {
			for {
				line, err := screen.ReadString('\n')
				if err != nil || strings.HasPrefix(strings.TrimLeft(line, "^ZC"), text) {
					return
				}
				t.Logf("screen: %q", line)
			}
		})
	}
	types := func(text string) {
		if _, err := keyboard.WriteString(text); err != nil {
			t.Fatal(err)
		}
	}
	shows("typed")
	types("\x1a") // ^Z
	types("a word\n")
	shows("got a word")
	types("\x03") // ^C
	shows(fmt.Sprint("code ", killedBy(syscall.SIGINT)))
	free(t, path)
	types("more\n")
	shows("after more")
}
