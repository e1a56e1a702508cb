package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/locks"
	"github.com/zklocks/zklocks/internal/test/loopback"
	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/internal/test/realzk"
	"github.com/zklocks/zklocks/rwlock"
)

// stubborn is a command that ignores SIGTERM, and starts another process that ignores SIGTERM, too.
// The command prints its process id, which is the id of its group, and the id of the other process.
const stubborn = `trap "" TERM; sleep 1000 & echo pids $$ $!; while :; do read line; done`

// pids returns the processes of a stubborn command.
func pids(t *testing.T, c *realzk.Child) []int {
	t.Helper()
	var list []int
	for _, word := range strings.Fields(c.Hears("pids")) {
		pid, err := strconv.Atoi(word)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, pid)
	}
	t.Cleanup(func() { _ = syscall.Kill(-list[0], syscall.SIGKILL) })
	return list
}

// alive returns the processes that can still run. A zombie cannot.
func alive(pids []int) (some []int) {
	for _, pid := range pids {
		if syscall.Kill(pid, 0) == syscall.ESRCH {
			continue
		}
		if stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err == nil {
			_, state, _ := strings.Cut(string(stat), ") ")
			if strings.HasPrefix(state, "Z") || strings.HasPrefix(state, "X") {
				continue
			}
		}
		some = append(some, pid)
	}
	return some
}

// diedAt yields the time when the last process has died. No signal reports the death of processes
// that are not our children, so it polls each millisecond. More frequent polls would take CPU time
// from the measured processes.
func diedAt(pids []int) <-chan time.Time {
	at := make(chan time.Time, 1)
	go func() {
		for late := time.Now().Add(soon); time.Now().Before(late); time.Sleep(time.Millisecond) { // real: these are processes of the machine
			if len(alive(pids)) == 0 {
				at <- time.Now()
				return
			}
		}
	}()
	return at
}

// grant is the time when the next holder acquired the lock, and the processes of the previous
// command that were alive then.
type grant struct {
	hold  *zklocks.Hold
	at    time.Time
	alive []int
}

// next queues for the lock in this process.
func next(t *testing.T, path, server string, former []int) <-chan grant {
	t.Helper()
	m := rwlock.New(locks.On(realzk.Connect(t, quiet, server)), path)
	granted := make(chan grant, 1)
	go func() {
		h, err := m.Lock(t.Context())
		if err != nil {
			t.Error(err)
			return
		}
		g := grant{hold: h, at: time.Now()}
		g.alive = alive(former)
		granted <- g
	}()
	return granted
}

// overtaken asserts that no process of the command was alive when the next holder acquired the
// lock.
func overtaken(t *testing.T, dead <-chan time.Time, granted <-chan grant) grant {
	t.Helper()
	var g grant
	test.Within(t, soon, "the next one holds", func() { g = <-granted })
	if len(g.alive) > 0 {
		t.Errorf("alive when the next one held: %v", g.alive)
	}
	test.Within(t, soon, "the command is dead", func() {
		t.Logf("dead %v before the next one held", g.at.Sub(<-dead).Round(time.Millisecond))
	})
	if err := g.hold.Release(t.Context()); err != nil {
		t.Error(err)
	}
	return g
}

// The command has T/4 to end, and the system T/16 to kill it.
const session = 8 * time.Second

func TestTheCommandIsDeadBeforeTheNextHolds(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		do   func(t *testing.T, c *realzk.Child, p *proxy.Proxy, s *realzk.Server)
		code int // -1: killed
		args []string
	}{
		{"in a black hole", func(_ *testing.T, _ *realzk.Child, p *proxy.Proxy, _ *realzk.Server) { p.Mute() }, exitLost, nil},
		{"in a black hole, with little time", func(_ *testing.T, _ *realzk.Child, p *proxy.Proxy, _ *realzk.Server) { p.Mute() }, exitLost,
			[]string{"-kill-after", "1ms"}},
		{"when the server is refused", func(_ *testing.T, _ *realzk.Child, p *proxy.Proxy, _ *realzk.Server) { p.Refuse() }, exitLost, nil},
		// The guard kills the command, which is a loss, and not the exit code of a command that was killed.
		{"when zklock is stopped", func(_ *testing.T, c *realzk.Child, _ *proxy.Proxy, _ *realzk.Server) { c.Pause() }, exitLost, nil},
		{"when zklock is killed", func(_ *testing.T, c *realzk.Child, _ *proxy.Proxy, _ *realzk.Server) { c.Kill() }, -1, nil},
		{"when the server is stopped", func(t *testing.T, c *realzk.Child, _ *proxy.Proxy, s *realzk.Server) {
			if err := s.Pause(); err != nil {
				t.Fatal(err)
			}
			_, _ = c.Ends()
			if err := s.Resume(); err != nil {
				t.Fatal(err)
			}
		}, exitLost, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			addr := realzk.Some(t)[0]
			var server *realzk.Server
			if strings.Contains(tc.name, "server is stopped") {
				server = realzk.Standalone(t, realzk.Options{})
				addr = server.Addr()
			}
			p := proxy.For(t, addr)
			path := test.Path(t)
			args := append([]string{"run", "-session-timeout", session.String()}, tc.args...)
			c := start(t, p.Addr(), append(args, path, "--", "sh", "-c", stubborn)...)
			group := pids(t, c)
			granted := next(t, path, addr, group)
			inLineAt(t, addr, path, 2)
			dead := diedAt(group)
			tc.do(t, c, p, server)
			overtaken(t, dead, granted)
			if tc.code >= 0 {
				if strings.HasSuffix(tc.name, "zklock is stopped") {
					c.Resume()
				}
				ends(t, c, tc.code, path, "the command was ended")
			}
		})
	}
}

