package zkclient

import (
	"time"

	"github.com/go-zookeeper/zk"
)

// A stray is work on nodes that no caller owns: a deletion, or a search for nodes to delete. It is
// done again on each new connection of the session.
type stray struct {
	epoch uint64 // when it was last done
	path  string // of the node that the server refuses to delete; "": it is a search
	again func() // does it, if the session lives, and keeps another stray if that was not the last time
}

// Undeleted returns the paths of the nodes that the server refuses to delete.
func (c *Client) Undeleted() (paths []string) {
	c.strays.Range(func(key, _ any) bool {
		if s := key.(*stray); s.path != "" {
			paths = append(paths, s.path)
		}
		return true
	})
	return paths
}

func (c *Client) keepStray(s *stray) {
	c.strays.Store(s, nil)
	c.findStrays() // the connection may have changed since it was last done
}

func (c *Client) findStrays() {
	c.strays.Range(func(key, _ any) bool {
		if s := key.(*stray); s.epoch != c.Epoch() {
			c.redo(s)
		}
		return true
	})
}

// redo does a stray again, unless that has begun.
func (c *Client) redo(s *stray) {
	if _, kept := c.strays.LoadAndDelete(s); kept {
		go s.again()
	}
}

// The pauses after refusals. A node that remains may block all other callers, and each try takes a
// request.
const (
	firstWait   = 5 * time.Second
	longestWait = time.Minute
)

// ifRefused keeps work for which the server has refused a request, perhaps for lack of a right: it
// is also done again after a pause. again receives the pause after the next refusal. path is for
// stray.path.
func (c *Client) ifRefused(session int64, op, path string, err error, pause time.Duration, again func(pause time.Duration)) {
	if outcomeOf(err) != refused || err == zk.ErrNoNode {
		return
	}
	s := &stray{epoch: c.Epoch(), path: path, again: func() {
		if c.retried != nil && c.In(session) {
			c.retried(op, err)
		}
		again(min(2*pause, longestWait))
	}}
	c.keepStray(s)
	time.AfterFunc(pause, func() { c.redo(s) })
}
