package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/go-zookeeper/zk"
	"golang.org/x/sys/unix"

	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/internal/test/realzk"
)

// pty opens a terminal; the test types into keyboard.
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

// screen is a terminal in which a script runs zklock.
type screen struct {
	*testing.T
	keyboard *os.File
	lines    *bufio.Reader
}

// atTerminal runs a script, with zklock as $0 and a path as $1.
func atTerminal(t *testing.T, script, path string) *screen {
	t.Helper()
	keyboard, tty := pty(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-c", script, self, path)
	cmd.Env = append(os.Environ(), asZklock+"=1", "ZK_SERVERS="+strings.Join(realzk.Some(t), ","))
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return &screen{t, keyboard, bufio.NewReader(keyboard)}
}

func (s *screen) shows(text string) {
	s.Helper()
	var failed error
	test.Within(s, soon, "the screen shows "+text, func() {
		for {
			line, err := s.lines.ReadString('\n')
			if failed = err; err != nil {
				return
			}
			if strings.HasPrefix(strings.TrimLeft(line, "^ZC"), text) {
				return
			}
			s.Logf("screen: %q", line)
		}
	})
	if failed != nil {
		s.Fatalf("the screen shows %s: %v", text, failed)
	}
}

func (s *screen) types(text string) {
	s.Helper()
	if _, err := s.keyboard.WriteString(text); err != nil {
		s.Fatal(err)
	}
}

// At a terminal the command is in the foreground: it reads what is typed, ^C ends it, ^Z does not
// stop it. The program that runs after zklock has the terminal again.
func TestAtATerminal(t *testing.T) {
	path := test.Path(t)
	s := atTerminal(t, `"$0" run "$1" -- sh -c 'echo typed; read line; echo got $line; exec sleep 1000'
		echo code $?; read line; echo after $line`, path)
	s.shows("typed")
	s.types("\x1a") // ^Z
	s.types("a word\n")
	s.shows("got a word")
	s.types("\x03") // ^C
	s.shows(fmt.Sprint("code ", killedBy(syscall.SIGINT)))
	free(t, path)
	s.types("more\n")
	s.shows("after more")
}

// The terminal is lent before zklock detects that the command cannot be run.
func TestTheTerminalComesBackFromACommandThatCannotBeRun(t *testing.T) {
	command := filepath.Join(t.TempDir(), "no-interpreter")
	if err := os.WriteFile(command, []byte("echo\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	path := test.Path(t)
	s := atTerminal(t, `"$0" run "$1" -- `+command+`; echo code $?; read line; echo after $line`, path)
	s.shows("code 126")
	free(t, path)
	s.types("more\n")
	s.shows("after more")
}

// While the servers do not answer, the screen is marked as old.
func TestALiveWatchSaysThatItIsOld(t *testing.T) {
	path := test.Path(t)
	witness := realzk.Connect(t, quiet, realzk.Some(t)...)
	if _, err := witness.Client().Create(path, nil, 0, zk.WorldACL(zk.PermAll)); err != nil { // or the server deletes the path after the release
		t.Fatal(err)
	}
	h := holder(t, path)
	p := proxy.For(t, realzk.Some(t)[0])
	s := atTerminal(t, `exec "$0" watch -session-timeout 10s -servers `+p.Addr()+` "$1"`, path)
	s.shows("holds")
	for range 2000 { // a listing is tried a hundred times before its timeout
		p.Next(proxy.ListOp, proxy.Answer(-127)) // pings are answered
	}
	finish(t, h)
	s.shows("no server answers; this is from before")
}

// At a terminal break asks, and deletes nothing without a yes.
func TestBreakAsksAtATerminal(t *testing.T) {
	path := test.Path(t)
	h := holder(t, path)
	for _, answer := range []string{"\n", "no\n", "y\n"} {
		s := atTerminal(t, `"$0" break "$1"; echo code $?`, path)
		s.shows("Deleting the nodes of these members stops no process.")
		s.types(answer)
		s.shows(fmt.Sprint("code ", exitFailed))
		inLine(t, path, 1)
	}
	s := atTerminal(t, `trap : INT; "$0" break "$1"; echo code $?`, path)
	s.shows("Deleting the nodes")
	s.types("\x03") // ^C
	s.shows(fmt.Sprint("code ", exitFailed))
	inLine(t, path, 1)

	s = atTerminal(t, `"$0" break "$1"; echo code $?`, path)
	s.shows("Deleting the nodes")
	s.types("yes\n")
	s.shows("code 0")
	ends(t, h, exitLost)
	free(t, path)
}

// inShell runs a line in an interactive shell with job control, until the line has printed "typed".
func inShell(t *testing.T, path, line string) *screen {
	t.Helper()
	s := atTerminal(t, `export ZKLOCK="$0" P="$1"; PS1= PROMPT_COMMAND= exec bash --norc --noprofile --noediting -i`, path)
	s.types("export ZKLOCK_UNDER_TEST=1; stty -echo; echo shell ready\n")
	s.shows("shell ready")
	s.types(line + "\n")
	s.shows("typed")
	return s
}

// asksForAWord types a word, and waits until the line has read it from the terminal.
func (s *screen) asksForAWord() {
	s.Helper()
	s.types("a word\n")
	s.shows("got a word")
}

// A pager behind zklock in the pipe reads the terminal, too, while the command sleeps.
func TestAPagerBehindUsHasTheTerminal(t *testing.T) {
	path := test.Path(t)
	s := inShell(t, path, "\"$ZKLOCK\" run $P -- sh -c 'echo typed; sleep 1' | sh -c 'read line; echo $line; read line </dev/tty; echo got $line'")
	s.asksForAWord()
	free(t, path)
}

// A command that was started in the background receives the terminal with fg.
func TestTheTerminalComesWithForeground(t *testing.T) {
	path := test.Path(t)
	s := inShell(t, path, "\"$ZKLOCK\" run $P -- sh -c 'echo typed; read line; echo got $line; exec sleep 1000' &")
	s.types("fg\n")
	s.asksForAWord()
	s.types("\x03") // ^C
	s.types("echo code $?\n")
	s.shows(fmt.Sprint("code ", killedBy(syscall.SIGINT)))
	free(t, path)
}

// ^Z does not stop zklock, which would lose its lock. The command sleeps for longer than 3T/4,
// after which a hold without heartbeats is lost; T is the session timeout. A server on a busy
// machine may answer two seconds late.
func TestNothingIsStoppedWithoutTheTerminal(t *testing.T) {
	path := test.Path(t)
	s := inShell(t, path, "\"$ZKLOCK\" run -session-timeout 8s -kill-after 0 $P -- sh -c 'echo typed; sleep 7; echo slept' </dev/null; echo code $?")
	s.types("\x1a") // ^Z
	s.shows("slept")
	s.shows("code 0")
	free(t, path)
}

// The command reads /dev/tty, and standard input is not the terminal.
func TestACommandReadsTheTerminalWithoutStandardInput(t *testing.T) {
	path := test.Path(t)
	s := inShell(t, path, "\"$ZKLOCK\" run $P -- sh -c 'echo typed; read line </dev/tty; echo got $line' </dev/null; echo code $?")
	s.asksForAWord()
	s.shows("code 0")
	free(t, path)
}

// The command has the terminal, and the program behind zklock in the pipe reads it, too: its whole
// group is stopped, except zklock. The command sleeps for longer than the session timeout.
func TestAPagerDoesNotStopUs(t *testing.T) {
	t.Parallel()
	path := test.Path(t)
	s := inShell(t, path, "\"$ZKLOCK\" run -session-timeout 8s -kill-after 0 $P -- sh -c 'echo typed >/dev/tty; read line </dev/tty; echo got $line >/dev/tty; echo go; sleep 9; echo slept >/dev/tty' | sh -c 'read go; read line </dev/tty'")
	s.asksForAWord()
	s.shows("slept")
	free(t, path)
}

// The script that runs zklock has died, and the shell has the terminal: zklock does not take it.
func TestTheShellKeepsTheTerminal(t *testing.T) {
	t.Parallel()
	path := test.Path(t)
	s := inShell(t, path, "sh -c 'export SCRIPT=$$; \"$ZKLOCK\" run $P -- sh -c \"echo typed; kill -KILL \\$SCRIPT; sleep 2\"; :'")
	s.types("echo shell again\n")
	s.shows("shell again")
	free(t, path)
	for _, word := range []string{"one", "two"} { // a read that began earlier reads the first word
		s.types("echo " + word + "\n")
		s.shows(word)
	}
}

// The command is an interactive shell, and its job has the terminal. When the lock is lost, the
// shell is killed, and the program that runs after zklock has the terminal again.
func TestTheTerminalComesBackFromAJobOfTheCommand(t *testing.T) {
	t.Parallel()
	path := test.Path(t)
	s := atTerminal(t, `export PS1=; "$0" run -kill-after 0 "$1" -- bash --norc --noprofile --noediting -i; echo code $?; read line; echo after $line`, path)
	s.types("echo ready; sleep 10\n")
	s.shows("ready")
	conn := realzk.Connect(t, soon, realzk.Some(t)...)
	if err := conn.Client().Delete(path+"/"+test.Children(t, conn.Client(), path)[0], -1); err != nil {
		t.Fatal(err)
	}
	s.shows(fmt.Sprint("code ", exitLost))
	s.types("a word\n")
	s.shows("after a word")
}
