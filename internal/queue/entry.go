package queue

import (
	"context"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/zkclient"
	"github.com/zklocks/zklocks/internal/znode"
)

// Entry is how a recipe enters the line.
type Entry struct {
	Kind  znode.Kind
	Nodes int
	// Announce has the transaction that makes the nodes touch the directory,
	// too. That costs no round trip and saves one, and tells those who watch
	// the directory's data that somebody has come.
	Announce bool
	// Silently: nobody watches. It is done without when the right to touch it is
	// missing, and when the line is so long that it would save nothing.
	Silently bool
	// Alone: when it is the member's turn nobody at all is ahead of it.
	Alone bool
	// Company is told whether others may come along; nil: nobody asks.
	Company *Company
	// Terms says under which terms the member stands in line.
	Terms func(ctx context.Context, sess int64) (Terms, error)
}

// Terms are a rule and what it rests on.
type Terms struct {
	Rule Rule
	// Check must hold when the nodes are made; nil: nothing to check.
	Check *zk.CheckVersionRequest
	// Watch fires when the terms change; nil: they never do.
	Watch *zkclient.Watch
	// Line is the czxid of the directory for which the terms hold: one that
	// was reaped and made anew is another line; 0: any.
	Line int64
	// Drop has the terms read anew the next time; nil: nothing to read.
	Drop func()
}

// Fixed returns terms that never change.
func Fixed(rule Rule) func(context.Context, int64) (Terms, error) {
	return func(context.Context, int64) (Terms, error) { return Terms{Rule: rule}, nil }
}

func (t Terms) drop() {
	if t.Drop != nil {
		t.Drop()
	}
}

// changed reports whether the terms are known not to hold any more.
func (t Terms) changed() bool {
	if t.Watch == nil {
		return false
	}
	_, fired := t.Watch.Fired()
	return fired
}

// watchC is nil, and so never ready, for terms that never change.
func (t Terms) watchC() <-chan zk.Event {
	if t.Watch == nil {
		return nil
	}
	return t.Watch.C()
}
