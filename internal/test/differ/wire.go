package differ

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/zklocks/zklocks/internal/jute"
)

// patience is how long a reply may take on a very busy machine. If a server never answers, that is
// a difference.
const patience = 30 * time.Second

var errSilent = errors.New("no answer")

// wire is a TCP connection with ZooKeeper's packets.
type wire struct {
	conn net.Conn
	in   *bufio.Reader
	xid  int32

	// alter, if not nil, is a bug of the server: it returns what arrives instead of a packet.
	alter   func(packet []byte) [][]byte
	altered [][]byte
}

func newWire(conn net.Conn) *wire { return &wire{conn: conn, in: bufio.NewReader(conn)} }

func (w *wire) send(packet []byte) error {
	if err := w.conn.SetWriteDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	_, err := w.conn.Write(packet)
	return err
}

// receive returns the next packet; io.EOF if the server has closed the connection in any way;
// errSilent if nothing arrives in time.
func (w *wire) receive(within time.Duration) ([]byte, error) {
	for w.alter != nil && len(w.altered) == 0 {
		packet, err := w.read(within)
		if err != nil {
			return nil, err
		}
		w.altered = w.alter(packet)
	}
	if len(w.altered) > 0 {
		packet := w.altered[0]
		w.altered = w.altered[1:]
		return packet, nil
	}
	return w.read(within)
}

func (w *wire) read(within time.Duration) ([]byte, error) {
	if err := w.conn.SetReadDeadline(time.Now().Add(within)); err != nil {
		return nil, err
	}
	// Peek, because a deadline that passes between two bytes must not split the packet.
	if _, err := w.in.Peek(4); err != nil {
		return nil, ended(err)
	}
	if err := w.conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return nil, err
	}
	packet, err := jute.ReadFrame(w.in)
	if err != nil {
		return nil, ended(err)
	}
	return packet, nil
}

// close closes this side of the connection, and returns when the other side is closed. It drops
// what arrives meanwhile.
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

// ended: a server that closes a connection with unread bytes resets it. That depends on timing and
// means the same.
func ended(err error) error {
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return errSilent
	}
	return io.EOF
}

// grant is the result of a handshake.
type grant struct {
	jute.Handshake
	readOnly string // "false", "true", or "absent" if the server sent no such byte
	trailing int
}

// handshake requests a session on a fresh connection.
func (w *wire) handshake(h jute.Handshake, old bool) (grant, error) {
	packet := h.Append(nil)
	if !old {
		packet = jute.AppendBool(packet, false)
	}
	if err := w.send(jute.Frame(packet)); err != nil {
		return grant{}, ended(err)
	}
	packet, err := w.receive(patience)
	if err != nil {
		return grant{}, err
	}
	d := jute.Decoder{Rest: packet}
	g := grant{Handshake: d.Welcome(), readOnly: "absent"}
	if !d.Bad && len(d.Rest) > 0 {
		g.readOnly = fmt.Sprint(d.Bool())
	}
	g.trailing = len(d.Rest)
	return g, d.Err()
}
