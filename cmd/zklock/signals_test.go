package main

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/internal/test/realzk"
)

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
