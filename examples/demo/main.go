// Demo starts a throw-away ZooKeeper and runs the examples against it, one after
// the other; with ZK_SERVERS set, against that one. It stops at the first that
// fails, with its exit status.
//
//	go run ./examples/demo
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/zklocks/zklocks/internal/zktest"
)

const (
	module   = "github.com/zklocks/zklocks/examples/"
	patience = 8 * time.Second // for an example that was told to stop
)

var examples = []struct{ name, title, flag string }{
	{"joblimit", "At most 3 of 8 processes work at once. One is killed; the next in line takes over.",
		"-within=3s"}, // the throw-away server grants short sessions
	{"inventory", "Many read what two rewrite, in several steps. Nobody may see half a rewrite.", ""},
	{"treewalk", "A function locks, calls itself, and hands work to goroutines. Nobody else gets in.", ""},
	{"fencing", "A holder is frozen and wakes up too late. Its write must not count.", ""},
}

func main() {
	ctx, cancel := context.WithCancel(context.Background())
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) // "| head" ends the example, and so us
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		<-signals
		cancel()
	}()
	status, err := demo(ctx)
	if ctx.Err() != nil {
		err, status = errors.New("interrupted, everything is stopped"), 130
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "\ndemo: %v\n", err)
	}
	os.Exit(status)
}

// demo returns the exit status.
func demo(ctx context.Context) (int, error) {
	begun := time.Now()
	dir, err := os.MkdirTemp("", "zklocks-demo-")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(dir)
	build := exec.CommandContext(ctx, "go", "build", "-o", dir)
	for _, e := range examples {
		build.Args = append(build.Args, module+e.name)
	}
	build.Stderr = os.Stderr
	if err := build.Start(); err != nil {
		return 1, err
	}
	servers := os.Getenv("ZK_SERVERS")
	foreign := servers != ""
	if !foreign {
		fmt.Println("Starting a throw-away ZooKeeper")
		server, err := zktest.Start(zktest.Options{})
		if err != nil {
			_ = build.Wait()
			return 1, err
		}
		defer server.Stop()
		servers = server.Addr()
	}
	if err := build.Wait(); err != nil {
		return 1, fmt.Errorf("go build: %w", err)
	}
	for i, e := range examples {
		fmt.Printf("\n%d/%d %s: %s\n", i+1, len(examples), e.name, e.title)
		cmd := exec.CommandContext(ctx, filepath.Join(dir, e.name), "-servers", servers)
		if e.flag != "" && !foreign {
			cmd.Args = append(cmd.Args, e.flag)
		}
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr // the terminal itself, if it is one
		cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
		cmd.WaitDelay = patience
		if err := cmd.Run(); err != nil {
			return max(cmd.ProcessState.ExitCode(), 1), fmt.Errorf("%s: %w", e.name, err)
		}
	}
	fmt.Printf("\nALL PROVED in %.0f s: the limit held and a killed holder was replaced, no read was torn,\n"+
		"recursion had one owner, and a late write was refused.\n", time.Since(begun).Seconds())
	return 0, nil
}
