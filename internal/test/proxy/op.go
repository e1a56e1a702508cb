package proxy

import (
	"encoding/binary"
	"slices"
)

// Op is a kind of request, as tests of locks distinguish them.
type Op int

const (
	// AnyOp is every request that the program makes: all but ConnectOp, PingOp, WatchesOp, AuthOp
	// and CloseOp, which the client makes by itself.
	AnyOp Op = iota
	// CreateOp creates an ephemeral node, alone or within a multi: a member queues.
	CreateOp
	// MkdirOp creates other nodes only: directories, containers.
	MkdirOp
	// DeleteOp deletes, alone or within a multi.
	DeleteOp
	// MoveOp is a multi that creates an ephemeral node and deletes another, as a downgrade does. It
	// is a CreateOp and a DeleteOp, too.
	MoveOp
	// ListOp is getChildren, with or without a watch.
	ListOp
	// ReadOp is getData, with or without a watch, and wire's request that watches many nodes at
	// once.
	ReadOp
	// ExistsOp is exists, with or without a watch.
	ExistsOp
	// SetOp is setData, alone or in a multi that creates and deletes nothing.
	SetOp
	// CheckOp is a multi of nothing but checks: a heartbeat, a barrier, Verify.
	CheckOp
	// SyncOp is sync.
	SyncOp
	// OtherOp is any other request of the program.
	OtherOp
	// ConnectOp is the handshake, the first packet of each connection.
	ConnectOp
	// PingOp keeps the session alive.
	PingOp
	// WatchesOp sets the watches again after a reconnect.
	WatchesOp
	// AuthOp sends credentials.
	AuthOp
	// CloseOp ends the session.
	CloseOp

	numOps
)

var opNames = [numOps]string{
	"any", "create", "mkdir", "delete", "move", "list", "read", "exists", "set",
	"check", "sync", "other", "connect", "ping", "watches", "auth", "close",
}

func (o Op) String() string {
	if o < 0 || o >= numOps {
		return "unknown"
	}
	return opNames[o]
}

// Request is what the proxy reads of a packet on its way to the server.
type Request struct {
	Op    Op       // the most specific kind: MoveOp, not CreateOp
	Paths []string // of every operation in it, in order
	Watch bool     // a read that leaves a watch

	xid   int32
	kinds uint32 // every Op that it is, as bits
}

// Is reports whether the request is of that kind, among others.
func (r Request) Is(op Op) bool { return r.kinds&(1<<op) != 0 }

// ZooKeeper's numbers.
const (
	codeCreate          = 1
	codeDelete          = 2
	codeExists          = 3
	codeGetData         = 4
	codeSetData         = 5
	codeGetChildren     = 8
	codeSync            = 9
	codePing            = 11
	codeGetChildren2    = 12
	codeCheck           = 13
	codeMulti           = 14
	codeCreate2         = 15
	codeCreateContainer = 19
	codeCreateTTL       = 21
	codeCloseSession    = -11
	codeAuth            = 100
	codeSetWatches      = 101
	codeSetWatches2     = 105

	flagEphemeral = 1 // of create's flags; TTL and container nodes have others
)

// parseRequest reads one packet that is not the handshake.
func parseRequest(body []byte) Request {
	d := decoder{rest: body}
	r := Request{xid: d.int32()}
	switch code := d.int32(); code {
	case codePing:
		r.set(PingOp)
	case codeSetWatches, codeSetWatches2:
		r.watches(&d)
	case codeAuth:
		r.set(AuthOp)
	case codeCloseSession:
		r.set(CloseOp)
	case codeMulti:
		r.multi(&d)
	case codeGetData, codeExists, codeGetChildren, codeGetChildren2:
		r.Paths = []string{d.string()}
		r.Watch = d.bool()
		r.set(readKind(code), AnyOp)
	case codeSync:
		r.Paths = []string{d.string()}
		r.set(SyncOp, AnyOp)
	default:
		r.set(r.part(&d, code), AnyOp)
	}
	return r
}

// xidWatchAll is that of wire's own; the client counts upwards from 1.
const xidWatchAll = -8

