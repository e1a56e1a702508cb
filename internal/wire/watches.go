package wire

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"
)

// The packetConn keeps the watches of the locks, which end with it. All waiters of the process for
// a node share one. A watch that no waiter needs any more stays until it fires, because it takes a
// request to remove it from the server, and serves the next waiter. Drop removes a watch that may
// never fire.
//
// The packetConn sets watches in two ways. The zk client's own registry contains neither:
//   - WatchNodes sends SetWatches, a request for any number of nodes, by which clients set their
//     watches again after a reconnect. The server sends the event of a node that does not exist
//     ahead of the answer. The client does not see the answer.
//   - WatchData and WatchChildren have the client read the node. The packetConn sets the flag in
//     that request that asks the server for a watch.

const (
	// xidWatches is the xid that the Java client uses for SetWatches. go-zookeeper counts upwards
	// from 1.
	xidWatches = -8
	// mostWatches bounds the bytes of the paths in one request, because the server's limit may be
	// lowered, too.
	mostWatches = 128 << 10
)

// watchKind is how a watch was set.
type watchKind int

const (
	onNode watchKind = iota // set by WatchNodes
	onData
	onChildren
)

// firedBy reports whether an event for its path is one of a watch of this kind. The event of a
// release marker has the path of the marker.
func (k watchKind) firedBy(e zk.EventType) bool {
	switch e {
	case zk.EventNodeDeleted:
		return true
	case zk.EventNodeDataChanged:
		return k != onChildren
	}
	return k == onChildren
}

// readBy reports whether a request that reads the node sets such a watch.
func (k watchKind) readBy(op int32) bool {
	switch op {
	case opGetData:
		return k == onData
	case opGetChildren2, opExists:
		return k == onChildren
	}
	return false
}

// setting is a request that sets watches.
type setting struct {
	over bool // answered, or the connection has ended; conn.mu guards it
	err  error
	done chan struct{} // closed when it is over
}

func newSetting() *setting { return &setting{done: make(chan struct{})} }

// awaitSet returns the watch when it is set, or the error of the request, or zk.ErrNoNode.
func (w *Watch) awaitSet() (*Watch, error) {
	switch <-w.set.done; {
	case w.set.err != nil:
		return nil, w.set.err
	case w.absent:
		return nil, zk.ErrNoNode
	}
	return w, nil
}

// end ends the request; caller holds conn.mu.
func (s *setting) end(err error) {
	s.over, s.err = true, err
	close(s.done)
}

// watches are the watches on one packetConn that have not fired; its mu guards them.
type watches struct {
	of    map[string][]*Watch // by path: of several kinds, and with several markers
	marks map[string]*Watch   // by release marker
	sent  [][]*Watch          // of each SetWatches that is not answered yet, in order
}

// find returns a watch of one of these kinds on a node, or nil.
func (s *watches) find(path, mark string, kinds ...watchKind) *Watch {
	for _, w := range s.of[path] {
		if w.mark == mark && slices.Contains(kinds, w.kind) {
			return w
		}
	}
	return nil
}

func (s *watches) add(w *Watch) {
	if s.of == nil {
		s.of, s.marks = make(map[string][]*Watch), make(map[string]*Watch)
	}
	s.of[w.Path] = append(s.of[w.Path], w)
	if w.mark != "" {
		s.marks[w.mark] = w
	}
}

func (s *watches) remove(w *Watch) {
	if left := slices.DeleteFunc(s.of[w.Path], func(o *Watch) bool { return o == w }); len(left) > 0 {
		s.of[w.Path] = left
	} else {
		delete(s.of, w.Path)
	}
	if s.marks[w.mark] == w {
		delete(s.marks, w.mark)
	}
}

