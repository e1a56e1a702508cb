package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/zklocks/zklocks/internal/memzk"
)

// sessionLimit is the longest session timeout that ZooKeeper grants by default. A short -tick does
// not lower it.
const sessionLimit = 40 * time.Second

// devServer holds the flags of `zklock dev`.
type devServer struct {
	host  string
	port  int
	tick  time.Duration
	users string // the file
}

func devCommand() *command {
	c := newCommand("dev", "", "serve an in-memory ZooKeeper, to try things out, until ^C", `
  zklock dev                                 on 127.0.0.1:2181, the default
  zklock dev -port 0                         on a free port, which it prints
  zklock dev -tick 100ms                     grants sessions of 200 ms, too
  zklock dev -sasl-file users                demands SASL of these users

Serves ZooKeeper's protocol from this process's memory, until ^C or SIGTERM. It
needs neither Java nor a disk. It is not for production: there is one process,
and its data are gone when it ends.
`)
	d := &devServer{}
	c.flags.StringVar(&d.host, "host", "127.0.0.1", "`address`: to listen on; default: 127.0.0.1, for this machine")
	c.flags.IntVar(&d.port, "port", 2181, "`number`: port to listen on; 0: any free one; default: 2181")
	durationVar(c.flags, &d.tick, "tick", 2*time.Second,
		"`duration`: of a tick; default: 2s. A session lasts for at least two,\nand ends up to one late")
	c.flags.StringVar(&d.users, "sasl-file", "", "`file`: user:password on each line; clients must authenticate as one\nof these users, by SASL DIGEST-MD5; default: none")
	c.run = func(args []string) error {
		switch {
		case len(args) > 0:
			return usage("%q is one argument too many", args[0])
		case d.host == "":
			return usage("-host is empty: 0.0.0.0 is all addresses of the machine")
		case d.port < 0 || d.port > 65535:
			return usage("-port %d: it must be from 0 to 65535", d.port)
		case d.tick < time.Millisecond:
			return usage("-tick %v: it must be 1ms or more", d.tick)
		case d.tick > memzk.LongestTick:
			return usage("-tick %v: it must be %v or less", d.tick, memzk.LongestTick.Truncate(time.Hour))
		}
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		return d.serve(ctx)
	}
	return c
}

func (d *devServer) serve(ctx context.Context) error {
	config := memzk.Config{Tick: d.tick, MaxSession: max(sessionLimit, 20*d.tick)}
	if d.users != "" {
		users, err := new(files).users("-sasl-file", d.users)
		if err != nil {
			return err
		}
		passwords := map[string]string{}
		for _, u := range users {
			passwords[u.name] = u.password
		}
		config.SASL = &memzk.SASL{Start: memzk.DigestMD5(passwords), Required: true}
	}
	l, err := net.Listen("tcp", net.JoinHostPort(d.host, strconv.Itoa(d.port)))
	if errors.Is(err, syscall.EADDRINUSE) {
		return fail(exitFailed, "port %d of %s is taken: end the program that uses it, or name another one with -port (0: any free one)", d.port, d.host)
	}
	if err != nil {
		return fail(exitFailed, "%w", err)
	}
	addr := l.Addr().(*net.TCPAddr)
	ensemble := memzk.Start(config)
	served := make(chan error, 1)
	go func() { served <- ensemble.Members()[0].Serve(l) }()

	use := *addr
	if use.IP.IsUnspecified() { // not an address to connect to
		use.IP = net.IPv4(127, 0, 0, 1)
	}
	fmt.Println("An in-memory ZooKeeper to try things out, not for production: it is one process, and its data is gone when it ends.")
	fmt.Printf("Use it: export ZK_SERVERS=%v, or zklock run -servers %v /jobs/nightly -- ./nightly.sh\n", &use, &use)

	select {
	case <-ctx.Done():
		ensemble.Stop()
		err = <-served
	case err = <-served:
		ensemble.Stop()
	}
	if err != nil {
		return fail(exitFailed, "%v: no more clients can come: %w", addr, err)
	}
	return nil
}
