package wire

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
)

// The protocol has a request that sets data watches on any number of nodes, SetWatches, by which
// clients set their watches again after a reconnect. The client library uses it for that alone, and
// otherwise sends one request per node. A caller that waits for N permits watches N nodes, so the
// packetConn sends SetWatches itself, and keeps the answer from the client, which did not ask.
//
// If the node of a watch set in this way does not exist, the server sends its event ahead of the
// answer. The watch ends with the network connection, and then the waiter lists again.

const (
	// xidWatches is the xid that the Java client uses for SetWatches. go-zookeeper counts upwards
	// from 1.
	xidWatches = -8
	// mostWatches bounds the bytes of the paths in one request, because the server's limit may be
	// lowered, too.
	mostWatches = 128 << 10
)

// watches are those that were set on one packetConn.
type watches struct {
	mu    sync.Mutex
	of    map[string][]*watch
	marks map[string]string // from each watched mark to its node, which may have several
	sent  []*batch          // requests not answered yet, in order
}

// batch is one request.
type batch struct {
	watches []watch
	mark    string // of the first watch; "" for none
	stale   bool   // the mark was created before the answer came
	answer  chan error
	// From answered on nothing of the batch changes.
	answered bool
}

// watch is one watch on a node.
type watch struct {
	batch  *batch
	path   string
	mark   string // the mark that also fires it, or ""
	events chan zk.Event
	absent bool // the node did not exist when the server was asked
}

func newBatch(paths []string, mark string) *batch {
	b := &batch{watches: make([]watch, len(paths)), mark: mark, answer: make(chan error, 1)}
	for i, path := range paths {
		b.watches[i] = watch{batch: b, path: path, mark: mark, events: make(chan zk.Event, 1)}
		mark = ""
	}
	return b
}

// fire sends an event, once. The server sends the event of a node that does not exist ahead of the
// answer.
func (w *watch) fire(e zk.Event) {
	if e.Type == zk.EventNodeDeleted && !w.batch.answered {
		w.absent = true
	}
	w.events <- e
	close(w.events)
}

// WatchAll sets a data watch on each node and waits for the server's answer. It sends one request
// for each 128 KiB of paths. Each channel yields one event and is closed then. If the connection
// ends, the event is zk.EventNotWatching, because these watches end with the connection. The
// channel of a node that does not exist is nil. The error comes from the connection or the server.
//
// The first node may have a release marker, if mark is not "". The marker is another node, which
// the transaction that deletes the first node creates and deletes. The event is then
// zk.EventNodeCreated, with the path of the marker.
func (c *Conn) WatchAll(paths []string, mark string) ([]<-chan zk.Event, error) {
	w, err := c.pastAuthConn()
	if err != nil {
		return nil, err
	}
	if c.noRemoveWatches.Load() {
		mark = ""
	}
	events := make([]<-chan zk.Event, 0, len(paths))
	var set []*batch
	for begin, end := 0, 0; begin < len(paths); begin = end {
		for size := 0; end < len(paths) && (end == begin || size+len(paths[end]) <= mostWatches); end++ {
			size += len(paths[end])
		}
		b := newBatch(paths[begin:end], mark)
		mark = ""
		add := func() bool { w.watches.add(b); return true }
		if !w.send(packet{xid: xidWatches, op: opSetWatches}, b.request(), add) {
			b.answer <- zk.ErrConnectionClosed
		}
		if err := <-b.answer; err != nil {
			w.watches.drop(set)
			return nil, err
		}
		set = append(set, b)
		for _, watch := range b.watches {
			if watch.absent {
				watch.events = nil
			}
			events = append(events, watch.events)
		}
	}
	return events, nil
}

// pastAuthConn returns the current packetConn once the client has sent a request other than
// credentials on it. Before that the client may still be about to send the credentials, which must
// be first: some servers refuse all other requests without them.
func (c *Conn) pastAuthConn() (*packetConn, error) {
	for range 2 {
		c.mu.Lock()
		w := c.current
		c.mu.Unlock()
		if w == nil {
			return nil, zk.ErrConnectionClosed
		}
		w.mu.Lock()
		pastAuth := w.pastAuth
		w.mu.Unlock()
		if pastAuth {
			return w, nil
		}
		if err := c.ping(); err != nil {
			return nil, err
		}
	}
	return nil, zk.ErrConnectionClosed // reconnected meanwhile
}

// send sends a request of the packetConn's own between those of the client, if there is a session
// to send it in and ready, which is called right before, returns true.
func (w *packetConn) send(as packet, p []byte, ready func() bool) bool {
	w.sending.Lock()
	defer w.sending.Unlock()
	w.mu.Lock()
	sends := w.phase == running && w.giveUp.IsZero() && ready()
	if sends {
		as.at = time.Now()
		w.pending.push(as)
	}
	w.mu.Unlock()
	if sends {
		if _, err := w.Conn.Write(p); err != nil {
			w.fail(err)
		}
	}
	return sends
}

