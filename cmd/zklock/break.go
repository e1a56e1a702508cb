package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks"
)

// breaking is what `break` prints before it deletes.
const breaking = `Deleting the nodes of these members stops no process. A holder detects the loss
only if it watches for it, and may continue while the next one holds. Only a
store that refuses older fencing tokens is safe then. Try zklock ask first.
`

func breakCommand() *command {
	c := newCommand("break", "/path", "take a lock from its holder, by deleting its node", `
  zklock break /jobs/nightly
  zklock break -token 4711 /jobs/nightly            one of several, or a waiter

Shows the holders of the lock, asks for a yes, and deletes their nodes, so that
the next waiter holds. It deletes no member but these, and reports as deleted
only the nodes that it deleted itself, not those that went meanwhile.

No process is stopped. zklock run kills its command at once, but another program
detects the loss only if it watches for it, and may continue while the next one
holds. Only a store that refuses older fencing tokens is safe then. Try zklock
ask first, and end a process that hangs: its lock goes with its session.
`)
	t := &target{}
	yes := c.flags.Bool("yes", false, "delete without asking: needed where standard input is no terminal")
	t.define(c)
	c.run = func(args []string) error {
		return t.act(c, args, func(ctx context.Context, conn *zklocks.Conn) error { return t.take(ctx, conn, *yes) })
	}
	return c
}

// take shows the members whose nodes it will delete, asks for a confirmation unless yes is set, and
// deletes the nodes.
func (t *target) take(ctx context.Context, conn *zklocks.Conn, yes bool) error {
	limited, cancel := context.WithTimeout(ctx, t.timeout)
	defer cancel()
	l, err := t.find(limited, conn)
	if err != nil {
		return err
	}
	if len(l.Members) == 0 {
		t.printf("%s: no holder\n", t.path)
		return nil
	}
	t.printf("%s%s", l.table(time.Now()), breaking)
	if !yes {
		if err := confirm(ctx); err != nil {
			return err
		}
	}
	limited, cancel = context.WithTimeout(ctx, t.timeout) // the person may have taken a while to answer
	defer cancel()
	return t.remove(limited, conn, l.Members)
}

// confirm asks the person at the terminal to type yes.
func confirm(ctx context.Context) error {
	if !isTerminal(os.Stdin) {
		return usage("standard input is no terminal: -yes deletes without asking")
	}
	fmt.Print("Type yes to delete: ")
	answer := make(chan string, 1)
	go func() {
		text, _ := bufio.NewReader(os.Stdin).ReadString('\n')
		answer <- strings.TrimSpace(text)
	}()
	select {
	case text := <-answer:
		if text == "yes" {
			return nil
		}
	case <-ctx.Done():
		fmt.Println()
	}
	return fail(exitFailed, "nothing was deleted")
}

func (t *target) remove(ctx context.Context, conn *zklocks.Conn, members []member) error {
	for _, m := range members {
		nodes, err := m.nodes(ctx, conn)
		deleted, perhaps := false, false
		for _, node := range nodes {
			_, err = retried(ctx, func() (any, error) {
				err := conn.Client().Delete(node, -1)
				perhaps = perhaps || lostOnTheWay(err)
				return nil, err
			})
			if err != nil && err != zk.ErrNoNode {
				break
			}
			deleted = deleted || err == nil
		}
		switch {
		case err != nil && err != zk.ErrNoNode:
			return t.late(fmt.Errorf("deleting %s: %w", m.Node, err))
		case deleted:
			t.printf("deleted: %s\n", m.about())
		case perhaps:
			t.printf("deleted, or gone meanwhile, as an answer was lost: %s\n", m.about())
		default:
			t.printf("gone meanwhile: %s\n", m.about())
		}
	}
	return nil
}

// nodes returns all nodes of a member: one for each permit. Their names differ only in the numbers.
func (m member) nodes(ctx context.Context, conn *zklocks.Conn) ([]string, error) {
	if m.Permits <= 1 {
		return []string{m.Node}, nil
	}
	dir, name := path.Split(m.Node)
	children, err := retried(ctx, func() ([]string, error) {
		children, _, err := conn.Client().Children(path.Clean(dir))
		return children, err
	})
	var nodes []string
	for _, child := range children {
		if strings.HasPrefix(child, strings.TrimRight(name, "0123456789")) {
			nodes = append(nodes, dir+child)
		}
	}
	return nodes, err
}