// The lock is lost, and another process may hold it already: zklock does not wait.
func TestACommandWhoseLockIsGoneIsKilledAtOnce(t *testing.T) {
	t.Parallel()
	for name, do := range map[string]func(t *testing.T, p *proxy.Proxy, path string){
		"node deleted": func(t *testing.T, _ *proxy.Proxy, path string) {
			conn := realzk.Connect(t, quiet, realzk.Some(t)...)
			for _, name := range test.Children(t, conn.Client(), path) {
				if err := conn.Client().Delete(path+"/"+name, -1); err != nil {
					t.Fatal(err)
				}
			}
		},
		"session ended": func(t *testing.T, p *proxy.Proxy, _ string) {
			id, passwd := p.Session()
			if _, err := realzk.EndSession(id, passwd, p.Addr()); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := proxy.For(t, realzk.Some(t)[0])
			path := test.Path(t)
			c := start(t, p.Addr(), "run", "-session-timeout", "1m", path, "--", "sh", "-c", stubborn)
			group := pids(t, c)
			test.Eventually(t, soon, "its node is watched", func() bool { return p.Seen(proxy.ReadOp) > 0 })
			do(t, p, path)
			dead := diedAt(group)
			struck := time.Now()
			test.Within(t, soon, "the command is dead", func() { t.Logf("dead after %v", (<-dead).Sub(struck)) })
			if took := time.Since(struck); took > 10*time.Second { // -kill-after is 15 s
				t.Errorf("it took %v", took)
			}
			ends(t, c, exitLost, "the lock was lost")
			free(t, path)
		})
	}
}

func TestACommandThatListensMayTidyUp(t *testing.T) {
	t.Parallel()
	p := proxy.For(t, realzk.Some(t)[0])
	path := test.Path(t)
	c := start(t, p.Addr(), "run", "-session-timeout", session.String(), path, "--",
		"sh", "-c", handles(syscall.SIGTERM, "echo tidy up; exit 0"))
	c.Hears("ready")
	p.Mute()
	if got := c.Hears("tidy"); got != "up" {
		t.Errorf("tidy %q", got)
	}
	p.Unmute()
	ends(t, c, exitLost, "no server has answered in time")
	free(t, path)
}

// The release finds that the node was deleted: another process may have held the lock while the
// command ran.
func TestALossThatIsFoundOutAtTheEnd(t *testing.T) {
	t.Parallel()
	addr := realzk.Some(t)[0]
	p := proxy.For(t, addr)
	path := test.Path(t)
	watches := p.Next(proxy.ReadOp, proxy.HoldRequest) // reads the path first, which may be a semaphore's
	// -ignore-ask, because the node would be read a second time without it.
	c := start(t, p.Addr(), "run", "-ignore-ask", "-session-timeout", "1m", path, "--", "sh", "-c", "echo pids $$; read line")
	test.Within(t, soon, "it looks at the path", func() { <-watches.Fired() })
	held := p.Where(func(r proxy.Request) bool {
		return r.Is(proxy.ReadOp) && len(r.Paths) > 0 && strings.HasPrefix(r.Paths[0], path+"/")
	}, 1, proxy.HoldRequest)
	watches.Release()
	group := pids(t, c)
	test.Within(t, soon, "it watches its node", func() { <-held.Fired() })
	conn := realzk.Connect(t, quiet, addr)
	if err := conn.Client().Delete(path+"/"+test.Children(t, conn.Client(), path)[0], -1); err != nil {
		t.Fatal(err)
	}
	c.Say("end")
	test.Eventually(t, soon, "zklock has waited for the command", func() bool { return syscall.Kill(group[0], 0) == syscall.ESRCH })
	held.Release()
	ends(t, c, exitLost, path, "its node was deleted", "the command had ended by itself")
}

