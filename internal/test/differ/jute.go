package differ

import (
	"encoding/binary"
	"errors"
)

// encoder writes jute, the encoding of ZooKeeper's packets. It shares no code with memzk, which is
// compared here: a mistake that both made would be invisible.
type encoder struct{ b []byte }

func (e *encoder) int(v int32)  { e.b = binary.BigEndian.AppendUint32(e.b, uint32(v)) }
func (e *encoder) long(v int64) { e.b = binary.BigEndian.AppendUint64(e.b, uint64(v)) }

func (e *encoder) bool(v bool) {
	if v {
		e.b = append(e.b, 1)
	} else {
		e.b = append(e.b, 0)
	}
}

// buffer writes null as a length of -1, which is not the same as no bytes.
func (e *encoder) buffer(v []byte) {
	if v == nil {
		e.int(-1)
		return
	}
	e.int(int32(len(v)))
	e.b = append(e.b, v...)
}

func (e *encoder) string(v string) {
	e.int(int32(len(v)))
	e.b = append(e.b, v...)
}

func (e *encoder) strings(v []string) {
	e.int(int32(len(v)))
	for _, s := range v {
		e.string(s)
	}
}

// framed is the packet: what was written, after its length.
func (e *encoder) framed() []byte {
	return append(binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(e.b)), uint32(len(e.b))), e.b...)
}

var errShort = errors.New("packet ends too early")

// decoder reads jute. After the first error all it reads is zero.
type decoder struct {
	b   []byte
	err error
}

func (d *decoder) take(n int) []byte {
	if d.err != nil || n < 0 || n > len(d.b) {
		d.err, d.b = errShort, nil
		return nil
	}
	v := d.b[:n:n]
	d.b = d.b[n:]
	return v
}

func (d *decoder) int() int32 {
	if v := d.take(4); v != nil {
		return int32(binary.BigEndian.Uint32(v))
	}
	return 0
}

func (d *decoder) long() int64 {
	if v := d.take(8); v != nil {
		return int64(binary.BigEndian.Uint64(v))
	}
	return 0
}

func (d *decoder) bool() bool {
	v := d.take(1)
	return v != nil && v[0] != 0
}

// buffer is nil for null and for a packet that ends too early.
func (d *decoder) buffer() []byte {
	n := d.int()
	if n == -1 {
		return nil
	}
	return d.take(int(n))
}

func (d *decoder) string() string { return string(d.buffer()) }

// count is the length of a vector, -1 for null. It is never more than could be in the rest of the
// packet.
func (d *decoder) count() int {
	n := d.int()
	if n < -1 || int(n) > len(d.b) {
		d.err = errShort
		return 0
	}
	return int(n)
}

func (d *decoder) strings() []string {
	n := d.count()
	if n < 0 {
		return nil
	}
	list := make([]string, 0, n)
	for range n {
		list = append(list, d.string())
	}
	return list
}
