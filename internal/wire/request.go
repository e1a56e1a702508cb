package wire

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"
)

// A Request is a request of the locks.
type Request struct {
	op   int32
	body []byte
}

// Create creates a node. The server appends a number to the path of a sequential node.
func Create(path string, data []byte, flags int32, acl []zk.ACL) Request {
	return Request{opCreate, encode(nil, path, data, acl, flags)}
}

// Delete deletes a node.
func Delete(path string, version int32) Request { return Request{opDelete, encode(nil, path, version)} }

// Exists reads a node's Stat, which takes no right.
func Exists(path string) Request { return read(opExists, path, false) }

// GetData reads a node's data.
func GetData(path string) Request { return read(opGetData, path, false) }

// SetData writes a node's data.
func SetData(path string, data []byte, version int32) Request {
	return Request{opSetData, encode(nil, path, data, version)}
}

// Children lists the names of a node's children.
func Children(path string) Request { return read(opGetChildren2, path, false) }

func read(op int32, path string, watch bool) Request { return Request{op, encode(nil, path, watch)} }

// Multi runs a transaction. Each of its operations is a *zk.CreateRequest, a *zk.SetDataRequest, a
// *zk.DeleteRequest or a *zk.CheckVersionRequest.
func Multi(ops ...any) Request {
	var body []byte
	for _, op := range ops {
		switch op := op.(type) {
		case *zk.CreateRequest:
			body = encode(body, opCreate, false, noError, op.Path, op.Data, op.Acl, op.Flags)
		case *zk.SetDataRequest:
			body = encode(body, opSetData, false, noError, op.Path, op.Data, op.Version)
		case *zk.DeleteRequest:
			body = encode(body, opDelete, false, noError, op.Path, op.Version)
		case *zk.CheckVersionRequest:
			body = encode(body, opCheck, false, noError, op.Path, op.Version)
		default:
			panic(fmt.Sprintf("a bug of zklocks: a %T in a transaction", op))
		}
	}
	return Request{opMulti, encode(body, opError, true, noError)}
}

// A Reply is the answer to a Request.
type Reply struct {
	Zxid     int64              // of the transaction, if the request has written
	Path     string             // of the node that Create has created
	Data     []byte             // of GetData
	Children []string           // of Children
	Stat     *zk.Stat           // of GetData, SetData, Children and Exists
	Results  []zk.MultiResponse // of Multi, also if the server has refused it
	Failed   int                // the index of the operation of a Multi that the server has refused; -1: none
}

// A decoder reads the body of a reply. When something is missing, it becomes bad.
type decoder struct {
	rest []byte
	bad  bool
}

// decode returns what the body of the reply to a request says. refusal is the error of a Multi that
// the server has refused; err means that the body is malformed.
func decode(op int32, body []byte) (r Reply, refusal, err error) {
	d := &decoder{rest: body}
	r.Failed = -1
	switch op {
	case opCreate:
		r.Path = d.text()
	case opGetData:
		r.Data, r.Stat = bytes.Clone(d.bytes()), d.stat()
	case opSetData, opExists:
		r.Stat = d.stat()
	case opGetChildren2:
		r.Children, r.Stat = d.texts(), d.stat()
	case opMulti:
		r.Results, r.Failed, refusal = d.results()
	}
	return r, refusal, d.err(op, body)
}

// err returns an error if the body of the reply to a request is malformed.
func (d *decoder) err(op int32, body []byte) error {
	if !d.bad {
		return nil
	}
	return fmt.Errorf("%w: %d bytes in the reply to operation %d", errFrame, len(body), op)
}

// welcome decodes the answer to the handshake. Session 0 means that the session is over.
func welcome(body []byte) (s Session, timeout time.Duration, err error) {
	d := &decoder{rest: body}
	d.int32() // the version
	ms := d.int32()
	s.ID = d.int64()
	s.Password = bytes.Clone(d.bytes())
	if d.bad || s.ID != 0 && ms <= 0 {
		return Session{}, 0, fmt.Errorf("%w: handshake of %d bytes, session timeout of %d ms", errFrame, len(body), ms)
	}
	return s, time.Duration(ms) * time.Millisecond, nil
}

func (d *decoder) take(n int32) []byte {
	if n < 0 || int(n) > len(d.rest) {
		d.bad, d.rest = true, nil
		return nil
	}
	b := d.rest[:n]
	d.rest = d.rest[n:]
	return b
}

func (d *decoder) int32() int32 {
	if b := d.take(4); b != nil {
		return int32At(b, 0)
	}
	return 0
}

func (d *decoder) int64() int64 {
	if b := d.take(8); b != nil {
		return int64At(b, 0)
	}
	return 0
}

func (d *decoder) bool() bool {
	b := d.take(1)
	return b != nil && b[0] != 0
}

func (d *decoder) bytes() []byte {
	n := d.int32()
	if n == -1 {
		return nil
	}
	return d.take(n)
}

func (d *decoder) text() string { return string(d.take(d.int32())) } // never missing

// count returns how many elements of at least size bytes follow.
func (d *decoder) count(size int) int32 {
	n := d.int32()
	if n < 0 || int(n) > len(d.rest)/size {
		d.bad = true
		return 0
	}
	return n
}

func (d *decoder) texts() (all []string) {
	n := d.count(4) // the length of each
	all = make([]string, 0, n)
	for range n {
		all = append(all, d.text())
	}
	return all
}

func (d *decoder) stat() *zk.Stat {
	s := new(zk.Stat)
	if b := d.take(68); b != nil {
		binary.Decode(b, binary.BigEndian, s) // it fails if b is too short
	}
	return s
}

// results reads the results of a Multi. If the server has refused the Multi, failed is the index of
// the operation that it has refused, or -1 if no result says which.
func (d *decoder) results() (all []zk.MultiResponse, failed int, refusal error) {
	failed = -1
	for {
		op, end := d.int32(), d.bool()
		d.int32() // the error, which the result repeats
		if end || d.bad {
			return all, failed, refusal
		}
		var r zk.MultiResponse
		switch op {
		case opError:
			r.Error = codeError(d.int32())
		case opCreate:
			r.String = d.text()
		case opCreate2:
			r.String, r.Stat = d.text(), d.stat()
		case opSetData:
			r.Stat = d.stat()
		case opDelete, opCheck:
		default:
			d.bad = true
		}
		if r.Error != nil && failed < 0 && (refusal == nil || r.Error != RolledBack) {
			if refusal = r.Error; refusal != RolledBack {
				failed = len(all)
			}
		}
		all = append(all, r)
	}
}
