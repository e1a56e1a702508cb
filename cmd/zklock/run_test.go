package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
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

// startHeard is start, but the test hears what zklock says while it runs.
func startHeard(t *testing.T, servers string, args ...string) *realzk.Child {
	cmd := zklockCommand(t, servers, args...)
	cmd.Path, cmd.Args = "/bin/sh", append([]string{"sh", "-c", `exec "$@" 2>&1`, "sh"}, cmd.Args...)
	return realzk.StartProgram(t, cmd)
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

func TestPermitsAtThePathOfALock(t *testing.T) {
	t.Parallel()
	path := test.Path(t)
	h := holder(t, path)
	ends(t, start(t, "", "run", "-permits", "2", path, "--", "true"), exitFailed, path+" is in use by a lock of another kind")
	inLine(t, path, 1)
	finish(t, h)
	ends(t, start(t, "", "run", path, "--", "true"), 0)
	free(t, path)
}

// A node with data of another program is no lock: run says so, and the data stay. A number of permits
// is not taken for such data.
func TestDataOfAnotherProgram(t *testing.T) {
	t.Parallel()
	conn := realzk.Connect(t, quiet, realzk.Some(t)...)
	for data, run := range map[string][]string{
		"retention.ms=604800000": {"", "-try", "-shared"},
		"4":                      nil,
	} {
		path := test.Path(t)
		if _, err := conn.Client().Create(path, []byte(data), 0, zk.WorldACL(zk.PermAll)); err != nil {
			t.Fatal(err)
		}
		for _, flag := range run {
			args := slices.DeleteFunc([]string{"run", flag, path, "--", "true"}, func(arg string) bool { return arg == "" })
			ends(t, start(t, "", args...), exitFailed, path+" is in use by another program: it has data")
		}
		for _, args := range [][]string{{"run", "-permits", "2", path, "--", "true"}, {"resize", path, "none"}} {
			if run != nil {
				ends(t, start(t, "", args...), exitFailed, path)
			}
		}
		if run == nil {
			ends(t, start(t, "", "run", path, "--", "true"), exitFailed, path+" is a semaphore")
		}
		if now, stat, err := conn.Client().Get(path); err != nil || string(now) != data || stat.Version != 0 {
			t.Errorf("%q in version %d, %v; want %q as it was", now, stat.Version, err, data)
		}
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

// The lock is taken, and its server stops answering during the wait, so it is unknown whether the
// lock is still taken. The connection outlasts the wait.
func TestAServerThatFreezesDuringTheWait(t *testing.T) {
	t.Parallel()
	p := proxy.For(t, realzk.Some(t)[0])
	path := test.Path(t)
	h := holder(t, path)
	c := start(t, p.Addr(), "run", "-session-timeout", "16s", "-wait", "8s", path, "--", "true")
	inLine(t, path, 2)
	p.Mute()
	ends(t, c, exitNoServer, "no answer from "+p.Addr())
	finish(t, h)
}

// An overloaded server drops requests: they are sent again.
func TestAnOverloadedServerIsAskedAgain(t *testing.T) {
	t.Parallel()
	p := proxy.For(t, realzk.Some(t)[0])
	for _, args := range [][]string{{"run", test.Path(t), "--", "true"}, {"ls", test.Path(t)}} {
		p.Next(proxy.ReadOp, proxy.Answer(-127))
		ends(t, start(t, p.Addr(), args...), 0)
	}
}