func (r *Request) watches(d *decoder) {
	if r.xid != xidWatchAll {
		r.set(WatchesOp)
		return
	}
	d.take(8)     // the zxid
	for range 2 { // existing nodes, and nodes to be created
		for n := d.int32(); n > 0 && !d.short; n-- {
			r.Paths = append(r.Paths, d.string())
		}
	}
	r.Watch = true
	r.set(ReadOp, AnyOp)
}

func connectRequest() Request {
	var r Request
	r.set(ConnectOp)
	return r
}

func readKind(code int32) Op {
	switch code {
	case codeGetData:
		return ReadOp
	case codeExists:
		return ExistsOp
	}
	return ListOp
}

// set makes the first kind the most specific.
func (r *Request) set(ops ...Op) {
	r.Op = ops[0]
	for _, op := range ops {
		r.kinds |= 1 << op
	}
}

// part reads an operation that can stand alone or in a multi.
func (r *Request) part(d *decoder, code int32) Op {
	switch code {
	case codeCreate, codeCreate2, codeCreateContainer, codeCreateTTL:
		r.Paths = append(r.Paths, d.string())
		d.skipBytes() // data
		for n := d.int32(); n > 0 && !d.short; n-- {
			d.int32()     // permissions
			d.skipBytes() // scheme
			d.skipBytes() // id
		}
		flags := d.int32()
		if code == codeCreateTTL {
			d.take(8)
		}
		if (code == codeCreate || code == codeCreate2) && (flags == flagEphemeral || flags == flagEphemeral|2) {
			return CreateOp
		}
		return MkdirOp
	case codeDelete:
		r.Paths = append(r.Paths, d.string())
		d.int32()
		return DeleteOp
	case codeSetData:
		r.Paths = append(r.Paths, d.string())
		d.skipBytes()
		d.int32()
		return SetOp
	case codeCheck:
		r.Paths = append(r.Paths, d.string())
		d.int32()
		return CheckOp
	}
	return OtherOp
}

func (r *Request) multi(d *decoder) {
	var in uint32
	var made []string
	for !d.short {
		code := d.int32()
		done := d.bool()
		d.int32()
		if done || d.short {
			break
		}
		op := r.part(d, code)
		in |= 1 << op
		if op == OtherOp {
			break // of unknown length: what follows cannot be read
		}
		path := r.Paths[len(r.Paths)-1]
		switch op {
		case CreateOp:
			made = append(made, path)
		case DeleteOp:
			made = slices.DeleteFunc(made, func(m string) bool { return m == path })
		}
	}
	if len(made) == 0 {
		in &^= 1 << CreateOp // a node that is deleted at once is no member: the mark of a release
	}
	has := func(op Op) bool { return in&(1<<op) != 0 }
	switch {
	case has(CreateOp) && has(DeleteOp):
		r.set(MoveOp, CreateOp, DeleteOp, AnyOp)
	case has(CreateOp):
		r.set(CreateOp, AnyOp)
	case has(DeleteOp):
		r.set(DeleteOp, AnyOp)
	case has(MkdirOp):
		r.set(MkdirOp, AnyOp)
	case has(SetOp):
		r.set(SetOp, AnyOp)
	case in == 1<<CheckOp:
		r.set(CheckOp, AnyOp)
	default:
		r.set(OtherOp, AnyOp)
	}
}

// decoder reads ZooKeeper's encoding; after the end it returns zeros.
type decoder struct {
	rest  []byte
	short bool
}

func (d *decoder) take(n int) []byte {
	if n < 0 || n > len(d.rest) {
		d.short, d.rest = true, nil
		return nil
	}
	b := d.rest[:n]
	d.rest = d.rest[n:]
	return b
}

func (d *decoder) int32() int32 {
	b := d.take(4)
	if b == nil {
		return 0
	}
	return int32(binary.BigEndian.Uint32(b))
}

func (d *decoder) bool() bool {
	b := d.take(1)
	return b != nil && b[0] != 0
}

// A length of -1 is a nil.
func (d *decoder) bytes() []byte {
	n := d.int32()
	if n <= 0 {
		return nil
	}
	return d.take(int(n))
}

func (d *decoder) skipBytes()     { d.bytes() }
func (d *decoder) string() string { return string(d.bytes()) }
