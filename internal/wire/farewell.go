package wire

import (
	"encoding/binary"
	"io"
	"time"
)

// A farewell lets Close end at once when the user calls it while the client waits for a server that
// does not answer the handshake.
//
// The client's Close hands a last request to a goroutine that only runs when there is a connection,
// and waits a second for its answer. So the wire cuts the server off, gives the handshake the
// answer that the client hopes for (its old session, so that nothing changes), swallows what it
// writes, and answers the last request. Nothing of it gets to the network.
type farewell struct {
	out  []byte // not read yet
	last chan []byte
}

// newFarewell returns nil for a handshake that asks for a new session, as there is none to pretend.
// Nobody has the connection then but Connect, or its session has expired.
func newFarewell(session int64, timeout int32, password []byte) *farewell {
	if session == 0 {
		return nil
	}
	b := binary.BigEndian.AppendUint32(nil, uint32(minHandshake+len(password)))
	b = binary.BigEndian.AppendUint32(b, 0)
	b = binary.BigEndian.AppendUint32(b, uint32(timeout))
	b = binary.BigEndian.AppendUint64(b, uint64(session))
	b = binary.BigEndian.AppendUint32(b, uint32(len(password)))
	return &farewell{out: append(b, password...), last: make(chan []byte, 1)}
}

// write swallows a packet. It always says true.
func (f *farewell) write(p []byte) bool {
	if xid, op := request(p); op == opClose {
		reply := binary.BigEndian.AppendUint32(nil, replyHeader)
		reply = binary.BigEndian.AppendUint32(reply, uint32(xid))
		reply = append(reply, make([]byte, replyHeader-4)...)
		select {
		case f.last <- reply:
		default:
		}
	}
	return true
}

// read gives the handshake, then, when it has been asked for, the answer to the last request.
func (f *farewell) read(p []byte) (int, error) {
	if len(f.out) == 0 {
		timer := time.NewTimer(lastWords)
		defer timer.Stop()
		select {
		case f.out = <-f.last:
		case <-timer.C:
			return 0, io.EOF
		}
	}
	n := copy(p, f.out)
	f.out = f.out[n:]
	return n, nil
}

// pretends returns the farewell once it has begun.
func (w *wire) pretends() *farewell {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.phase != pretending {
		return nil
	}
	return w.farewell
}

// pretend begins it if the handshake failed because the user closed the client.
func (w *wire) pretend() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.phase != handshake || w.farewell == nil || w.client.quit.Err() == nil {
		return false
	}
	w.phase = pretending
	w.Conn.Close()
	return true
}

// abort is called when the user has closed the client. It ends a handshake that hangs; a running
// connection is left to the client's goodbye, for a while.
func (w *wire) abort() {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch w.phase {
	case fresh, handshake:
		w.Conn.SetReadDeadline(past) // not Close: the reader shall find the phase as it is
	case running:
		if w.giveUp.IsZero() {
			w.giveUp = time.Now().Add(lastWords)
			w.Conn.SetReadDeadline(w.giveUp)
		}
	}
}
