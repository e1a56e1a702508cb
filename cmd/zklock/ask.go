package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks"
)

// target is the common part of `ask` and `break`: a lock, and the members of its queue to act on.
type target struct {
	observer
	token int64 // the member with this token; 0: all holders
}

// act parses the arguments, connects, and calls do.
func (t *target) act(c *command, args []string, do func(ctx context.Context, conn *zklocks.Conn) error) error {
	if err := t.read(args); err != nil {
		return err
	}
	if t.token < 1 && c.given("token") { // -token 0 must not mean all holders
		return usage("-token %d: a token is 1 or more", t.token)
	}
	return t.connected(do)
}

func (t *target) define(c *command) {
	c.flags.Int64Var(&t.token, "token", 0, "`n`: only the member with this token, a holder or a waiter;\ndefault: every holder")
	t.servers.define(c.flags, 10*time.Second)
}

// find returns the lock's queue, reduced to the members to act on.
func (t *target) find(ctx context.Context, conn *zklocks.Conn) (*line, error) {
	l, err := t.look(ctx, conn, t.path)
	if err != nil {
		return nil, err
	}
	meant := []member{}
	for _, m := range l.Members {
		if m.Token == t.token || t.token == 0 && m.Holding {
			meant = append(meant, m)
		}
	}
	if len(meant) == 0 && t.token != 0 {
		return nil, fail(exitFailed, "%s: no holder or waiter has the token %d", t.path, t.token)
	}
	l.Members = meant
	return l, nil
}

// about describes a member in a message.
func (m member) about() string {
	return fmt.Sprintf("%s, %s, token %d, session %s", m.state(), m.what(), m.Token, m.Session)
}

func askCommand() *command {
	c := newCommand("ask", "/path", "request a lock from its holder", `
  zklock ask /jobs/nightly
  zklock ask -token 4711 /jobs/nightly              one of several, or a waiter

Asks each holder of the lock to release it, and prints whom. zklock run ends its
command then, unless it has -ignore-ask. Other programs decide for themselves,
and must watch for requests: Hold.ReleaseRequested, Curator's makeRevocable.
zklock break takes a lock away. zklock ls shows who was asked.
`)
	t := &target{}
	t.define(c)
	c.run = func(args []string) error {
		return t.act(c, args, t.ask)
	}
	return c
}

func (t *target) ask(ctx context.Context, conn *zklocks.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, t.timeout)
	defer cancel()
	l, err := t.find(ctx, conn)
	if err != nil {
		return err
	}
	if len(l.Members) == 0 {
		t.printf("%s: no holder\n", t.path)
	}
	for _, m := range l.Members {
		switch err := conn.RequestRelease(ctx, zklocks.Member{Path: m.Node, Token: m.Token}); {
		case errors.Is(err, zk.ErrNoNode):
			t.printf("gone meanwhile: %s\n", m.about())
		case err != nil:
			return t.late(fmt.Errorf("asking %s: %w", m.Node, errors.Unwrap(err)))
		case m.Asked:
			t.printf("asked before: %s\n", m.about())
		default:
			t.printf("asked: %s, %s\n", m.about(), printable(m.Data))
		}
	}
	return nil
}
