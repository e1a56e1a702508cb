package main

import (
	"strings"
	"syscall"
	"testing"

	"github.com/zklocks/zklocks/internal/test"
)

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
