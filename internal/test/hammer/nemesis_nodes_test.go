package hammer

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/test/history"
)

// byHand records what the nemesis took from holders: nodes that it deleted, sessions that it ended
// at the server. Then the next holder is granted the lock before the old one can learn of the loss,
// and no lock can prevent that. So these holds count as certain only up to the instant before the
// fault. Each is identified by its token, its node's exact name, or its session.
type byHand struct {
	tokens   map[lock]int64
	nodes    map[string]int64
	sessions map[int64]int64
}

func (b *byHand) clear() {
	b.tokens, b.nodes, b.sessions = make(map[lock]int64), make(map[string]int64), make(map[int64]int64)
}

// sessionEnds is called before a session is ended; the returned function is called afterwards.
func (n *nemesis) sessionEnds(id int64) func(really bool) {
	at := history.Now()
	return func(really bool) {
		n.mu.Lock()
		defer n.mu.Unlock()
		if _, known := n.byHand.sessions[id]; really && !known {
			n.byHand.sessions[id] = at
		}
	}
}

// nodesDeck is the same for all runs.
func nodesDeck() *deck {
	return &deck{often: []string{"delete first", "delete first", "delete any", "delete any", "delete directory"}}
}

// meddle deletes nodes of a lock.
func (h *hand) meddle(paths []string, card string) bool {
	var dir string
	var names []string
	var i int
	for range 100 { // of many locks most are free
		i = h.random.IntN(len(paths))
		dir = queueOf(paths, i)
		if names, _, _ = h.admin.Children(dir); len(names) > 0 || h.ctx.Err() != nil {
			break
		}
	}
	if len(names) == 0 {
		return false
	}
	bySequence(names)
	switch card {
	case "delete first":
		return h.delete(paths[i], dir, names[0])
	case "delete any":
		return h.delete(paths[i], dir, names[h.random.IntN(len(names))])
	}
	for _, name := range names {
		h.delete(paths[i], dir, name)
	}
	over := h.say(paths[i], "directory %s deleted by hand", dir)
	err := h.admin.Delete(dir, -1)
	over()
	return err == nil
}

// delete deletes one node and records its owner.
func (h *hand) delete(lockPath, dir, name string) bool {
	node := path.Join(dir, name)
	_, stat, err := h.admin.Exists(node)
	if err != nil || stat == nil || stat.Czxid == 0 {
		return false
	}
	at := history.Now()
	err = h.admin.Delete(node, -1)
	if errors.Is(err, zk.ErrNoNode) {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.byHand.tokens[lock{lockPath, stat.Czxid}] = at
	h.byHand.nodes[node] = at
	h.events = append(h.events, &event{at, at, lockPath, fmt.Sprintf("%s with czxid %d deleted by hand: %v", node, stat.Czxid, err)})
	return true
}

// bySequence sorts by sequence number; all names end in ten digits.
func bySequence(names []string) {
	end := func(name string) string { return name[max(0, len(name)-10):] }
	slices.SortFunc(names, func(a, b string) int {
		switch {
		case end(a) < end(b):
			return -1
		case end(a) > end(b):
			return 1
		}
		return 0
	})
}

// taken returns when the nemesis took a hold from its holder, if it did. node is that of a
// downgraded hold, "" for others.
func (b *byHand) taken(h history.Hold, node string) (at int64, taken bool) {
	note := func(t int64, ok bool) {
		if ok && (!taken || t < at) {
			at, taken = t, true
		}
	}
	t, ok := b.tokens[lock{h.Path, h.Token}]
	note(t, ok)
	t, ok = b.nodes[node]
	note(t, ok)
	t, ok = b.sessions[session(h.Who)]
	note(t, ok)
	return at, taken
}

// session returns the session in the name of an owner.
func session(who string) int64 {
	_, text, _ := strings.Cut(who, "@")
	id, _ := strconv.ParseInt(text, 16, 64)
	return id
}
