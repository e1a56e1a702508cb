package proxy

import (
	"math"
	"slices"

	"github.com/zklocks/zklocks/internal/jute"
)

// Op is a kind of request, as tests of locks distinguish them.
type Op int

const (
	// AnyOp is every request that the program makes: all but ConnectOp, PingOp, WatchesOp, AuthOp
	// and CloseOp, which the client sends by itself.
	AnyOp Op = iota
	// CreateOp creates an ephemeral node, alone or within a multi: a member queues.
	CreateOp
	// MkdirOp creates other nodes only: directories, containers.
	MkdirOp
	// DeleteOp deletes, alone or within a multi.
	DeleteOp
	// MoveOp is a multi that creates an ephemeral node and deletes another, as a downgrade does. It
	// is also a CreateOp and a DeleteOp.
	MoveOp
	// ListOp is getChildren, with or without a watch.
	ListOp
	// ReadOp is getData, with or without a watch, and wire's request that sets many watches at
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

// Request describes a packet from the client.
type Request struct {
	Op    Op       // the most specific kind: MoveOp, not CreateOp
	Paths []string // of every operation in the request, in order
	Watch bool     // whether it sets a watch

	xid   int32
	kinds uint32 // all its kinds, as bits
}

// Is reports whether the request is of kind op. A request may have several kinds.
func (r Request) Is(op Op) bool { return r.kinds&(1<<op) != 0 }

// parseRequest parses a packet that is not the handshake.
func parseRequest(body []byte) Request {
	d := jute.Decoder{Rest: body}
	r := Request{xid: d.Int32()}
	switch code := d.Int32(); code {
	case jute.OpPing:
		r.set(PingOp)
	case jute.OpSetWatches, jute.OpSetWatches2:
		r.watches(&d)
	case jute.OpAuth:
		r.set(AuthOp)
	case jute.OpCloseSession:
		r.set(CloseOp)
	case jute.OpMulti:
		r.multi(&d)
	case jute.OpGetData, jute.OpExists, jute.OpGetChildren, jute.OpGetChildren2:
		r.Paths = []string{d.Text()}
		r.Watch = d.Bool()
		r.set(readKind(code), AnyOp)
	case jute.OpSync:
		r.Paths = []string{d.Text()}
		r.set(SyncOp, AnyOp)
	default:
		r.set(r.part(&d, code), AnyOp)
	}
	return r
}

// watches parses a request that sets watches. The requests of wire set new watches, so they state
// the largest zxid.
func (r *Request) watches(d *jute.Decoder) {
	if d.Int64() != math.MaxInt64 {
		r.set(WatchesOp)
		return
	}
	for range 2 { // existing nodes, and nodes that do not exist yet
		r.Paths = append(r.Paths, d.Texts()...)
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
	case jute.OpGetData:
		return ReadOp
	case jute.OpExists:
		return ExistsOp
	}
	return ListOp
}

// set sets the kinds, the most specific first.
func (r *Request) set(ops ...Op) {
	r.Op = ops[0]
	for _, op := range ops {
		r.kinds |= 1 << op
	}
}

// part parses an operation that occurs alone or in a multi.
func (r *Request) part(d *jute.Decoder, code int32) Op {
	switch code {
	case jute.OpCreate, jute.OpCreate2, jute.OpCreateContainer, jute.OpCreateTTL:
		r.Paths = append(r.Paths, d.Text())
		d.Bytes() // data
		for range d.Count(12) {
			d.Int32() // permissions
			d.Bytes() // scheme
			d.Bytes() // id
		}
		flags := d.Int32()
		if code == jute.OpCreateTTL {
			d.Take(8)
		}
		if (code == jute.OpCreate || code == jute.OpCreate2) && (flags == jute.FlagEphemeral || flags == jute.FlagEphemeral|jute.FlagSequential) {
			return CreateOp
		}
		return MkdirOp
	case jute.OpDelete:
		r.Paths = append(r.Paths, d.Text())
		d.Int32()
		return DeleteOp
	case jute.OpSetData:
		r.Paths = append(r.Paths, d.Text())
		d.Bytes()
		d.Int32()
		return SetOp
	case jute.OpCheck:
		r.Paths = append(r.Paths, d.Text())
		d.Int32()
		return CheckOp
	}
	return OtherOp
}

func (r *Request) multi(d *jute.Decoder) {
	var in uint32
	var made []string
	for !d.Bad {
		code := d.Int32()
		done := d.Bool()
		d.Int32()
		if done || d.Bad {
			break
		}
		op := r.part(d, code)
		in |= 1 << op
		if op == OtherOp {
			break // of unknown length: the rest cannot be parsed
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
		in &^= 1 << CreateOp // a node that is deleted at once is not a member: a release creates it as a marker
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
