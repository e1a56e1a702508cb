package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/internal/test/realzk"
)

func TestTheExitCodeIsTheCommands(t *testing.T) {
	t.Parallel()
	path := test.Path(t)
	for _, code := range []int{0, 1, 77, 255} {
		ends(t, start(t, "", "run", path, "--", "sh", "-c", fmt.Sprint("exit ", code)), code)
	}
	ends(t, start(t, "", "run", path, "--", "sh", "-c", "kill -9 $$"), killedBy(syscall.SIGKILL))
	ends(t, start(t, "", "run", path, "--", "/no/such/command"), exitNotFound, "/no/such/command: not found")
	ends(t, start(t, "", "run", path, "--", "no-such-command"), exitNotFound, "no-such-command: not found")
	bare := zklockCommand(t, "", "run", path, "--", "no-such-command")
	bare.Env = append(bare.Env, "PATH=")
	ends(t, realzk.StartProgram(t, bare), exitNotFound, "no-such-command: not found, as PATH is empty")
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("no program"), 0o600); err != nil {
		t.Fatal(err)
	}
	ends(t, start(t, "", "run", path, "--", file), exitNotRun, file)
	free(t, path)
}

func TestTheCommandKnowsItsLock(t *testing.T) {
	t.Parallel()
	path := test.Path(t)
	var before int64
	for range 2 {
		cmd := zklockCommand(t, "", "run", path, "--", "sh", "-c", "echo path $ZKLOCK_PATH; echo token $ZKLOCK_TOKEN")
		cmd.Env = append(cmd.Env, "ZKLOCK_PATH=/outer", "ZKLOCK_TOKEN=-1") // as set by an outer zklock
		c := realzk.StartProgram(t, cmd)
		if got := c.Hears("path"); got != path {
			t.Errorf("path %q, want %q", got, path)
		}
		token, err := strconv.ParseInt(c.Hears("token"), 10, 64)
		if err != nil || token <= before {
			t.Errorf("token %d after %d: %v", token, before, err)
		}
		before = token
		ends(t, c, 0)
	}
}

