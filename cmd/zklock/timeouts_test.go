package main

import (
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/zklocks/zklocks/internal/test"
)

// After a reconnect the server grants a shorter session timeout, as a server with other limits may.
// The lock is not in danger, so the command continues.
func TestACommandContinuesAfterAShorterTimeoutIsGranted(t *testing.T) {
	t.Parallel()
	_, addr := dev(t, "-tick", "4s") // sessions of up to 80 s
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var mu sync.Mutex
	var conns []net.Conn
	go func() {
		for n := 0; ; n++ {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", addr)
			if err != nil {
				in.Close()
				continue
			}
			mu.Lock()
			conns = append(conns, in)
			mu.Unlock()
			if n > 0 {
				// A command can spare 7T/80: longer than a busy machine delays an answer.
				out = test.AskFor(out, 20*time.Second)
			}
			go func() { _, _ = io.Copy(out, in); out.Close() }()
			go func() { _, _ = io.Copy(in, out); in.Close() }()
		}
	}()
	// With the longer timeout -kill-after would be the whole shorter timeout, and the command ended
	// at once.
	c := start(t, l.Addr().String(), "run", "-session-timeout", "80s", "/jobs/nightly", "--", "sh", "-c", "echo pid $$; sleep 8; echo slept")
	c.Hears("pid")
	mu.Lock()
	for _, in := range conns {
		in.Close()
	}
	mu.Unlock()
	c.Hears("slept")
	ends(t, c, 0)
}