// flag returns what to send for a request of the client: with the flag that sets a watch, if it
// reads a node for one of the watches that are being set.
func (s *watches) flag(op int32, p []byte) []byte {
	const path = lengthSize + 4 + 4 + lengthSize // behind xid and operation
	if len(p) <= path {
		return p
	}
	for _, w := range s.of[string(p[path:len(p)-1])] {
		if w.kind.readBy(op) && !w.set.over {
			p = bytes.Clone(p) // the client's
			p[len(p)-1] = 1
			break
		}
	}
	return p
}

// WatchNodes watches nodes for their deletion and for changes of their data, and waits for the
// server's answer. It sends one request for each 128 KiB of paths. The watch of a node that does
// not exist is nil. The error comes from the connection or the server.
//
// The server does not check READ permission for the nodes, but withholds events while the client
// may not read a node.
//
// The first node may have a release marker, if mark is not "". The marker is another node, which
// the transaction that deletes the first node creates and deletes. The event is then
// zk.EventNodeCreated, with the path of the marker.
func (c *Conn) WatchNodes(paths []string, mark string) ([]*Watch, error) {
	p, err := c.pastAuthConn()
	if err != nil {
		return nil, err
	}
	if c.noRemoveWatches.Load() {
		mark = ""
	}
	all, batches := p.share(paths, mark)
	if all == nil {
		return nil, zk.ErrConnectionClosed
	}
	for _, batch := range batches {
		sent := func() bool { p.watches.sent = append(p.watches.sent, batch); return true }
		if !p.send(packet{xid: xidWatches, op: opSetWatches}, setWatches(batch), sent) {
			p.mu.Lock()
			batch[0].set.end(zk.ErrConnectionClosed)
			p.mu.Unlock()
		}
	}
	for i, w := range all {
		if all[i], err = w.awaitSet(); err != nil && err != zk.ErrNoNode {
			return nil, err
		}
	}
	return all, nil
}

// share returns the watches on some nodes, or nil if the session has ended. The caller must set the
// new watches: batches has them, for one request each.
func (w *packetConn) share(paths []string, mark string) (all []*Watch, batches [][]*Watch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.phase != running {
		return nil, nil
	}
	all = make([]*Watch, len(paths))
	var set *setting
	size := mostWatches
	for i, path := range paths {
		if all[i] = w.watches.find(path, mark, onNode); all[i] == nil {
			if size += len(path); size > mostWatches {
				size, set, batches = len(path), newSetting(), append(batches, nil)
			}
			all[i] = &Watch{Path: path, conn: w, kind: onNode, mark: mark, set: set}
			w.watches.add(all[i])
			batches[len(batches)-1] = append(batches[len(batches)-1], all[i])
		}
		mark = ""
	}
	return all, batches
}

// WatchData reads a node and watches it as WatchNodes does.
//
// It does not watch for the creation of a node that does not exist: that watch would stay forever,
// because sequence numbers do not repeat.
func (c *Conn) WatchData(path string) (*Watch, error) {
	return c.watchReading(path, c.readData, onData)
}

// WatchNode is WatchData for callers that need no data: a watch of WatchNodes does as well.
func (c *Conn) WatchNode(path string) (*Watch, error) {
	return c.watchReading(path, c.readData, onData, onNode)
}

func (c *Conn) readData(w *Watch) (err error) {
	w.Data, w.Stat, err = c.Get(w.Path)
	return err
}

// WatchChildren watches a directory: the watch fires when a child is created or deleted, and when
// the directory is. On a directory that does not exist the watch stays until it is created. That is
// one watch for each directory, because directories keep their names.
func (c *Conn) WatchChildren(dir string) (*Watch, error) {
	return c.watchReading(dir, c.readChildren, onChildren)
}

func (c *Conn) readChildren(w *Watch) error {
	for {
		_, stat, err := c.Children(w.Path)
		if err != zk.ErrNoNode {
			w.Stat = stat
			return err
		}
		if exists, _, err := c.Exists(w.Path); err != nil || !exists {
			return err
		}
		// The directory was created between the two requests.
	}
}