func TestACommandWhoseLockIsGoneIsNotStarted(t *testing.T) {
	t.Parallel()
	const path = "/jobs/nightly"
	conn, err := zklocks.Connect(t.Context(), []string{loopback.For(t).Addr()}, quiet)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	h, err := rwlock.New(conn, path).Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	lost := h.Lost()
	if err := conn.Client().Delete(path+"/"+test.Children(t, conn.Client(), path)[0], -1); err != nil {
		t.Fatal(err)
	}
	test.Within(t, soon, "the loss", func() { <-lost })

	s := &supervisor{path: path, hold: h}
	if s.guard, err = startGuard(handover{}, 0, time.Time{}); err != nil {
		t.Fatal(err)
	}
	defer s.guard.done()
	file := filepath.Join(t.TempDir(), "file")
	_, err = startChild([]string{"touch", file}, os.Environ(), s.known)
	if e, ok := err.(exit); !ok || e.code != exitLost || !strings.Contains(err.Error(), "not started") {
		t.Errorf("got %v, want a loss", err)
	}
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Errorf("the command has run: %v", err)
	}
}

// A short outage does not end the command.
func TestAShortOutageIsNotALoss(t *testing.T) {
	t.Parallel()
	p := proxy.For(t, realzk.Some(t)[0])
	path := test.Path(t)
	c := start(t, p.Addr(), "run", path, "--", "sh", "-c", "echo ready; read line")
	c.Hears("ready")
	p.Cut()
	p.Refuse()
	if err := p.Accept(); err != nil {
		t.Fatal(err)
	}
	beats := p.Seen(proxy.CheckOp)
	test.Eventually(t, soon, "it is heard of again", func() bool { return p.Seen(proxy.CheckOp) > beats })
	finish(t, c)
	free(t, path)
}

// What the command leaves behind is ended: with SIGTERM, or at once if it has no time to end in.
func TestWhatTheCommandLeavesBehindIsEnded(t *testing.T) {
	t.Parallel()
	for ignores, flags := range map[string][]string{
		"": nil, `trap "" TERM; `: {"-session-timeout", "1m", "-kill-after", "0"}, // a quarter of the session timeout is 15 s
	} {
		path := test.Path(t)
		c := start(t, "", slices.Concat([]string{"run"}, flags, []string{path, "--", "sh", "-c", ignores + "sleep 1000 & echo pids $$ $!; exit 5"})...)
		group := pids(t, c)
		began := time.Now()
		ends(t, c, 5)
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("it took %v", took)
		}
		if some := alive(group); len(some) > 0 {
			t.Errorf("alive: %v", some)
		}
		free(t, path)
	}
}

// After a reconnect a server with other limits may grant a shorter session timeout. The lock is not
// in danger, so the command continues: all times follow.
func TestThePlanFollowsAShorterTimeout(t *testing.T) {
	for _, killAfter := range []time.Duration{quarter, 20 * time.Second} {
		granted := 80 * time.Second
		s := &supervisor{granted: func() time.Duration { return granted }, killAfter: killAfter}
		for _, granted = range []time.Duration{80 * time.Second, 16 * time.Second} {
			s.plan()
			if s.timeout != granted || s.killAfter != granted/4 || s.reserve != granted/16 {
				t.Errorf("granted %v: -kill-after %v, reserve %v", granted, s.killAfter, s.reserve)
			}
		}
	}
}

// The command ends in an outage. zklock does not wait for a server: for the release at most a
// second, for the record of a job at most until the lock is lost.
func TestARunEndsInAnOutage(t *testing.T) {
	t.Parallel()
	const timeout = 4 * time.Second
	for _, run := range []struct {
		flags []string
		code  int
		says  string
	}{
		{nil, 3, "was not released, as no server answered"},
		{[]string{"-shared"}, 3, "was not released, as no server answered"},
		{[]string{"-permits", "2"}, 3, "was not released, as no server answered"},
		{[]string{"-slot", "1"}, exitLost, "the record of it is not confirmed"},
	} {
		t.Run(strings.Join(run.flags, " "), func(t *testing.T) {
			t.Parallel()
			p := proxy.For(t, loopback.For(t).Addr())
			end := "exit 3"
			if run.code == exitLost {
				end = "exit 0" // a job that fails is not recorded
			}
			c := start(t, p.Addr(), slices.Concat([]string{"run", "-session-timeout", timeout.String()}, run.flags, []string{"/jobs/nightly", "--", "sh", "-c", "echo ready; read line; " + end})...)
			c.Hears("ready")
			p.Mute()
			began := time.Now()
			c.Say("end")
			ends(t, c, run.code, run.says)
			took := time.Since(began)
			t.Logf("it took %v", took)
			if took > timeout+5*time.Second { // real: 3T/4, a second to close the connection, and a busy machine
				t.Error("that is too long")
			}
		})
	}
}
