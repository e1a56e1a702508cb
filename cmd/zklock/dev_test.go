package main

import (
	"errors"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test/realzk"
)

// dev starts `zklock dev` on a free port, and returns the address that it prints.
func dev(t *testing.T, args ...string) (c *realzk.Child, addr string) {
	t.Helper()
	c = start(t, "none", append([]string{"dev", "-port", "0"}, args...)...)
	if got := c.Hears("An"); !strings.Contains(got, "not for production") || !strings.Contains(got, "gone when it ends") {
		t.Errorf("its first line does not say what it is not: %q", got)
	}
	_, addr, _ = strings.Cut(c.Hears("Use"), "ZK_SERVERS=")
	addr, _, _ = strings.Cut(addr, ",")
	return c, addr
}

func TestDevServesUntilASignal(t *testing.T) {
	t.Parallel()
	for _, sig := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		c, addr := dev(t)
		path := "/jobs/nightly"
		h := start(t, addr, "run", path, "--", "sh", "-c", "echo ready; read line")
		h.Hears("ready")
		if got := start(t, addr, "ls", path).Hears(path + ":"); got != "rwlock, 1 holding, 0 waiting" {
			t.Errorf("with a holder: %q", got)
		}
		ends(t, start(t, addr, "run", "-try", path, "--", "true"), exitBusy)
		h.Say("end")
		ends(t, h, 0)
		ends(t, start(t, "none", "run", "-servers", addr, path, "--", "true"), 0)
		c.Signal(sig)
		ends(t, c, 0)
		if _, err := net.Dial("tcp", addr); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("after its end a dial ends with %v, want a refused connection", err)
		}
	}
}

func TestDevEndsBesideAHolder(t *testing.T) {
	t.Parallel()
	c, addr := dev(t, "-host", "0.0.0.0")
	start(t, addr, "run", "/a", "--", "sh", "-c", "echo ready; exec sleep 1000").Hears("ready")
	c.Signal(os.Interrupt)
	ends(t, c, 0)
}

func TestDevGrantsSessionsByItsTick(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		flags             []string
		shortest, longest time.Duration
	}{
		{nil, 4 * time.Second, 40 * time.Second},
		{[]string{"-tick", "100ms"}, 200 * time.Millisecond, 40 * time.Second},
		{[]string{"-tick", "3s"}, 6 * time.Second, time.Minute},
	} {
		_, addr := dev(t, c.flags...)
		for asked, want := range map[time.Duration]time.Duration{time.Millisecond: c.shortest, time.Hour: c.longest} {
			conn, err := zklocks.Connect(t.Context(), []string{addr}, asked)
			must(t, err)
			if got := conn.SessionTimeout(); got != want {
				t.Errorf("%q, asked for %v: %v, want %v", c.flags, asked, got, want)
			}
			conn.Close()
		}
	}
}

func TestDevSaysWhyItDoesNotServe(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	for _, c := range []struct {
		args  []string
		code  int
		words string
	}{
		{[]string{"-port", port}, exitFailed, "zklock: port " + port + " of 127.0.0.1 is taken: end the program that uses it, or name another one with -port"},
		{[]string{"-port", "65536"}, exitUsage, "-port 65536: it must be from 0 to 65535"},
		{[]string{"-port", "-1"}, exitUsage, "-port -1: it must be from 0 to 65535"},
		{[]string{"-host", ""}, exitUsage, "-host is empty"}, // would mean all addresses of the machine
		{[]string{"-tick", "0"}, exitUsage, "-tick 0s: it must be 1ms or more"},
		{[]string{"-tick", "300h"}, exitUsage, "-tick 300h0m0s: it must be"},
		{[]string{"-host", "192.0.2.1"}, exitFailed, "192.0.2.1:2181"}, // an address that no machine has
		{[]string{"/jobs/nightly"}, exitUsage, `"/jobs/nightly" is one argument too many`},
	} {
		ends(t, start(t, "none", append([]string{"dev"}, c.args...)...), c.code, c.words)
	}
}
