package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/loopback"
	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/internal/test/realzk"
)

// far is a session timeout for which no test waits.
const far = time.Minute

// runs starts a zklock run whose command is stubborn, and returns the processes of the command.
func runs(t *testing.T, server, path string, flags ...string) (c *realzk.Child, group []int) {
	t.Helper()
	args := append([]string{"run", "-session-timeout", far.String()}, flags...)
	c = start(t, server, append(args, path, "--", "sh", "-c", "echo parent $PPID; "+stubborn)...)
	c.Hears("parent")
	return c, pids(t, c)
}

// When zklock is killed, with its whole process group, its guard ends the command, and then the
// session.
func TestTheGuardFreesTheLock(t *testing.T) {
	t.Parallel()
	server, path := loopback.For(t).Addr(), test.Path(t)
	c := startBy(t, `exec setsid "$@"`, server, "run", "-session-timeout", far.String(), path, "--", "sh", "-c", "echo parent $PPID; "+stubborn)
	c.Hears("parent")
	group := pids(t, c)
	freedBy(t, func() { _ = syscall.Kill(-c.PID(), syscall.SIGKILL) }, path, server, group)
}

// freedBy asserts that the command is dead and the lock free long before the session times out,
// after a death.
func freedBy(t *testing.T, die func(), path, server string, group []int) {
	t.Helper()
	granted, dead, began := next(t, path, server, group), diedAt(group), time.Now()
	die()
	if g := overtaken(t, dead, granted); g.at.Sub(began) > far/2 {
		t.Errorf("the next one holds after %v, so the session has timed out", g.at.Sub(began))
	}
}

// A guard that was killed, as for lack of memory, is replaced by another that can do the same.
func TestTheReplacementOfAGuardFreesTheLock(t *testing.T) {
	t.Parallel()
	server, path := loopback.For(t).Addr(), test.Path(t)
	c, group := runs(t, server, path)
	killed := guardOf(t, fmt.Sprint(c.PID()))
	if err := syscall.Kill(killed, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	test.Eventually(t, soon, "another guard", func() bool {
		other := findGuard(t, fmt.Sprint(c.PID()))
		return other != 0 && other != killed
	})
	freedBy(t, c.Kill, path, server, group)
}

// The guard is stopped, so the processes that the command has started live on when zklock dies.
// Until they are dead, neither a reaper nor the next process with the session file ends the session.
func TestNobodyEndsTheSessionBeforeTheGroupIsDead(t *testing.T) {
	t.Parallel()
	server, path, file := loopback.For(t).Addr(), test.Path(t), filepath.Join(t.TempDir(), "session")
	c, group := runs(t, server, path, "-session-file", file)
	guard := guardOf(t, fmt.Sprint(c.PID()))
	// The system continues a stopped process whose parent dies, unless this process adopts it.
	adoptOrphans()
	if err := syscall.Kill(guard, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	freedBy(t, func() {
		reaper := start(t, server, "reap", file)
		c.Kill()
		for _, tried := range [][]string{
			{"reap", "-once", file},
			{"run", "-session-file", file, "-try", path, "--", "true"},
		} {
			if code, text := prints(t, server, nil, tried...); code == 0 || !strings.Contains(text, "in use by process") {
				t.Errorf("%q: exit code %d, %s", tried, code, text)
			}
		}
		if len(alive(group)) == 0 {
			t.Error("the group is dead, so this test shows nothing")
		}
		if err := syscall.Kill(guard, syscall.SIGCONT); err != nil {
			t.Error(err)
		}
		reaper.Signal(syscall.SIGTERM)
		ends(t, reaper, 0)
	}, path, server, group)
}

// A process may wait for a disk and die late: the guard kills the group, and waits for its death
// before it ends the session. If the group never dies, the guard gives up when the session is over.
func TestTheGuardWaitsForTheDeathOfTheGroup(t *testing.T) {
	t.Parallel()
	server := loopback.For(t).Addr()
	const patient = 100 * time.Millisecond // in place of a minute more than the timeout
	for timeout, dies := range map[time.Duration]bool{far: true, patient - time.Minute: false} {
		conn := realzk.Connect(t, far, server)
		if _, err := conn.Client().Create("/node", nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll)); err != nil {
			t.Fatal(err)
		}
		own := conn.Own()
		given, err := json.Marshal(handover{Session: own, Timeout: timeout})
		must(t, err)
		p, err := os.StartProcess("/bin/sleep", []string{"sleep", "1000"}, &os.ProcAttr{Sys: &syscall.SysProcAttr{Setpgid: true}})
		must(t, err)
		asked, began := 0, time.Now()
		code := obey(strings.NewReader(fmt.Sprintf("handover %s\ngroup %d\n", given, p.Pid)), []string{"run", "-servers", server, "/x", "--", "true"}, func(int) bool {
			asked++
			if there, _, err := conn.Client().Exists("/node"); err != nil || !there {
				t.Errorf("the node of the session is there while the group runs: %v, %v", there, err)
			}
			return !dies || asked < 5
		})
		if state, err := p.Wait(); err != nil || state.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
			t.Errorf("the group: %v, %v", state, err)
		}
		took := time.Since(began)
		if code != 1 || dies && asked != 5 || !dies && took < patient {
			t.Errorf("exit code %d after %v, asked %d times", code, took, asked)
		}
		witness := realzk.Connect(t, far, server)
		if there, _, err := witness.Client().Exists("/node"); err != nil || there == dies {
			t.Errorf("the node of the session is there after the guard: %v, %v, want %v", there, err, !dies)
		}
		_ = conn.Close()
	}
}

