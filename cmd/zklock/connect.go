package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/sessionfile"
	"github.com/zklocks/zklocks/internal/slot"
	"github.com/zklocks/zklocks/internal/wire"
	"github.com/zklocks/zklocks/internal/znode"
)

const defaultServer = "127.0.0.1:2181"

// servers are the flags that name the ensemble and describe how to connect.
type servers struct {
	addrs   string
	timeout time.Duration
	follow  bool // the configuration of the ensemble
	security
}

func (s *servers) define(flags *flag.FlagSet, timeout time.Duration) {
	flags.Func("servers", "`list`: host:port,host:port, then /path above all locks;\ndefault: ZK_SERVERS, then "+defaultServer, func(text string) error {
		if s.addrs = text; text == "" { // a variable may be unset: the default would be another ensemble
			return errors.New("it is empty")
		}
		return nil
	})
	durationVar(flags, &s.timeout, "session-timeout", timeout,
		"`duration`: how long a lock outlives a dead holder, and how\nlong to try to connect; default: 10s, for run 20s")
	flags.BoolVar(&s.follow, "servers-from-ensemble", false, "follow /zookeeper/config; not through NAT")
	s.security.define(flags)
}

// text returns the list of servers as given by the user.
func (s *servers) text() string { return cmp.Or(s.addrs, os.Getenv("ZK_SERVERS"), defaultServer) }

// ensemble returns the servers, and the path below which the locks are.
func (s *servers) ensemble() (list []string, chroot string, err error) {
	text := s.text()
	if strings.Contains(text, "@") { // the part in front may be a password
		return nil, "", errors.New("the list of servers has an @ in it: credentials belong into -auth-file")
	}
	return zklocks.ParseServers(text)
}

func (s *servers) list() []string { list, _, _ := s.ensemble(); return list }

// connect connects to the servers within one session timeout.
func (s *servers) connect(ctx context.Context, more ...zklocks.ConnectOption) (*zklocks.Conn, error) {
	if s.timeout <= 0 {
		return nil, usage("-session-timeout %v: it must be positive", s.timeout)
	}
	list, chroot, err := s.ensemble()
	if err != nil {
		from := "-servers"
		if s.addrs == "" {
			from = "ZK_SERVERS"
		}
		return nil, usage("%s: %s", from, unprefixed(err))
	}
	opts, err := s.options()
	if err != nil {
		return nil, err
	}
	if s.follow {
		opts = append(opts, zklocks.WithServersFromEnsemble())
	}
	limited, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	conn, err := zklocks.Connect(limited, list, s.timeout, append(append(opts, zklocks.WithChroot(chroot)), more...)...)
	switch {
	case err == nil:
		return conn, nil
	case ctx.Err() != nil && !errors.Is(ctx.Err(), context.DeadlineExceeded):
		return nil, context.Cause(ctx)
	case errors.Is(err, sessionfile.ErrInUse):
		return nil, err
	case errors.Is(err, context.DeadlineExceeded):
		// The error names the addresses, the time and the reason for which TLS failed.
		hint := "set ZK_SERVERS or -servers, or start one with zklock dev"
		if mechanism, _ := s.mechanism(); s.tls || mechanism != nil {
			hint = ""
		}
		return nil, exit{exitNoServer, fmt.Errorf("no server: %s", unprefixed(err)), hint}
	case errors.Is(err, zk.ErrAuthFailed):
		return nil, fail(exitFailed, "%s", unprefixed(err))
	default:
		return nil, usage("%s", unprefixed(err))
	}
}

// wireOptions returns the options that concern the connection alone.
func (s *servers) wireOptions() (list []wire.Option, err error) {
	opts, err := s.options()
	for _, opt := range opts {
		if o, ok := opt.(slot.Connect); ok {
			list = append(list, o.Wire)
		}
	}
	return list, err
}

// connected connects, and calls do. A signal cancels do's context.
func (s *servers) connected(do func(ctx context.Context, conn *zklocks.Conn) error) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	conn, err := s.connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	return do(ctx, conn)
}

// unprefixed returns the text of an error of package zklocks without the name of the package, which
// resembles the name of this program.
func unprefixed(err error) string { return strings.TrimPrefix(err.Error(), "zklocks: ") }

// checkPath parses the path of the lock, before zklock connects to a server.
func checkPath(args []string) (path string, rest []string, err error) {
	if len(args) == 0 {
		return "", nil, usage("the path of the lock is missing")
	}
	if err := znode.ValidatePath(args[0]); err != nil {
		why := strings.TrimPrefix(strings.TrimPrefix(err.Error(), "path "), fmt.Sprintf("%q ", args[0]))
		return "", nil, usage("invalid lock path %.100q: it %s", args[0], why)
	}
	return args[0], args[1:], nil
}