func TestWrongUsage(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		says string
		args []string
	}{
		{"path of the lock is missing", []string{"run"}},
		{`invalid lock path "jobs": it is relative: it must start with a slash`, []string{"run", "jobs", "--", "true"}},
		{`invalid lock path "/jobs/": it ends with a slash`, []string{"run", "/jobs/", "--", "true"}},
		{`invalid lock path "": it is empty`, []string{"ls", ""}},
		{`invalid lock path "/": it is the root: a lock needs a directory of its own`, []string{"run", "/", "--", "true"}},
		{"path of the lock is missing", []string{"run", "--", "true"}},
		{"path of the lock is missing", []string{"run", "-try", "--", "true", "/jobs"}},
		{"has an empty part", []string{"run", "/jobs//nightly", "--", "true"}},
		{"has a relative part", []string{"ls", "/jobs/../nightly"}},
		{"the command is missing", []string{"run", "/jobs"}},
		{"the command is missing", []string{"run", "/jobs", "--"}},
		{"one argument too many", []string{"ls", "/jobs", "/other"}},
		{"no-such-flag", []string{"run", "/jobs", "-no-such-flag", "--", "true"}},
		{"-permits 0", []string{"run", "-permits", "0", "/jobs", "--", "true"}},
		{"do not go together", []string{"run", "-permits", "2", "-shared", "/jobs", "--", "true"}},
		{"do not go together", []string{"run", "-try", "-wait", "1s", "/jobs", "--", "true"}},
		{"-data __REVOKE__", []string{"run", "-data", "__REVOKE__", "/jobs", "--", "true"}},
		{"-wait 0s", []string{"run", "-wait", "0", "/jobs", "--", "true"}},
		{"-kill-after", []string{"run", "-kill-after", "10s", "-session-timeout", "20s", "/jobs", "--", "true"}},
		{"-kill-after -1s is negative", []string{"run", "-kill-after", "-1s", "/jobs", "--", "true"}},
		{"has granted", []string{"run", "-kill-after", "1h", "-session-timeout", "4h", "/jobs", "--", "true"}},
		{"-token 0: a token is 1 or more", []string{"break", "-yes", "-token", "0", "/jobs"}},
		{"-token -1: a token is 1 or more", []string{"ask", "-token", "-1", "/jobs"}},
		{"-session-timeout 0s", []string{"run", "-session-timeout", "0", "/jobs", "--", "true"}},
		{`"30" for flag -wait: a duration has a unit, as in "30s"`, []string{"run", "-wait", "30", "/jobs", "--", "true"}},
		{`"1m30" for flag -session-timeout: a duration has a unit, as in "1m30s"`, []string{"ls", "-session-timeout", "1m30", "/jobs"}},
		{`"soon" for flag -kill-after: want a duration, such as "30s"`, []string{"run", "-kill-after", "soon", "/jobs", "--", "true"}},
		{`"2" for flag -tick: a duration has a unit, as in "2s"`, []string{"dev", "-tick", "2"}},
		{"no-such-flag", []string{"run", "-no-such-flag", "/jobs", "--", "true"}},
		{"-servers: it is empty", []string{"break", "-yes", "-servers", "", "/jobs"}},
		{"no-such-port", []string{"run", "-servers", "zk1:no-such-port", "/jobs", "--", "true"}},
		{"-once-every and -slot go together neither with", []string{"run", "-once-every", "1h", "-slot", "1", "/jobs", "--", "true"}},
		{"-once-every and -slot go together neither with", []string{"run", "-slot", "1", "-try", "/jobs", "--", "true"}},
		{"-once-every 0s: it must be positive", []string{"run", "-once-every", "0", "/jobs", "--", "true"}},
		{"-slot is empty", []string{"run", "-slot", "", "/jobs", "--", "true"}},
		{"-session-file is empty", []string{"run", "-session-file", "", "/jobs", "--", "true"}},
		{"the name of a session file is empty", []string{"reap", "-once", ""}},
		{"number of permits is missing", []string{"resize", "/jobs"}},
		{`invalid number of permits "0": want 1 or more, or none`, []string{"resize", "/jobs", "0"}},
		{"one argument too many", []string{"resize", "/jobs", "1", "2"}},
		{"path of the lock is missing", []string{"resize"}},
		{"no command \"walk\"", []string{"walk"}},
		{"zklock run /jobs/nightly", nil},
	} {
		ends(t, start(t, "", tc.args...), exitUsage, tc.says)
	}
}

// holder runs a command that holds a lock until the test ends it.
func holder(t *testing.T, args ...string) *realzk.Child {
	t.Helper()
	args = append(append([]string{"run"}, args...), "--", "sh", "-c", "echo pid $$; read line")
	c := start(t, "", args...)
	c.Hears("pid")
	return c
}

func finish(t *testing.T, c *realzk.Child) {
	t.Helper()
	c.Say("end")
	ends(t, c, 0)
}

func TestBusy(t *testing.T) {
	t.Parallel()
	path := test.Path(t)
	h := holder(t, path)
	ends(t, start(t, "", "run", "-try", path, "--", "true"), exitBusy, path+" is taken")
	const wait = "5s" // real: on a busy machine it may take seconds to open a session
	ends(t, start(t, "", "run", "-wait", wait, path, "--", "true"), exitTimeout, "not free within "+wait)
	for code, flags := range map[int][]string{exitBusy: {"-try"}, exitTimeout: {"-wait", wait}} {
		args := append(append([]string{"run", "-quiet"}, flags...), path, "--", "true")
		if got, cries := start(t, "", args...).Ends(); got != code || cries != "" {
			t.Errorf("%q: exit code %d, want %d, without a word:\n%s", args, got, code, cries)
		}
	}
	inLine(t, path, 1)
	finish(t, h)
	ends(t, start(t, "", "run", "-try", path, "--", "true"), 0)
	free(t, path)
}

