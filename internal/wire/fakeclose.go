package wire

import (
	"encoding/binary"
	"io"
	"time"
)

// A fakeClose lets Close end at once when the user calls it while the client waits for a server
// that does not answer the handshake.
//
// The client's Close passes a last request to a goroutine that only runs when there is a
// connection, and waits a second for its answer. So the packetConn closes the network connection,
// gives the client the handshake answer that it hopes for (its old session, so that nothing
// changes), discards what the client writes, and answers the last request. Nothing of it reaches
// the network.
type fakeClose struct {
	out  []byte // not read yet
	last chan []byte
}

// newFakeClose returns nil for a handshake that asks for a new session, as then there is no session
// to report. In that case either Connect has not returned the connection yet, or the session has
// expired.
func newFakeClose(session int64, timeout int32, password []byte) *fakeClose {
	if session == 0 {
		return nil
	}
	b := binary.BigEndian.AppendUint32(nil, uint32(minHandshake+len(password)))
	b = binary.BigEndian.AppendUint32(b, 0)
	b = binary.BigEndian.AppendUint32(b, uint32(timeout))
	b = binary.BigEndian.AppendUint64(b, uint64(session))
	b = binary.BigEndian.AppendUint32(b, uint32(len(password)))
	return &fakeClose{out: append(b, password...), last: make(chan []byte, 1)}
}

// write discards a packet, and prepares the answer if it is the last request.
func (f *fakeClose) write(p []byte) {
	if xid, op := request(p); op == opClose {
		select {
		case f.last <- okay(xid):
		default:
		}
	}
}

// okay is an answer without a body.
func okay(xid int32) []byte {
	reply := binary.BigEndian.AppendUint32(nil, replyHeader)
	reply = binary.BigEndian.AppendUint32(reply, uint32(xid))
	return append(reply, make([]byte, replyHeader-4)...)
}

// read returns the handshake answer, then, once the client has sent its last request, the answer to
// that.
func (f *fakeClose) read(p []byte) (int, error) {
	if len(f.out) == 0 {
		timer := time.NewTimer(closeTimeout)
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

// beginFakeClose begins the fakeClose if the handshake failed because the user closed the client.
func (w *packetConn) beginFakeClose() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.phase != handshake || w.fakeClose == nil || w.client.quit.Err() == nil {
		return false
	}
	w.phase = fakingClose
	w.Conn.Close()
	return true
}

// abort is called when the user has closed the client. It ends a handshake that hangs. A running
// connection keeps closeTimeout for the client's request to end the session.
func (w *packetConn) abort() {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch w.phase {
	case fresh, handshake:
		w.Conn.SetReadDeadline(past) // not Close: the reader must find the phase unchanged
	case running:
		if w.giveUp.IsZero() {
			w.giveUp = time.Now().Add(closeTimeout)
			w.Conn.SetReadDeadline(w.giveUp)
		}
	}
}