// A command that SIGKILL does not end keeps the lock, and a zombie does not.
func TestRunning(t *testing.T) {
	t.Parallel()
	p, err := os.StartProcess("/bin/sh", []string{"sh", "-c", "sleep 1000"}, &os.ProcAttr{Sys: &syscall.SysProcAttr{Setpgid: true}})
	if err != nil {
		t.Fatal(err)
	}
	if !running(p.Pid) {
		t.Error("a group that runs does not run")
	}
	_ = syscall.Kill(-p.Pid, syscall.SIGKILL)
	test.Eventually(t, soon, "nobody has waited for it, and it does not run", func() bool { return !running(p.Pid) })
	_, _ = p.Wait()
	if running(p.Pid) {
		t.Error("a group that does not exist runs")
	}
}

// killAll kills zklock, its guard and the command together, as a container's end does. It stops
// zklock first, which would start another guard.
func killAll(t *testing.T, c *realzk.Child, group []int) {
	t.Helper()
	c.Pause()
	for _, pid := range []int{guardOf(t, fmt.Sprint(c.PID())), c.PID(), -group[0]} {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && err != syscall.ESRCH {
			t.Error(err)
		}
	}
	c.Kill()
}

func TestReap(t *testing.T) {
	t.Parallel()
	server, path, file := loopback.For(t).Addr(), test.Path(t), filepath.Join(t.TempDir(), "session")
	reaper := start(t, server, "reap", file) // before there is such a file
	for range 2 {
		c, group := runs(t, server, path, "-session-file", file)
		if code, text := prints(t, server, nil, "reap", "-once", file); code != exitFree || !strings.Contains(text, "in use by process") {
			t.Errorf("exit code %d, %s", code, text)
		}
		granted := next(t, path, server, nil)
		killAll(t, c, group)
		test.Within(t, far/2, "the next one holds", func() {
			if err := (<-granted).hold.Release(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	reaper.Signal(syscall.SIGTERM)
	ends(t, reaper, 0, file+": the process has died: ended its session 0x")
}

// After the death reap -once ends the session, on the servers that the file names, or the next run
// does.
func TestReapOnce(t *testing.T) {
	t.Parallel()
	server, path, file := loopback.For(t).Addr(), test.Path(t), filepath.Join(t.TempDir(), "session")
	for _, first := range []func(){
		func() {
			if code, text := prints(t, server, []string{"ZK_SERVERS="}, "reap", "-once", file); code != 0 || !strings.Contains(text, "ended its session") {
				t.Errorf("exit code %d, %s", code, text)
			}
		},
		func() {},
	} {
		c, group := runs(t, server, path, "-session-file", file)
		killAll(t, c, group)
		first()
		if code, text := prints(t, server, nil, "run", "-session-timeout", far.String(), "-wait", (far / 2).String(), "-session-file", file, path, "--", "true"); code != 0 {
			t.Errorf("exit code %d, %s", code, text)
		}
	}
	if code, text := prints(t, server, nil, "reap", "-once", file, file+"-none"); code != 0 || text != "" {
		t.Errorf("with nothing to end: exit code %d, %s", code, text)
	}
	// Each of several files counts, whatever the others are.
	runs(t, server, path+"-lives", "-session-file", file+"-lives")
	c, group := runs(t, server, path, "-session-file", file)
	killAll(t, c, group)
	if code, text := prints(t, "127.0.0.1:1", nil, "reap", "-once", "-session-timeout", "1s", file); code != exitNoServer {
		t.Errorf("without a server: exit code %d, %s", code, text)
	}
	code, text := prints(t, server, nil, "reap", "-once", file+"-lives", "/none/session", file)
	for _, want := range []string{file + "-lives is in use by process", "/none does not exist", file + ": the process has died: ended its session"} {
		if code != exitFree || !strings.Contains(text, want) {
			t.Errorf("exit code %d, %s, want %q", code, text, want)
		}
	}
}

// A guard and a reaper reach a secured ensemble as zklock does, with its flags.
func TestASecuredEnsembleAfterACrash(t *testing.T) {
	t.Parallel()
	t.Run("TLS and digest", func(t *testing.T) {
		p, server := secured(t, true)
		cert, key := p.issue(t, "ann")
		crashes(t, server, "-tls", "-ca", p.ca, "-cert", cert, "-key", key, "-auth-file", p.file(t, "auth", "ann:"+password+"\n"))
	})
	t.Run("SASL", func(t *testing.T) {
		users := write(t, "users", "ann:"+password+"\n")
		_, server := dev(t, "-tick", "30s", "-sasl-file", users) // no session that is resumed expires soon
		crashes(t, server, "-sasl-file", users)
	})
}

// A password in a pipe can be read once, and a file may be gone when zklock dies.
func TestASecretThatCannotBeReadAgain(t *testing.T) {
	t.Parallel()
	users := write(t, "users", "ann:"+password+"\n")
	_, server := dev(t, "-tick", "30s", "-sasl-file", users) // no session that is resumed expires soon
	for _, flags := range []string{`-sasl-file <(cat "$1")`, `-sasl-file "$1" -auth-file <(cat "$1")`, `-sasl-file "$1" -auth-file "$1"`} {
		secret, path := write(t, "secret", "ann:"+password+"\n"), test.Path(t)
		cmd := zklockCommand(t, server)
		cmd.Args = []string{"bash", "-c", `exec "$0" run -session-timeout "$2" ` + flags + ` "$3" -- sh -c "$4"`, cmd.Path, secret, far.String(), path, "echo parent $PPID; " + stubborn}
		cmd.Path = "/bin/bash"
		c := realzk.StartProgram(t, cmd)
		c.Hears("parent")
		pids(t, c)
		must(t, os.Remove(secret))
		c.Kill()
		if code, text := prints(t, server, nil, "run", "-wait", (far / 2).String(), "-sasl-file", users, path, "--", "true"); code != 0 {
			t.Errorf("%s: exit code %d, %s", flags, code, text)
		}
	}
}

func crashes(t *testing.T, server string, secure ...string) {
	path, file := test.Path(t), filepath.Join(t.TempDir(), "session")
	next := func() {
		t.Helper()
		args := append([]string{"run", "-wait", (far / 2).String()}, secure...)
		if code, text := prints(t, server, nil, append(args, path, "--", "true")...); code != 0 {
			t.Errorf("exit code %d, %s", code, text)
		}
	}
	c, _ := runs(t, server, path, secure...)
	c.Kill()
	next()
	c, group := runs(t, server, path, append([]string{"-session-file", file}, secure...)...)
	killAll(t, c, group)
	if code, text := prints(t, server, []string{"ZK_SERVERS="}, append(append([]string{"reap", "-once"}, secure...), file)...); code != 0 || !strings.Contains(text, "ended its session") {
		t.Errorf("exit code %d, %s", code, text)
	}
	next()
}

// Servers that refuse the reaper's credentials are not asked without a pause.
func TestReapThatIsRefusedPauses(t *testing.T) {
	t.Parallel()
	users, file := write(t, "users", "ann:"+password+"\n"), filepath.Join(t.TempDir(), "session")
	_, server := dev(t, "-tick", "30s", "-sasl-file", users)
	c, group := runs(t, server, test.Path(t), "-sasl-file", users, "-session-file", file)
	killAll(t, c, group)
	p := proxy.For(t, server)
	reaper := start(t, p.Addr(), "reap", "-sasl-file", write(t, "users", "ann:wrong\n"), file)
	asked := func(n int64) func() bool { return func() bool { return p.Seen(proxy.ConnectOp) >= n } }
	test.Eventually(t, soon, "the servers are asked", asked(1))
	began := time.Now()
	test.Eventually(t, soon, "the servers are asked again", asked(3))
	if took := time.Since(began); took < time.Second {
		t.Errorf("the servers were asked three times within %v", took)
	}
	reaper.Signal(syscall.SIGTERM)
	if _, cries := reaper.Ends(); strings.Count(cries, file) != 1 { // it says the same once
		t.Errorf("it says %s", cries)
	}
}

func TestReapFails(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	other := filepath.Join(dir, "other")
	if err := os.WriteFile(other, []byte("precious\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		code int
		text string
		args []string
	}{
		{exitUsage, "the session file is missing", []string{"reap"}},
		{exitUsage, "one:two:three", []string{"reap", "-servers", "one:two:three", other}},
		{exitFailed, other + ": it has other content: use a file of its own", []string{"reap", "-once", other}},
		{exitFailed, other + ": it has other content: use a file of its own", []string{"reap", other}},
		{exitFailed, dir + ": is a directory", []string{"reap", "-once", dir}},
		{exitFailed, dir + "/none/session: the directory " + dir + "/none does not exist", []string{"reap", "-once", dir + "/none/session"}},
		{exitFailed, dir + ": is a directory", []string{"reap", filepath.Join(dir, "none"), dir}},
		{exitUsage, other + ": it has other content", []string{"run", "-session-file", other, "/x", "--", "true"}},
	} {
		if code, text := prints(t, "127.0.0.1:1", nil, tc.args...); code != tc.code || !strings.Contains(text, tc.text) {
			t.Errorf("%q: exit code %d, %s, want %d and %q", tc.args, code, text, tc.code, tc.text)
		}
	}
}

// Two runs with one file: the second waits for the first as for a lock, and says for whom.
func TestRunWithAFileInUse(t *testing.T) {
	t.Parallel()
	server, file := loopback.For(t).Addr(), filepath.Join(t.TempDir(), "session")
	c := start(t, server, "run", "-session-file", file, "/one", "--", "sh", "-c", "echo parent $PPID; read line")
	by := "in use by process " + c.Hears("parent")
	second := []string{"run", "-session-file", file, "/two", "--", "true"}
	for _, tc := range []struct {
		code  int
		text  string
		flags []string
	}{
		{exitBusy, "session file " + file + " is " + by, []string{"-try"}},
		{exitBusy, "", []string{"-try", "-quiet"}},
		{exitTimeout, "session file " + file + " was not free within 2s: it is " + by, []string{"-wait", "2s"}},
		{exitTimeout, "", []string{"-wait", "100ms", "-quiet"}},
	} {
		code, text := prints(t, server, nil, slices.Concat(second[:1], tc.flags, second[1:])...)
		if code != tc.code || !strings.Contains(text, tc.text) || tc.text == "" && text != "" {
			t.Errorf("%v: exit code %d, %s", tc.flags, code, text)
		}
	}
	waits := startHeard(t, server, second...)
	if got, want := waits.Hears("zklock:"), "waiting: session file "+file+" is "+by; !strings.HasPrefix(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	finish(t, c)
	ends(t, waits, 0)
}

// systemd kills what is left of a unit when its zklock has been killed, the guard, too. Then the
// unit of the packages frees the lock.
func TestTheUnitFreesTheLock(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../packaging/zklock@.service")
	if err != nil {
		t.Fatal(err)
	}
	unit := map[string]string{}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		unit[name] = value
	}
	server, run := loopback.For(t).Addr(), t.TempDir()
	args := func(name string) []string {
		_, line, _ := strings.Cut(unit[name], "/usr/bin/zklock ")
		return strings.Fields(strings.NewReplacer(
			"%t", run, "%i", "nightly", "$FLAGS", "-session-timeout "+far.String(),
			"$COMMAND", "sh "+write(t, "job", "echo parent $PPID; "+stubborn),
		).Replace(line))
	}
	if err := os.Mkdir(filepath.Join(run, strings.ReplaceAll(unit["RuntimeDirectory"], "%i", "nightly")), 0o755); err != nil {
		t.Fatal(err)
	}
	c := start(t, server, args("ExecStart")...)
	c.Hears("parent")
	killAll(t, c, pids(t, c))
	if code, text := prints(t, server, nil, args("ExecStopPost")...); code != 0 || !strings.Contains(text, "ended its session") {
		t.Errorf("exit code %d, %s", code, text)
	}
	if code, text := prints(t, server, nil, "run", "-try", "/jobs/nightly", "--", "true"); code != 0 {
		t.Errorf("exit code %d, %s", code, text)
	}
}

// guardOf returns the guard among the children of a zklock.
func guardOf(t *testing.T, zklock string) int {
	t.Helper()
	n := findGuard(t, zklock)
	if n == 0 {
		t.Fatalf("zklock %s has no guard", zklock)
	}
	return n
}

// findGuard returns the guard, or 0 if there is none.
func findGuard(t *testing.T, zklock string) int {
	t.Helper()
	children, err := os.ReadFile(fmt.Sprintf("/proc/%s/task/%s/children", zklock, zklock))
	if err != nil {
		t.Fatal(err)
	}
	for pid := range strings.FieldsSeq(string(children)) {
		args, err := os.ReadFile("/proc/" + pid + "/cmdline")
		if err == nil && strings.HasPrefix(string(args), guardName) {
			var n int
			if _, err := fmt.Sscan(pid, &n); err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	return 0
}

func TestAStoppedGuardDoesNotStopUs(t *testing.T) {
	t.Parallel()
	guard, _ := sleeps(t)
	err := syscall.Kill(guard.cmd.Process.Pid, syscall.SIGSTOP)
	test.Within(t, soon, "the pipe is full, and the guard has ended", func() {
		for err == nil {
			err = guard.tell("left %d %d", time.Hour, time.Now().UnixNano())
		}
		guard.done()
	})
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error(err)
	}
}

// overtakenWhileStopped asserts that the guard alone ends the command before the next hold.
func overtakenWhileStopped(t *testing.T, c *realzk.Child, path string, group []int) {
	t.Helper()
	granted := next(t, path, realzk.Some(t)[0], group)
	inLine(t, path, 2)
	dead := diedAt(group)
	c.Pause()
	overtaken(t, dead, granted)
	c.Resume()
	ends(t, c, exitLost)
}

// A command may run for months, and start processes that outlive their parents. zklock becomes
// their parent, and must wait for them.
func TestNoDeadProcessesPileUp(t *testing.T) {
	t.Parallel()
	path := test.Path(t)
	c := start(t, "", "run", path, "--", "sh", "-c", // sleeps until its orphans have ended
		"echo parent $PPID; for i in 1 2 3 4 5; do (sleep 0.01 &); done; sleep 0.5; echo done; read line")
	zklock := c.Hears("parent")
	c.Hears("done")
	var dead []string
	test.Eventually(t, soon, "zklock has waited for them", func() bool {
		children, err := os.ReadFile(fmt.Sprintf("/proc/%s/task/%s/children", zklock, zklock))
		if err != nil {
			t.Fatal(err)
		}
		dead = nil
		for pid := range strings.FieldsSeq(string(children)) {
			if stat, err := os.ReadFile("/proc/" + pid + "/stat"); err == nil && strings.Contains(string(stat), ") Z ") {
				dead = append(dead, pid)
			}
		}
		return len(dead) == 0
	})
	finish(t, c)
	free(t, path)
}

// A service manager sends SIGTERM to each process of a service, also to the guard.
func TestTheGuardOutlivesWhatEndsTheCommand(t *testing.T) {
	t.Parallel()
	path := test.Path(t)
	c := start(t, "", "run", "-session-timeout", session.String(), path, "--", "sh", "-c", "echo parent $PPID; "+stubborn)
	zklock := c.Hears("parent")
	group := pids(t, c)
	guard := guardOf(t, zklock)
	test.Eventually(t, soon, "the guard ignores what it has been told to", func() bool {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", guard))
		_, ignored, _ := strings.Cut(string(status), "SigIgn:\t")
		ignored, _, _ = strings.Cut(ignored, "\n")
		mask, bad := strconv.ParseUint(ignored, 16, 64)
		return err == nil && bad == nil && mask&(1<<(syscall.SIGTERM-1)) != 0
	})
	for _, sig := range passedOn {
		if err := syscall.Kill(guard, sig.(syscall.Signal)); err != nil {
			t.Fatal(err)
		}
	}
	overtakenWhileStopped(t, c, path, group)
}

// sleeps starts a command that runs until it is killed, and a guard for it.
func sleeps(t *testing.T) (g *watcher, ended <-chan struct{}) {
	t.Helper()
	command := exec.Command("sleep", "1000")
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	over := make(chan struct{})
	go func() { _ = command.Wait(); close(over) }()
	t.Cleanup(func() { _ = command.Process.Kill(); <-over })
	g, err := startGuard(handover{}, 0, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	g.guards(command.Process.Pid)
	return g, over
}

// On a busy machine the guard starts late, and so reads late how much longer the command may run.
// The wall clock, by which it knows that, may be set back.
func TestAGuardThatReadsLateEndsTheCommandInTime(t *testing.T) {
	t.Parallel()
	for left, age := range map[time.Duration]time.Duration{time.Hour: time.Hour, time.Millisecond: -time.Hour} {
		guard, ended := sleeps(t)
		if err := guard.tell("left %d %d", left, time.Now().Add(-age).UnixNano()); err != nil {
			t.Fatal(err)
		}
		test.Within(t, 20*time.Second, "the command is dead", func() { <-ended })
		guard.done()
	}
}

// A line that the guard reads late may be out of date: zklock has allowed more time since.
func TestAGuardThatReadsLateGoesByTheLastLine(t *testing.T) {
	t.Parallel()
	guard, ended := sleeps(t)
	// All lines are in the pipe at once.
	if err := guard.tell("%sleft %d %d", strings.Repeat("left 1 1\n", 100), time.Hour, time.Now().UnixNano()); err != nil {
		t.Fatal(err)
	}
	time.Sleep(200 * time.Millisecond) // real: time for a guard that uses the first line to kill the command
	guard.done()
	select {
	case <-ended:
		t.Error("the guard has ended the command")
	default:
	}
}
