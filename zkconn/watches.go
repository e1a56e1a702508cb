package zkconn

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
)

// The protocol has a request that sets data watches on any number of nodes, SetWatches, by which clients set theirs again
// after a reconnect. The client library uses it for that alone, and has one request for each node otherwise. Who waits for N
// permits has N nodes to watch, so the wire sends it on its own, and keeps the answer from the client, which never asked.
//
// A watch that was set in this way says at once, by its event, that its node is not there. It ends with the network
// connection, and whoever waits looks again.

const (
	// xidWatches is what the Java client uses for it. Ours counts upwards from 1.
	xidWatches = -8
	// mostWatches bounds the bytes of the paths in one request, as the server's limit may be lowered, too.
	mostWatches = 128 << 10
)

// watches are those that were set by one wire.
type watches struct {
	mu   sync.Mutex
	of   map[string][]chan zk.Event
	sent []*batch // and not answered yet, in order
}

// batch is one request.
type batch struct {
	paths  []string
	events []chan zk.Event
	answer chan error
}

// watchAll sets a data watch on each node and waits for the answer. Each channel yields one event and is closed then:
// zk.EventNotWatching if the connection ended first.
func (c *client) watchAll(paths []string) ([]<-chan zk.Event, error) {
	w, err := c.speaking()
	if err != nil {
		return nil, err
	}
	events := make([]<-chan zk.Event, 0, len(paths))
	var set []*batch
	for begin, end := 0, 0; begin < len(paths); begin = end {
		for size := 0; end < len(paths) && (end == begin || size+len(paths[end]) <= mostWatches); end++ {
			size += len(paths[end])
		}
		b := newBatch(paths[begin:end])
		w.ask(b)
		if err := <-b.answer; err != nil {
			w.watches.drop(set)
			return nil, err
		}
		set = append(set, b)
		for _, ch := range b.events {
			events = append(events, ch)
		}
	}
	return events, nil
}

// speaking returns the wire once the client has sent something on it. Before that it may still be about to send the
// credentials, which have to be first: there are servers that talk to nobody without.
func (c *client) speaking() (*wire, error) {
	for range 2 {
		c.mu.Lock()
		w, conn := c.current, c.conn
		c.mu.Unlock()
		if w == nil || conn == nil {
			return nil, zk.ErrConnectionClosed
		}
		w.mu.Lock()
		spoken := w.spoken
		w.mu.Unlock()
		if spoken {
			return w, nil
		}
		if _, _, err := conn.Exists("/"); err != nil {
			return nil, err
		}
	}
	return nil, zk.ErrConnectionClosed // made anew meanwhile
}

func newBatch(paths []string) *batch {
	b := &batch{paths: paths, events: make([]chan zk.Event, len(paths)), answer: make(chan error, 1)}
	for i := range b.events {
		b.events[i] = make(chan zk.Event, 1)
	}
	return b
}

// ask sends the request of a batch, beside what the client sends.
func (w *wire) ask(b *batch) {
	w.sending.Lock()
	defer w.sending.Unlock()
	w.mu.Lock()
	// On one that brought no session the client reads no more.
	running := w.phase == running && w.granted && w.giveUp.IsZero()
	if running {
		w.watches.add(b)
		w.pending.push(packet{xid: xidWatches, op: opSetWatches, at: time.Now()})
	}
	w.mu.Unlock()
	if !running {
		b.answer <- zk.ErrConnectionClosed
	} else if _, err := w.Conn.Write(b.request()); err != nil {
		w.fail(err)
	}
}

// request is the packet. The zxid in it is that from which on the client wants to be told of changes: of none, the watches
// are new.
func (b *batch) request() []byte {
	size := 8 + 8 + 3*4
	for _, path := range b.paths {
		size += 4 + len(path)
	}
	p := make([]byte, 0, lengthSize+size)
	p = binary.BigEndian.AppendUint32(p, uint32(size))
	p = binary.BigEndian.AppendUint32(p, xidWatches&math.MaxUint32)
	p = binary.BigEndian.AppendUint32(p, opSetWatches)
	p = binary.BigEndian.AppendUint64(p, math.MaxInt64)
	p = binary.BigEndian.AppendUint32(p, uint32(len(b.paths)))
	for _, path := range b.paths {
		p = binary.BigEndian.AppendUint32(p, uint32(len(path)))
		p = append(p, path...)
	}
	return append(p, make([]byte, 2*4)...) // no watches for nodes to come, none of children
}

// add notes a batch before it is sent: the events of nodes that are gone come before the answer.
func (s *watches) add(b *batch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of == nil {
		s.of = make(map[string][]chan zk.Event)
	}
	for i, path := range b.paths {
		s.of[path] = append(s.of[path], b.events[i])
	}
	s.sent = append(s.sent, b)
}

// answered takes the answer to the oldest batch.
func (s *watches) answered(code int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.sent) == 0 {
		return
	}
	b := s.sent[0]
	s.sent = s.sent[1:]
	if code != 0 {
		s.forget(b)
	}
	b.answer <- codeError(code)
}

// drop forgets batches that nobody waits for.
func (s *watches) drop(batches []*batch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range batches {
		s.forget(b)
	}
}

// forget forgets the watches of a batch; caller holds mu.
func (s *watches) forget(b *batch) {
	for i, path := range b.paths {
		s.of[path] = slices.DeleteFunc(s.of[path], func(ch chan zk.Event) bool { return ch == b.events[i] })
		if len(s.of[path]) == 0 {
			delete(s.of, path)
		}
	}
}

// fire tells those who watch a node of an event.
func (s *watches) fire(path []byte, e zk.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, ch := range s.of[string(path)] {
		e.Path = string(path)
		ch <- e
		close(ch)
	}
	delete(s.of, string(path))
}

// end ends all watches with their connection. None is added any more: the wire is broken by now.
func (s *watches) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for path, all := range s.of {
		for _, ch := range all {
			ch <- zk.Event{Type: zk.EventNotWatching, State: zk.StateDisconnected, Path: path, Err: zk.ErrConnectionClosed}
			close(ch)
		}
	}
	s.of = nil
	for _, b := range s.sent {
		b.answer <- zk.ErrConnectionClosed
	}
	s.sent = nil
}

// codeError is the error for a code, in the words of the client.
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
