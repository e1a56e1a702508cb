package differ

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/zklocks/zklocks/internal/jute"
)

// patience is how long a reply may take on a machine that is very busy. A server that never answers
// differs from one that does.
const patience = 30 * time.Second

var errSilent = errors.New("no answer")

// wire is one TCP connection after its handshake, as ZooKeeper's packets.
type wire struct {
	conn net.Conn
	in   *bufio.Reader
	xid  int32
}

func newWire(conn net.Conn) *wire { return &wire{conn: conn, in: bufio.NewReader(conn)} }

func (w *wire) send(packet []byte) error {
	if err := w.conn.SetWriteDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	_, err := w.conn.Write(packet)
	return err
}

// receive returns the next packet, io.EOF when the server has closed the connection in whatever
// way, errSilent when nothing comes.
func (w *wire) receive(within time.Duration) ([]byte, error) {
	if err := w.conn.SetReadDeadline(time.Now().Add(within)); err != nil {
		return nil, err
	}
	// Only looked at: a deadline that strikes between two bytes must not tear the packet.
	size, err := w.in.Peek(4)
	if err != nil {
		return nil, ended(err)
	}
	n := binary.BigEndian.Uint32(size)
	if n > 64<<20 {
		return nil, fmt.Errorf("the server announces a packet of %d bytes", n)
	}
	_, _ = w.in.Discard(4)
	if err := w.conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return nil, err
	}
	packet := make([]byte, n)
	if _, err := io.ReadFull(w.in, packet); err != nil {
		return nil, ended(err)
	}
	return packet, nil
}

// close ends the connection on this side and returns when the other side has done the same. What
// comes in between is lost.
func (w *wire) close() {
	if half, ok := w.conn.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
		for {
			if _, err := w.receive(patience); err != nil {
				break
			}
		}
	}
	_ = w.conn.Close()
}

// ended: a server that closes with bytes of ours unread resets the connection, which is a matter of
// microseconds and means the same.
func ended(err error) error {
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return errSilent
	}
	return io.EOF
}

// grant is what a handshake came to.
type grant struct {
	protocol int32
	timeout  int32
	session  int64
	password []byte
	readOnly string // "false", "true", or "absent" when the server sent no such byte
	trailing int
}

// handshake asks for a session on a fresh connection.
func (w *wire) handshake(zxid int64, timeout int32, session int64, password []byte, old bool) (grant, error) {
	h := jute.Handshake{Zxid: zxid, Timeout: timeout, Session: session, Password: password}.Append(nil)
	if !old {
		h = jute.AppendBool(h, false)
	}
	if err := w.send(jute.Frame(h)); err != nil {
		return grant{}, ended(err)
	}
	packet, err := w.receive(patience)
	if err != nil {
		return grant{}, err
	}
	d := jute.Decoder{Rest: packet}
	g := grant{protocol: d.Int32(), timeout: d.Int32(), session: d.Int64(), password: d.Bytes(), readOnly: "absent"}
	if !d.Bad && len(d.Rest) > 0 {
		g.readOnly = fmt.Sprint(d.Bool())
	}
	g.trailing = len(d.Rest)
	return g, d.Err()
}
