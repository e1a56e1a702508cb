package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/zklocks/zklocks"
)

const defaultServer = "127.0.0.1:2181"

// servers are the flags that name the ensemble.
type servers struct {
	addrs   string
	timeout time.Duration
}

func (s *servers) define(flags *flag.FlagSet, timeout time.Duration) {
	flags.StringVar(&s.addrs, "servers", "", "`list`: ZooKeeper servers, host:port,host:port; default: ZK_SERVERS,\nthen "+defaultServer)
	durationVar(flags, &s.timeout, "timeout", timeout,
		"`duration`: session timeout: how long a lock outlives a machine that\nhas died, and how long to look for a server; default: "+timeout.String())
}

func (s *servers) list() []string {
	for _, text := range []string{s.addrs, os.Getenv("ZK_SERVERS"), defaultServer} {
		if list := strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' }); len(list) > 0 {
			return list
		}
	}
	return nil
}

// connect tries the servers for as long as a session would live.
func (s *servers) connect(ctx context.Context) (*zklocks.Conn, error) {
	if s.timeout <= 0 {
		return nil, usage("-timeout %v: it must be positive", s.timeout)
	}
	limited, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	conn, err := zklocks.Connect(limited, s.list(), s.timeout)
	switch {
	case err == nil:
		return conn, nil
	case ctx.Err() != nil && !errors.Is(ctx.Err(), context.DeadlineExceeded):
		return nil, context.Cause(ctx)
	case errors.Is(err, context.DeadlineExceeded):
		// The error names the addresses and the time.
		return nil, exit{exitNoServer, fmt.Errorf("no server: %s", unprefixed(err)), "set ZK_SERVERS or -servers, or start one with zklock dev"}
	default:
		return nil, usage("%s", unprefixed(err))
	}
}

// unprefixed returns an error of zklocks.Connect without the name of the package, which is nearly
// that of this program.
func unprefixed(err error) string { return strings.TrimPrefix(err.Error(), "zklocks: ") }

// checkPath refuses an invalid path before it connects to a server.
func checkPath(args []string) (path string, rest []string, err error) {
	switch {
	case len(args) == 0:
		return "", nil, usage("the path of the lock is missing")
	case !strings.HasPrefix(args[0], "/"):
		return "", nil, usage("%q is no path of a lock: it must begin with a slash", args[0])
	case strings.HasSuffix(args[0], "/"):
		return "", nil, usage("%q is no path of a lock: it must not end with a slash", args[0])
	}
	return args[0], args[1:], nil
}