func TestSharedHoldersGoTogether(t *testing.T) {
	t.Parallel()
	path := test.Path(t)
	a, b := holder(t, "-shared", path), holder(t, "-shared", "-try", path)
	ends(t, start(t, "", "run", "-try", path, "--", "true"), exitBusy)
	finish(t, a)
	finish(t, b)
	w := holder(t, path)
	ends(t, start(t, "", "run", "-try", "-shared", path, "--", "true"), exitBusy)
	finish(t, w)
	free(t, path)
}

func TestPermits(t *testing.T) {
	t.Parallel()
	path := test.Path(t)
	// A path of its own: the server deletes one that the semaphore has made, with the number, when nobody uses it.
	if _, err := realzk.Connect(t, quiet, realzk.Some(t)...).Client().Create(path, nil, 0, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
	a, b := holder(t, "-permits", "2", path), holder(t, "-permits", "2", path)
	ends(t, start(t, "", "run", path, "--", "true"), exitFailed, path+" is a semaphore: say -permits 2", "zklock resize "+path+" none")
	ends(t, start(t, "", "run", "-permits", "2", "-try", path, "--", "true"), exitBusy)
	ends(t, start(t, "", "run", "-permits", "3", "-try", path, "--", "true"), exitFailed, "has 2 permits, not 3", "zklock resize "+path+" 3")
	finish(t, a)
	c := holder(t, "-permits", "2", "-try", path)
	finish(t, b)
	finish(t, c)
	for _, number := range []string{"3", "none"} {
		ends(t, start(t, "", "resize", path, number), 0)
	}
	ends(t, start(t, "", "run", path, "--", "true"), 0)
	free(t, path)
}

// Flags may follow the path. Flags after the command belong to the command.
func TestFlagsMayFollowThePath(t *testing.T) {
	t.Parallel()
	path := test.Path(t)
	c := start(t, "", "run", path, "-shared", "-data", "mine", "--", "sh", "-c", "echo args $*; read line", "-", "-try", "--", "-x")
	if got := c.Hears("args"); got != "-try -- -x" {
		t.Errorf("the command has the arguments %q", got)
	}
	code, text := prints(t, "", nil, "ls", path, "-json")
	if code != 0 || !strings.Contains(text, `"data":"mine"`) || !strings.Contains(text, `"kind":"read"`) {
		t.Errorf("code %d: %s", code, text)
	}
	finish(t, c)
	ends(t, start(t, "", "run", path, "-try", "sh", "-c", "exit 3"), 3) // without --
	ends(t, start(t, "", "run", "--", path, "--", "true"), 0)
	ends(t, start(t, "", "ls", path, "-status"), exitFree)
}

// startBy is start by a line of the shell, whose "$@" is zklock.
func startBy(t *testing.T, line, servers string, args ...string) *realzk.Child {
	cmd := zklockCommand(t, servers, args...)
	cmd.Path, cmd.Args = "/bin/sh", append([]string{"sh", "-c", line, "sh"}, cmd.Args...)
	return realzk.StartProgram(t, cmd)
}

// startHeard is start, but the test hears what zklock says while it runs.
func startHeard(t *testing.T, servers string, args ...string) *realzk.Child {
	return startBy(t, `exec "$@" 2>&1`, servers, args...)
}

// After two seconds run prints that it waits, and for which holder.
func TestRunSaysWhatItWaitsFor(t *testing.T) {
	t.Parallel()
	path := test.Path(t)
	h := holder(t, path)
	quiet := start(t, "", "run", "-quiet", path, "--", "true")
	inLine(t, path, 2)
	c := startHeard(t, "", "run", path, "--", "true")
	want := regexp.MustCompile(`^waiting for ` + path + `, held by \{"host":".*","pid":\d+,"command":"sh"\}, which queued \d+s ago$`)
	if got := c.Hears("zklock:"); !want.MatchString(got) {
		t.Errorf("it says %q", got)
	}
	finish(t, h)
	ends(t, c, 0)
	if code, cries := quiet.Ends(); code != 0 || cries != "" {
		t.Errorf("with -quiet: code %d, %q", code, cries)
	}
	free(t, path)
}

// A run inside another run on the same path would wait for itself.
func TestANestedRunOnTheSamePath(t *testing.T) {
	t.Parallel()
	path := test.Path(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	nested := func(servers, below string) *realzk.Child {
		return start(t, servers, "run", path, "--", "env", asZklock+"=1", self, "run", below, "--", "true")
	}
	ends(t, nested("", path), exitUsage, path+" is held by the zklock run that this one runs under")
	ends(t, nested("", path+"/below"), 0)
	free(t, path)
	cmd := zklockCommand(t, "", "run", path, "--", "true") // a lock with the same path on another ensemble
	cmd.Env = append(cmd.Env, "ZKLOCK_PATH="+path, "ZKLOCK_SERVERS=zk1:2181")
	ends(t, realzk.StartProgram(t, cmd), 0)
}

// A node with data of another program is no lock: run and resize say so, and the data stay.
func TestDataOfAnotherProgram(t *testing.T) {
	t.Parallel()
	conn, path := realzk.Connect(t, quiet, realzk.Some(t)...), test.Path(t)
	const data = "retention.ms=604800000"
	if _, err := conn.Client().Create(path, []byte(data), 0, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
	for says, args := range map[string][]string{
		path + " is in use by another program: it has data": {"run", path, "--", "true"},
		path: {"resize", path, "none"},
	} {
		ends(t, start(t, "", args...), exitFailed, says)
	}
	if now, stat, err := conn.Client().Get(path); err != nil || string(now) != data || stat.Version != 0 {
		t.Errorf("%q in version %d, %v; want %q as it was", now, stat.Version, err, data)
	}
}

func TestNoServer(t *testing.T) {
	t.Parallel()
	p := proxy.For(t, realzk.Some(t)[0])
	p.Refuse()
	ends(t, start(t, p.Addr(), "run", "-session-timeout", "1s", test.Path(t), "--", "true"), exitNoServer,
		"no server: connect to "+p.Addr(), "after ", "refused", "\nzklock: set ZK_SERVERS or -servers, or start one with zklock dev\n")
}

// inLine waits until the queue has n nodes.
func inLine(t *testing.T, dir string, n int) {
	t.Helper()
	inLineAt(t, realzk.Some(t)[0], dir, n)
}

func inLineAt(t *testing.T, server, dir string, n int) {
	t.Helper()
	conn := realzk.Connect(t, quiet, server)
	test.Eventually(t, soon, fmt.Sprintf("%d stand in line at %s", n, dir), func() bool {
		return len(test.Children(t, conn.Client(), dir)) == n
	})
}

func free(t *testing.T, dir string) { t.Helper(); inLine(t, dir, 0) }

// The lock is free, and its server is too slow: the exit code does not say that the lock is taken.
func TestAServerThatDoesNotAnswerIsNotATakenLock(t *testing.T) {
	t.Parallel()
	for _, op := range []proxy.Op{proxy.ReadOp, proxy.CreateOp} {
		p := proxy.For(t, realzk.Some(t)[0])
		path := test.Path(t)
		held := p.Next(op, proxy.HoldRequest)
		c := start(t, p.Addr(), "run", "-session-timeout", "1m", "-wait", "2s", path, "--", "true")
		ends(t, c, exitNoServer, "no answer from")
		held.Release()
		free(t, path)
	}
}

// When the holder is asked to release the lock, zklock run ends its command, as after a loss, and
// then releases the lock.
func TestAskEndsTheCommand(t *testing.T) {
	t.Parallel()
	path := test.Path(t)
	polite := start(t, "", "run", path, "--", "sh", "-c", handles(syscall.SIGTERM, "echo tidy up; exit 0"))
	polite.Hears("ready")
	stays := start(t, "", "run", path, "-kill-after", "1ms", "--", "sh", "-c", stubborn)
	inLine(t, path, 2)
	c := start(t, "", "ask", path)
	c.Hears("asked:")
	ends(t, c, 0)
	polite.Hears("tidy")
	ends(t, polite, exitAsked, path+": the lock was asked for; the command was ended")

	group := pids(t, stays)
	ends(t, start(t, "", "ask", path), 0)
	ends(t, stays, exitAsked, "the command was ended")
	if some := alive(group); len(some) > 0 {
		t.Errorf("alive: %v", some)
	}
	free(t, path)
}

// With -ignore-ask the command continues. If the lock is lost after a request, that is a loss.
func TestAskMayBeIgnored(t *testing.T) {
	t.Parallel()
	path := test.Path(t)
	h := holder(t, "-ignore-ask", path)
	ends(t, start(t, "", "ask", path), 0)
	l := start(t, "", "ls", path)
	if got := l.Hears("holds"); !strings.Contains(got, `asked to release {"host":`) || !strings.Contains(got, `"command":"sh"`) {
		t.Errorf("who holds: %q", got)
	}
	ends(t, l, 0)
	finish(t, h)

	h = start(t, "", "run", "-session-timeout", "1m", path, "--", "sh", "-c", stubborn)
	pids(t, h)
	ends(t, start(t, "", "ask", path), 0)
	ends(t, start(t, "", "break", "-yes", path), 0)
	ends(t, h, exitLost, "the lock was lost")
	free(t, path)
}

func TestBreakTakesTheLockAway(t *testing.T) {
	t.Parallel()
	path := test.Path(t)
	holds := holder(t, path)
	waits := start(t, "", "run", path, "--", "sh", "-c", "echo mine; read line")
	inLine(t, path, 2)

	c := start(t, "", "break", path)
	if got := c.Hears("holds"); !strings.Contains(got, `"command":"sh"`) {
		t.Errorf("whose lock it is: %q", got)
	}
	c.Hears("Deleting")
	ends(t, c, exitUsage, "-yes")
	inLine(t, path, 2)

	c = start(t, "", "break", "-yes", path)
	c.Hears("Deleting")
	if got := c.Hears("deleted:"); !strings.Contains(got, "holds, write, token ") {
		t.Errorf("what it deletes: %q", got)
	}
	ends(t, c, 0)
	ends(t, holds, exitLost)
	waits.Hears("mine")
	finish(t, waits)
	free(t, path)
}

// jobPath returns the path of a job, and deletes its record at the end of the test.
func jobPath(t *testing.T) string {
	t.Helper()
	path := test.Path(t)
	t.Cleanup(func() { _ = realzk.Connect(t, quiet, realzk.Some(t)...).Client().Delete(path+"/last", -1) })
	return path
}

func TestASlotIsRunOnce(t *testing.T) {
	t.Parallel()
	path := jobPath(t)
	run := func(slot, script string, flags ...string) *realzk.Child {
		return start(t, "", append(append([]string{"run", "-slot", slot}, flags...), path, "--", "sh", "-c", script)...)
	}
	ends(t, run("2026-11-26", "exit 3"), 3) // the job fails, so the next process runs it
	first := run("2026-11-26", "echo runs; read line")
	first.Hears("runs")
	second, third := run("2026-11-26", "exit 4"), run("2026-11-26", "exit 4", "-quiet")
	inLine(t, path+"/lock", 3)
	finish(t, first)
	ends(t, second, 0, "zklock: "+path+": done already: slot \"2026-11-26\", by process ")
	if code, cries := third.Ends(); code != 0 || cries != "" {
		t.Errorf("with -quiet: exit code %d, %q", code, cries)
	}
	ends(t, run("2026-11-25", "exit 4", "-quiet"), exitPassed, "zklock: "+path+": slot passed: the record does not have slot \"2026-11-25\"", "the command was not run")
	ends(t, run("2026-11-27", "exit 0"), 0)
	ends(t, run("2026-11-26", "exit 4"), 0, "done already: slot \"2026-11-26\", before slot \"2026-11-27\"")
	if code, text := prints(t, "", nil, "ls", path); code != 0 || !strings.Contains(text, path+": once, last run until 20") || !strings.Contains(text, "for slot 2026-11-27, no holder, no waiter") {
		t.Errorf("ls, exit code %d: %s", code, text)
	}
}

func TestAPeriodIsRunOnce(t *testing.T) {
	t.Parallel()
	path := jobPath(t)
	ends(t, start(t, "", "run", "-once-every", "1h", path, "--", "true"), 0)
	ends(t, start(t, "", "run", "-once-every", "1h", path, "--", "false"), 0, "done already: by process ")
	h := holder(t, "-once-every", "1ns", path)
	l := start(t, "", "ls", path)
	if got := l.Hears(path + ":"); !strings.HasPrefix(got, "once, last run until 20") || !strings.HasSuffix(got, ", 1 holding, 0 waiting") {
		t.Errorf("ls: %q", got)
	}
	l.Hears("holds")
	ends(t, l, 0)
	code, text := prints(t, "", nil, "ls", "-json", "-r", path)
	var job line
	if code != 0 || strings.Count(text, "\n") != 1 || json.Unmarshal([]byte(text), &job) != nil || job.Last == nil || job.Last.Pid == 0 || len(job.Members) != 1 {
		t.Errorf("ls -r, exit code %d: %s", code, text)
	}
	finish(t, h)
}

// -wait bounds the wait, not the run.
func TestAJobThatRunsForLongerThanItWouldWait(t *testing.T) {
	t.Parallel()
	path := jobPath(t)
	const wait = "5s" // real: on a busy machine it may take seconds to open a session
	first := start(t, "", "run", "-slot", "1", "-wait", wait, path, "--", "sh", "-c", "echo runs; read line")
	first.Hears("runs")
	ends(t, start(t, "", "run", "-slot", "1", "-wait", wait, path, "--", "true"), exitTimeout, path+" was not free within "+wait)
	finish(t, first)
	ends(t, start(t, "", "run", "-slot", "1", path, "--", "false"), 0, "done already")
}

// handles returns a command that prints "ready", and runs another command when it receives a
// signal.
//
// It does not wait with the shell's read: if a signal arrives right before the read begins, the
// shell handles it only when the read ends, which is never.
func handles(sig syscall.Signal, by string) string {
	return fmt.Sprintf("trap '%s' %d; echo ready; while :; do sleep 0.05; done", by, sig)
}

func TestSignalsArePassedOn(t *testing.T) {
	t.Parallel()
	path := test.Path(t)
	if signal.Ignored(syscall.SIGHUP) { // under nohup(1) zklock would not catch it, either
		signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	}
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGCONT, syscall.SIGWINCH} {
		c := start(t, "", "run", path, "--", "sh", "-c", handles(sig, "echo got signal; exit 9"))
		c.Hears("ready")
		c.Signal(sig)
		c.Hears("got")
		ends(t, c, 9)
	}
	c := start(t, "", "run", path, "--", "sh", "-c", "echo ready; exec sleep 1000")
	c.Hears("ready")
	c.Signal(syscall.SIGINT)
	ends(t, c, killedBy(syscall.SIGINT))
	free(t, path)
}

func TestASignalEndsTheWait(t *testing.T) {
	t.Parallel()
	path := test.Path(t)
	h := holder(t, path)
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		c := start(t, "", "run", path, "--", "true")
		inLine(t, path, 2)
		c.Signal(sig)
		ends(t, c, killedBy(sig))
		inLine(t, path, 1)
	}
	finish(t, h)
	p := proxy.For(t, realzk.Some(t)[0])
	asked := p.Next(proxy.ConnectOp, proxy.HoldRequest)
	c := start(t, p.Addr(), "run", "-session-timeout", "1m", path, "--", "true")
	test.Within(t, soon, "it asks for a session", func() { <-asked.Fired() })
	c.Signal(syscall.SIGTERM)
	ends(t, c, killedBy(syscall.SIGTERM))
	free(t, path)
}
