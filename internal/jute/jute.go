// Package jute reads and writes ZooKeeper's protocol for the servers and proxies of tests: the
// numbers of requests and results, and the encoding, which ZooKeeper calls jute. It shares no code
// with internal/wire, so a mistake in one of them fails a test of the other. Comparing with a real
// server shows a mistake here (internal/test/differ).
package jute

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Types of requests, and of results in the reply to a Multi.
const (
	OpError           int32 = -1
	OpCreate          int32 = 1
	OpDelete          int32 = 2
	OpExists          int32 = 3
	OpGetData         int32 = 4
	OpSetData         int32 = 5
	OpGetACL          int32 = 6
	OpSetACL          int32 = 7
	OpGetChildren     int32 = 8
	OpSync            int32 = 9
	OpPing            int32 = 11
	OpGetChildren2    int32 = 12
	OpCheck           int32 = 13
	OpMulti           int32 = 14
	OpCreate2         int32 = 15
	OpReconfig        int32 = 16
	OpCheckWatches    int32 = 17
	OpRemoveWatches   int32 = 18
	OpCreateContainer int32 = 19
	OpDeleteContainer int32 = 20
	OpCreateTTL       int32 = 21
	OpAuth            int32 = 100
	OpSetWatches      int32 = 101
	OpSASL            int32 = 102
	OpSetWatches2     int32 = 105
	OpAddWatch        int32 = 106
	OpCreateSession   int32 = -10
	OpCloseSession    int32 = -11
)

// Request ids (xids) in the headers of packets that have a fixed id.
const (
	XidEvent      int32 = -1
	XidPing       int32 = -2
	XidAuth       int32 = -4
	XidSetWatches int32 = -8
)

// Codes of results.
const (
	CodeOK             int32 = 0
	CodeInconsistency  int32 = -2 // the operations of a Multi after the operation that failed
	CodeMarshalling    int32 = -5
	CodeUnimplemented  int32 = -6
	CodeBadArguments   int32 = -8
	CodeNoNode         int32 = -101
	CodeNoAuth         int32 = -102
	CodeBadVersion     int32 = -103
	CodeNoChildren     int32 = -108 // for ephemeral nodes
	CodeNodeExists     int32 = -110
	CodeNotEmpty       int32 = -111
	CodeSessionExpired int32 = -112
	CodeInvalidACL     int32 = -114
	CodeAuthFailed     int32 = -115
	CodeSessionMoved   int32 = -118
	CodeNoWatcher      int32 = -121
	CodeNoReconfig     int32 = -123 // reconfigurations are disabled, as they are by default
	CodeRequiresSASL   int32 = -124
)

// Flags of a create.
const (
	FlagPersistent    int32 = 0
	FlagEphemeral     int32 = 1
	FlagSequential    int32 = 2
	FlagContainer     int32 = 4
	FlagTTL           int32 = 5
	FlagTTLSequential int32 = 6
)

var errShort = errors.New("packet ends too early")

// Decoder reads a packet. If a field is missing, Bad is set; it and all later fields read as zero.
type Decoder struct {
	Rest []byte
	Bad  bool
}

// Err returns an error if a field was missing.
func (d *Decoder) Err() error {
	if d.Bad {
		return errShort
	}
	return nil
}

// Take returns the next n bytes, which are part of the packet.
func (d *Decoder) Take(n int) []byte {
	if d.Bad || n < 0 || n > len(d.Rest) {
		d.Bad, d.Rest = true, nil
		return nil
	}
	v := d.Rest[:n:n]
	d.Rest = d.Rest[n:]
	return v
}

func (d *Decoder) Int32() int32 {
	if v := d.Take(4); v != nil {
		return int32(binary.BigEndian.Uint32(v))
	}
	return 0
}

func (d *Decoder) Int64() int64 {
	if v := d.Take(8); v != nil {
		return int64(binary.BigEndian.Uint64(v))
	}
	return 0
}

func (d *Decoder) Bool() bool {
	v := d.Take(1)
	return v != nil && v[0] != 0
}

// Bytes returns a part of the packet, which the caller must copy to keep; nil for a null buffer.
func (d *Decoder) Bytes() []byte {
	n := d.Int32()
	if n == -1 {
		return nil
	}
	return d.Take(int(n))
}

// Text returns "" for a null string.
func (d *Decoder) Text() string { return string(d.Bytes()) }

// Count returns the length of a vector whose elements have at least size bytes each; it is negative
// for a null vector. A count that is too large for the rest of the packet sets Bad.
func (d *Decoder) Count(size int) int {
	n := int(d.Int32())
	if n > len(d.Rest)/size {
		d.Bad, d.Rest = true, nil
		return 0
	}
	return n
}

// Texts returns nil for a null vector.
func (d *Decoder) Texts() []string {
	n := d.Count(4)
	if n < 0 {
		return nil
	}
	v := make([]string, 0, n)
	for range n {
		v = append(v, d.Text())
	}
	return v
}

func AppendInt32(b []byte, v int32) []byte { return binary.BigEndian.AppendUint32(b, uint32(v)) }
func AppendInt64(b []byte, v int64) []byte { return binary.BigEndian.AppendUint64(b, uint64(v)) }

func AppendBool(b []byte, v bool) []byte {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}

// AppendBytes writes nil as null, which differs from an empty buffer.
func AppendBytes(b []byte, v []byte) []byte {
	if v == nil {
		return AppendInt32(b, -1)
	}
	return append(AppendInt32(b, int32(len(v))), v...)
}

func AppendText(b []byte, v string) []byte { return append(AppendInt32(b, int32(len(v))), v...) }

func AppendTexts(b []byte, v []string) []byte {
	b = AppendInt32(b, int32(len(v)))
	for _, s := range v {
		b = AppendText(b, s)
	}
	return b
}

// Handshake is the first packet in each direction. Only the client sends Zxid. Session 0 asks for a
// new session; in the reply it means that the session has ended.
type Handshake struct {
	Protocol int32
	Zxid     int64 // the last zxid that the client has seen
	Timeout  int32 // in milliseconds
	Session  int64
	Password []byte
}

// Append appends the client's handshake as before ZooKeeper 3.4, without the last byte, which says
// whether the client accepts a read-only server.
func (h Handshake) Append(b []byte) []byte {
	b = AppendInt64(AppendInt32(b, h.Protocol), h.Zxid)
	return AppendBytes(AppendInt64(AppendInt32(b, h.Timeout), h.Session), h.Password)
}

// Welcome reads the server's handshake, but not the last byte: whether the server is read-only.
func (d *Decoder) Welcome() Handshake {
	return Handshake{Protocol: d.Int32(), Timeout: d.Int32(), Session: d.Int64(), Password: d.Bytes()}
}

// maxFrame is far above a server's own limit of 1 MiB.
const maxFrame = 64 << 20

// ReadFrame reads a packet, and returns its body without the four bytes of length.
func ReadFrame(r io.Reader) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > maxFrame {
		return nil, fmt.Errorf("jute: frame of %d bytes", n)
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(r, body); err != nil {
		return nil, err
	}
	return body, nil
}

// Frame returns the packet: the length and the body.
func Frame(body []byte) []byte {
	return append(AppendInt32(make([]byte, 0, 4+len(body)), int32(len(body))), body...)
}

// WriteFrame writes the packet in one write, as the client does.
func WriteFrame(w io.Writer, body []byte) error {
	_, err := w.Write(Frame(body))
	return err
}
