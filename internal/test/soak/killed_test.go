package soak

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/realzk"
	"github.com/zklocks/zklocks/rwlock"
)

// holderEnv has the order to a process that acquires a lock.
const holderEnv = "SOAK_HOLDER"

type holding struct {
	Servers    []string
	Path, File string // no file if File is empty
}

// obey prints when it is connected and when it holds, and closes the connection at the first line
// from its parent.
func (h *holding) obey() error {
	ctx, lines := context.Background(), realzk.Lines()
	var opts []zklocks.ConnectOption
	if h.File != "" {
		opts = append(opts, zklocks.WithSessionFile(h.File))
	}
	conn, err := zklocks.Connect(ctx, h.Servers, killedTimeout, opts...)
	if err != nil {
		return err
	}
	defer conn.Close()
	fmt.Println("connected")
	if _, err := rwlock.New(conn, h.Path).Lock(ctx); err != nil {
		return err
	}
	fmt.Println("granted", time.Now().UnixNano())
	<-lines
	return nil
}

const (
	killedTimeout = 10 * time.Second
	killings      = 30 // of each kind
)

// A killing is a way to kill a process that holds a lock, and to free the lock.
type killing struct {
	name     string
	parallel bool // it takes a session timeout, so all wait at the same time
	// begin starts the holder. The returned function kills it.
	begin func(*killer, holding) (kill func())
}

// killer is what the killings of one ensemble share.
type killer struct {
	*testing.T
	zklock string // the program
	reaper string // the file that a running zklock reap awaits
}

func (k *killer) holder(h holding) *realzk.Child {
	c := realzk.StartChild(k, holderEnv, h)
	c.Hears("granted")
	return c
}

var killingWays = []killing{
	{"nothing", true, func(k *killer, h holding) func() { return k.holder(h).Kill }},
	{"the program is restarted", false, func(k *killer, h holding) func() {
		h.File = filepath.Join(k.TempDir(), "session")
		c := k.holder(h)
		return func() {
			c.Kill()
			again := realzk.StartChild(k, holderEnv, h)
			k.Cleanup(again.Kill)
		}
	}},
	{"zklock reap", false, func(k *killer, h holding) func() {
		h.File = k.reaper
		c := k.holder(h)
		pass(60 * time.Millisecond) // the reaper searches every 50 ms for a session
		return c.Kill
	}},
	{"zklock run, by its guard", false, func(k *killer, h holding) func() {
		c := realzk.StartProgram(k, exec.Command(k.zklock, "run", "-servers", strings.Join(h.Servers, ","), "-session-timeout", killedTimeout.String(), h.Path,
			"--", "sh", "-c", "trap '' TERM; sleep 1000 & echo runs; while :; do sleep 1; done"))
		c.Hears("runs")
		return func() { _ = syscall.Kill(c.PID(), syscall.SIGKILL) } // c.Kill waits until the output, which the command has, is closed
	}},
}

// killed measures from the kill -9 of a holder to the grant of a waiter in another process.
func killed(t *testing.T, o options) {
	if o.short() {
		k := &killer{T: t}
		server := realzk.Standalone(t, realzk.Options{Tick: 2 * time.Second})
		t.Logf("restart: %v", ms(k.measure(killingWays[1], []string{server.Addr()}, "/killed")))
		return
	}
	zklock := filepath.Join(t.TempDir(), "zklock")
	build := exec.Command("go", "build", "-o", zklock, ".")
	build.Dir = filepath.Join("..", "..", "..", "cmd", "zklock")
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\n| ends the session | servers | kills | first | median | 9 of 10 | last |\n|---|--:|--:|--:|--:|--:|--:|\n")
	for _, servers := range [][]string{
		{realzk.Standalone(t, realzk.Options{Tick: 2 * time.Second, ForceSync: true}).Addr()},
		realzk.Cluster(t, 3, realzk.Options{Tick: 2 * time.Second, ForceSync: true}).Addrs(),
	} {
		k := &killer{T: t, zklock: zklock, reaper: filepath.Join(t.TempDir(), "session")}
		reaper := realzk.StartProgram(t, exec.Command(zklock, "reap", k.reaper))
		for i, way := range killingWays {
			var q quantiles
			var mu sync.Mutex
			var all sync.WaitGroup
			for n := range killings {
				path := fmt.Sprintf("/killed/%d-%d-%d", len(servers), i, n)
				one := func() {
					took := k.measure(way, servers, path)
					mu.Lock()
					defer mu.Unlock()
					q = append(q, took)
				}
				if way.parallel {
					all.Go(one)
				} else {
					one()
				}
			}
			all.Wait()
			slices.Sort(q)
			fmt.Fprintf(&b, "| %s | %d | %d | %s | %s | %s | %s |\n", way.name, len(servers), len(q), q.at(0), q.at(0.5), q.at(0.9), q.at(1))
		}
		reaper.Kill()
	}
	load, _ := os.ReadFile("/proc/loadavg")
	t.Logf("T = %v, load %s%s", killedTimeout, load, b.String())
}

func (k *killer) measure(way killing, servers []string, path string) time.Duration {
	h := holding{Servers: servers, Path: path}
	kill := way.begin(k, h)
	waiter := realzk.StartChild(k, holderEnv, h)
	waiter.Hears("connected")
	conn := realzk.Connect(k, time.Minute, servers...)
	defer conn.Close()
	test.Eventually(k, patience, "two in the queue", func() bool { return len(test.Children(k, conn.Client(), path)) == 2 })
	if way.parallel { // at different instants between two ticks
		pass(rand.N(4 * time.Second))
	}
	began := time.Now()
	kill()
	at, err := strconv.ParseInt(waiter.Hears("granted"), 10, 64)
	if err != nil {
		k.Fatal(err)
	}
	waiter.Say("close")
	waiter.Ends()
	return time.Unix(0, at).Sub(began)
}