// request returns the packet. The zxid in it is that from which on the client wants changes: of
// none, as the watches are new.
func (b *batch) request() []byte {
	p := make([]byte, lengthSize)
	p = binary.BigEndian.AppendUint32(p, xidWatches&math.MaxUint32)
	p = binary.BigEndian.AppendUint32(p, opSetWatches)
	p = binary.BigEndian.AppendUint64(p, math.MaxInt64)
	p = binary.BigEndian.AppendUint32(p, uint32(len(b.watches)))
	for _, w := range b.watches {
		p = appendString(p, w.path)
	}
	if b.mark != "" { // among the nodes to be created
		p = appendString(binary.BigEndian.AppendUint32(p, 1), b.mark)
	} else {
		p = binary.BigEndian.AppendUint32(p, 0)
	}
	p = binary.BigEndian.AppendUint32(p, 0) // no child watches
	binary.BigEndian.PutUint32(p, uint32(len(p)-lengthSize))
	return p
}

// appendString appends a string in the protocol's encoding.
func appendString(p []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint32(p, uint32(len(s))), s...)
}

// add records a batch before it is sent, because the events of missing nodes come before the
// answer.
func (s *watches) add(b *batch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of == nil {
		s.of, s.marks = make(map[string][]*watch), make(map[string]string)
	}
	for i := range b.watches {
		w := &b.watches[i]
		s.of[w.path] = append(s.of[w.path], w)
	}
	if b.mark != "" {
		s.marks[b.mark] = b.watches[0].path
	}
	s.sent = append(s.sent, b)
}

// answered handles the answer to the oldest batch. stale is a mark whose watch must be removed, or
// "".
func (s *watches) answered(code int32) (stale string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.sent) == 0 {
		return ""
	}
	b := s.sent[0]
	s.sent = s.sent[1:]
	if code != 0 {
		s.forget(b)
	}
	b.answered = true
	b.answer <- codeError(code)
	if b.stale {
		return b.mark
	}
	return ""
}

// drop removes the watches of batches that no caller waits for.
func (s *watches) drop(batches []*batch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range batches {
		s.forget(b)
	}
}

// forget removes the watches of a batch that have not fired; caller holds mu.
func (s *watches) forget(b *batch) {
	for _, of := range b.watches {
		s.take(of.path, func(w *watch) bool { return w.batch == b })
	}
}

// take removes and returns the watches on a node that match, and the marks that no remaining watch
// needs; caller holds mu.
func (s *watches) take(path string, which func(*watch) bool) (taken []*watch, unmarked []string) {
	var left []*watch
	for _, w := range s.of[path] {
		if which(w) {
			taken = append(taken, w)
		} else {
			left = append(left, w)
		}
	}
	if len(left) > 0 {
		s.of[path] = left
	} else {
		delete(s.of, path)
	}
	for _, w := range taken {
		waits := slices.ContainsFunc(left, func(l *watch) bool { return l.mark == w.mark })
		if _, waited := s.marks[w.mark]; waited && !waits {
			delete(s.marks, w.mark)
			unmarked = append(unmarked, w.mark)
		}
	}
	return taken, unmarked
}

// fire sends an event to the watches of a node. The creation of a mark goes only to the watches
// with that mark: the others fire by the deletion, which comes next. unmarked are the marks whose
// watches are no longer needed.
func (s *watches) fire(path string, e zk.Event) (unmarked []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e.Path = path
	var told []*watch
	if e.Type == zk.EventNodeCreated {
		for _, b := range s.sent { // the server may set the watch only after this creation
			b.stale = b.stale || b.mark == path
		}
		told, _ = s.take(s.marks[path], func(w *watch) bool { return w.mark == path })
	} else {
		told, unmarked = s.take(path, func(*watch) bool { return true })
	}
	for _, w := range told {
		w.fire(e)
	}
	return unmarked
}

// end ends all watches when their connection ends. None can be added later: the packetConn is in
// phase broken.
func (s *watches) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for path, all := range s.of {
		for _, w := range all {
			w.fire(zk.Event{Type: zk.EventNotWatching, State: zk.StateDisconnected, Path: path, Err: zk.ErrConnectionClosed})
		}
	}
	s.of, s.marks = nil, nil
	for _, b := range s.sent {
		b.answer <- zk.ErrConnectionClosed
	}
	s.sent = nil
}

// codeError returns the client's error for a code.
func codeError(code int32) error {
	switch code {
	case 0:
		return nil
	case -112:
		return zk.ErrSessionExpired
	case -118:
		return zk.ErrSessionMoved
	}
	return fmt.Errorf("unknown error: %d", code)
}
