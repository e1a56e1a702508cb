// Demo runs the examples, one after the other. If an example fails, demo stops with its exit
// status.
//
//	go run ./examples/demo                               on a ZooKeeper in this process's memory
//	go run ./examples/demo -servers zk1:2181,zk2:2181    on real servers
//
// ZK_SERVERS also names real servers; -servers overrides it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/zklocks/zklocks/internal/memzk"
)

const (
	module   = "github.com/zklocks/zklocks/examples/"
	patience = 8 * time.Second // time for an example to end after an interrupt
)

var examples = []struct{ name, title, flag string }{
	{"joblimit", "At most 3 of 8 processes work at once. One is killed; the next waiter takes over.",
		"-within=5s"}, // the server in memory grants short sessions; half of the time is for a busy machine
	{"inventory", "Many read what two rewrite, in several steps. No reader may see half a rewrite.", ""},
	{"treewalk", "A function locks, calls itself, and hands work to goroutines. No other caller gets in.", ""},
	{"transfer", "Money moves between accounts, two of five locks at once, in any order. One teller is killed.", ""},
	{"leader", "One of 3 processes leads. It is killed; the next candidate leads, and a watcher sees it.", "-within=5s"},
	{"fencing", "A holder is frozen and wakes up too late. Its write must not count.", ""},
}

func main() {
	servers := flag.String("servers", os.Getenv("ZK_SERVERS"),
		"ZooKeeper servers, `host:port,...`; default from ZK_SERVERS, then a server in memory")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "demo: unexpected %q\n", flag.Args())
		os.Exit(2)
	}
	ctx, cancel := context.WithCancel(context.Background())
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) // with "| head" the example ends, and then demo
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		<-signals
		cancel()
	}()
	status, err := demo(ctx, *servers)
	if ctx.Err() != nil {
		err, status = errors.New("interrupted, everything is stopped"), 130
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "\ndemo: %v\n", err)
	}
	os.Exit(status)
}

// demo returns the exit status.
func demo(ctx context.Context, servers string) (int, error) {
	begun := time.Now()
	dir, err := os.MkdirTemp("", "zklocks-demo-")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(dir)
	foreign := servers != ""
	if foreign {
		fmt.Println("The examples run on the ZooKeeper at " + servers)
	} else {
		fmt.Println("The examples run on a ZooKeeper in this process's memory")
		addr, stop, err := inMemory()
		if err != nil {
			return 1, err
		}
		defer stop()
		servers = addr
	}
	for i, e := range examples {
		fmt.Printf("\n%d/%d %s: %s\n", i+1, len(examples), e.name, e.title)
		build := exec.CommandContext(ctx, "go", "build", "-o", dir, module+e.name)
		build.Stderr = os.Stderr
		if err := build.Run(); err != nil {
			return 1, fmt.Errorf("go build: %w", err)
		}
		cmd := exec.CommandContext(ctx, filepath.Join(dir, e.name), "-servers", servers)
		if e.flag != "" && !foreign {
			cmd.Args = append(cmd.Args, e.flag)
		}
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr // the terminal itself, if there is one
		cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
		cmd.WaitDelay = patience
		if err := cmd.Run(); err != nil {
			return max(cmd.ProcessState.ExitCode(), 1), fmt.Errorf("%s: %w", e.name, err)
		}
	}
	fmt.Printf("\nALL PROVED in %.0f s: the limit held and a killed holder was replaced, no read was torn,\n"+
		"recursion had one owner, no money was lost, a killed leader was replaced, and a late write was refused.\n", time.Since(begun).Seconds())
	return 0, nil
}

// inMemory serves ZooKeeper's protocol on a free port of the loopback interface. The examples are
// separate processes, so they need a real port.
func inMemory() (addr string, stop func(), err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	// Short ticks: a killed worker's session ends at most one tick after its timeout.
	ensemble := memzk.Start(memzk.Config{Tick: 100 * time.Millisecond, MaxSession: time.Minute})
	served := make(chan error, 1)
	go func() { served <- ensemble.Members()[0].Serve(l) }()
	return l.Addr().String(), func() {
		ensemble.Stop()
		if err := <-served; err != nil {
			fmt.Fprintf(os.Stderr, "demo: the server in memory: %v\n", err)
		}
	}, nil
}
