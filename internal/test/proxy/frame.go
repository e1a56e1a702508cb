package proxy

import (
	"encoding/binary"
	"fmt"
	"io"
)

// maxFrame is far above the server's own limit of 1 MiB.
const maxFrame = 64 << 20

// ReadFrame reads one packet: four bytes of length and the body, which it returns.
func ReadFrame(r io.Reader) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > maxFrame {
		return nil, fmt.Errorf("proxy: frame of %d bytes", n)
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(r, body); err != nil {
		return nil, err
	}
	return body, nil
}

// WriteFrame sends head and body in one write, as the client does.
func WriteFrame(w io.Writer, body []byte) error {
	frame := make([]byte, 4, 4+len(body))
	binary.BigEndian.PutUint32(frame, uint32(len(body)))
	_, err := w.Write(append(frame, body...))
	return err
}
