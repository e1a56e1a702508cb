package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
	"golang.org/x/sys/unix"

	"github.com/zklocks/zklocks"
)

func watchCommand() *command {
	c := newCommand("watch", "/path", "the same, live, until ^C", `
  zklock watch /jobs/nightly
  zklock watch -json /jobs/nightly >> history       one JSON object a line

Shows the holders and waiters of a lock, again at each change, until ^C. It asks
the servers only when something has changed.
`)
	o := &observer{}
	o.define(c)
	c.run = func(args []string) error {
		if err := o.read(args); err != nil {
			return err
		}
		return o.connected(o.watch)
	}
	return c
}

// calm is how long changes are collected before the line is read again: a lock may change its
// holder a thousand times a second.
const calm = 100 * time.Millisecond

func (o *observer) watch(ctx context.Context, conn *zklocks.Conn) error {
	live := !o.json && o.out == nil && isTerminal(os.Stdout)
	changed := changes(ctx, conn.Client(), conn.Path(o.path))
	nodes := &memberNodes{conn: conn.Client(), changed: changed, watched: map[string]bool{}}
	var seen *line
	var last string
	for {
		l, err := o.look(ctx, conn, o.path)
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			seen = l
			l.Missing, l.below = false, false // a path may be created and deleted with its holders
		case conn.Client().State() == zk.StateHasSession && !unanswered(err):
			return err
		case !live || seen == nil:
			say("%v", err)
		}
		old := func() bool { return err != nil || conn.Client().State() != zk.StateHasSession }
		if seen != nil {
			last = o.print(seen, live, old(), last)
			nodes.watch(ctx, seen)
		}
		tick := time.NewTicker(time.Second)
		for waiting := true; waiting; {
			select {
			case <-changed:
				waiting = false
			case <-tick.C:
				waiting = err == nil     // without an answer the event of the change does not come again, so read again
				if live && seen != nil { // the ages grow
					o.print(seen, live, old(), "")
				}
			case <-ctx.Done():
				tick.Stop()
				return nil
			}
		}
		tick.Stop()
		select {
		case <-time.After(calm):
		case <-ctx.Done():
			return nil
		}
	}
}

// unanswered reports whether no server answered in time.
func unanswered(err error) bool {
	var e exit
	return errors.As(err, &e) && e.code == exitNoServer
}

// print prints the line. On a terminal it replaces the previous line, with a note if the line is
// old. Otherwise it appends the line, unless it equals the previous one.
func (o *observer) print(l *line, live, old bool, last string) string {
	same := fmt.Sprint(*l)
	switch {
	case live:
		o.printf("\x1b[H\x1b[2J%s", o.show(l))
		if old {
			o.printf("no server answers; this is from before\n")
		}
	case same == last:
	case o.json:
		o.printf("%s", o.show(l))
	default:
		o.printf("%s\n%s\n", time.Now().Format(time.DateTime), o.show(l))
	}
	return same
}

func isTerminal(f *os.File) bool {
	_, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	return err == nil
}

// changes yields after each change of what look reads, and at the start, until ctx is canceled. The
// watches are set before look is called, so no change is missed.
func changes(ctx context.Context, conn *zk.Conn, path string) chan struct{} {
	changed := make(chan struct{}, 1)
	children := func(dir string) (<-chan zk.Event, error) {
		for {
			_, _, events, err := conn.ChildrenW(dir)
			if err != zk.ErrNoNode {
				return events, err
			}
			exists, _, events, err := conn.ExistsW(dir)
			if err != nil || !exists {
				return events, err
			} // it was created meanwhile, and this watch does not cover its children
		}
	}
	number := func(dir string) (<-chan zk.Event, error) {
		_, _, events, err := conn.ExistsW(dir)
		return events, err
	}
	for _, w := range []struct {
		dir   string
		watch func(string) (<-chan zk.Event, error)
	}{
		{path, children}, {path, number}, {path + "/queue", children}, {path + "/lock", children},
	} {
		go func() {
			for ctx.Err() == nil {
				events, err := w.watch(w.dir)
				select {
				case changed <- struct{}{}:
				default:
				}
				if err != nil { // a right is missing, which look reports, or the connection was lost
					time.Sleep(time.Second)
					continue
				}
				select {
				case <-events:
				case <-ctx.Done():
				}
			}
		}()
	}
	return changed
}

// memberNodes are the nodes whose data are watched: a request to release is written into a node,
// and the watches that changes sets do not report that.
type memberNodes struct {
	conn    *zk.Conn
	changed chan<- struct{}

	mu      sync.Mutex
	watched map[string]bool
}

// watch watches the nodes of a line until a node is deleted or has other data than the line.
func (n *memberNodes) watch(ctx context.Context, l *line) {
	for _, m := range l.Members {
		n.mu.Lock()
		had := n.watched[m.Node]
		n.watched[m.Node] = true
		n.mu.Unlock()
		if !had {
			go n.await(ctx, m)
		}
	}
}

// shows reports whether the member shows the data of its node.
func (m member) shows(data string) bool {
	if m.Asked {
		rest, asked := strings.CutPrefix(data, "__REVOKE__")
		return asked && strings.TrimPrefix(rest, "\n") == m.Data
	}
	return data == m.Data
}

func (n *memberNodes) await(ctx context.Context, m member) {
	data, _, events, err := n.conn.GetW(m.Node)
	other := err == nil && !m.shows(string(data))
	if err == nil && !other {
		select {
		case event := <-events:
			other = event.Type == zk.EventNodeDataChanged
		case <-ctx.Done():
			return
		}
	}
	if err != nil && err != zk.ErrNoNode && err != zk.ErrNoAuth && err != zk.ErrClosing {
		time.Sleep(time.Second) // the read was not answered: do not list again without a pause
		other = true
	}
	n.mu.Lock()
	delete(n.watched, m.Node) // the next listing watches it again
	n.mu.Unlock()
	if other {
		select {
		case n.changed <- struct{}{}:
		default:
		}
	}
}