// watchReading returns a watch of one of these kinds on a node. If there is none, read sets one of
// the first kind. The watch is recorded before that, because its event may come right behind the
// answer. An event of an earlier watch on the node also fires it.
func (c *Conn) watchReading(path string, read func(*Watch) error, kinds ...watchKind) (*Watch, error) {
	c.mu.Lock()
	p := c.current
	c.mu.Unlock()
	if p == nil {
		return nil, zk.ErrConnectionClosed
	}
	p.mu.Lock()
	if p.phase != running {
		p.mu.Unlock()
		return nil, zk.ErrConnectionClosed
	}
	if w := p.watches.find(path, "", kinds...); w != nil {
		p.mu.Unlock()
		return w.awaitSet()
	}
	w := &Watch{Path: path, conn: p, kind: kinds[0], set: newSetting()}
	p.watches.add(w)
	p.mu.Unlock()

	err := read(w)
	p.mu.Lock()
	if p.phase != running { // the answer may have come on the next connection
		err = zk.ErrConnectionClosed
	}
	if err != nil {
		p.watches.remove(w)
	}
	w.set.end(err)
	p.mu.Unlock()
	return w.awaitSet()
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

// setWatches returns the request that sets a batch. The zxid in it says from which on the client
// wants changes: none, because the watches are new.
func setWatches(batch []*Watch) []byte {
	p := make([]byte, lengthSize)
	p = binary.BigEndian.AppendUint32(p, xidWatches&math.MaxUint32)
	p = binary.BigEndian.AppendUint32(p, opSetWatches)
	p = binary.BigEndian.AppendUint64(p, math.MaxInt64)
	p = binary.BigEndian.AppendUint32(p, uint32(len(batch)))
	for _, w := range batch {
		p = appendString(p, w.Path)
	}
	if mark := batch[0].mark; mark != "" { // among the nodes to be created
		p = appendString(binary.BigEndian.AppendUint32(p, 1), mark)
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

// watchesSet handles the answer to the oldest SetWatches.
func (w *packetConn) watchesSet(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.watches.sent) == 0 {
		return
	}
	batch := w.watches.sent[0]
	w.watches.sent = w.watches.sent[1:]
	if err != nil {
		for _, watch := range batch {
			w.watches.remove(watch)
		}
	}
	batch[0].set.end(err)
	if _, fired := batch[0].Fired(); fired && batch[0].mark != "" {
		// The server may have set the watch on the marker only after this event, which then came
		// from an earlier watch.
		go w.unwatch(batch[0].mark, dataWatches)
	}
}

// fireWatches fires the watches that an event is for. The creation of a marker fires only the watch
// with that marker: the others fire by the deletion, which comes next.
func (w *packetConn) fireWatches(kind zk.EventType, path string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e := &zk.Event{Type: kind, State: zk.StateConnected, Path: path}
	if marked := w.watches.marks[path]; marked != nil && kind == zk.EventNodeCreated {
		w.watches.remove(marked)
		marked.fire(e)
	}
	for _, watch := range slices.Clone(w.watches.of[path]) {
		if !watch.kind.firedBy(kind) {
			continue
		}
		w.watches.remove(watch)
		if kind == zk.EventNodeDeleted && watch.kind == onNode && !watch.set.over {
			watch.absent = true
		}
		watch.fire(e)
		if watch.mark != "" && watch.set.over { // or watchesSet does
			go w.unwatch(watch.mark, dataWatches) // a goroutine that reads must not wait for room to write
		}
	}
}

// endWatches ends all watches when their connection ends. None can be added later: the packetConn
// is in phase broken.
func (w *packetConn) endWatches() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for path, all := range w.watches.of {
		e := &zk.Event{Type: zk.EventNotWatching, State: zk.StateDisconnected, Path: path, Err: zk.ErrConnectionClosed}
		for _, watch := range all {
			watch.fire(e)
		}
	}
	for _, batch := range w.watches.sent {
		batch[0].set.end(zk.ErrConnectionClosed)
	}
	w.watches = watches{}
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
