package zktest

import (
	"fmt"
	"time"

	"github.com/zklocks/zklocks/internal/test/proxy"
)

// Op is a kind of request.
type Op int

const (
	// Any is every request that the program makes: all but Handshake, Ping, Rewatch, Auth and
	// Close, which the client sends by itself.
	Any Op = iota
	// Create creates an ephemeral node, alone or within a multi: a request for a lock or a permit.
	Create
	// Mkdir creates other nodes only: directories, containers.
	Mkdir
	// Delete deletes, alone or within a multi: a release.
	Delete
	// Move is a multi that creates an ephemeral node and deletes another, as a downgrade does. It
	// is also a Create and a Delete.
	Move
	// List is getChildren, with or without a watch.
	List
	// Read is getData, with or without a watch, and the locks' request that sets many watches at
	// once.
	Read
	// Exists is exists, with or without a watch.
	Exists
	// Set is setData, alone or in a multi that creates and deletes nothing.
	Set
	// Check is a multi of nothing but checks: a heartbeat, a Verify.
	Check
	// Sync is sync.
	Sync
	// Other is any other request of the program.
	Other
	// Handshake is the first packet of each connection, which asks for a session.
	Handshake
	// Ping keeps a session alive while the program sends nothing.
	Ping
	// Rewatch sets the client's watches again after a reconnect.
	Rewatch
	// Auth sends credentials.
	Auth
	// Close ends the session.
	Close
)

// The kinds are those of package proxy, in the same order: this compiles only if there are as many.
var _ = [1]struct{}{}[int(proxy.CloseOp)-int(Close)]

var opNames = [...]string{
	"Any", "Create", "Mkdir", "Delete", "Move", "List", "Read", "Exists", "Set", "Check", "Sync", "Other",
	"Handshake", "Ping", "Rewatch", "Auth", "Close",
}

func (o Op) known() bool { return o >= 0 && int(o) < len(opNames) }

// String returns the name of the constant.
func (o Op) String() string {
	if !o.known() {
		return "unknown"
	}
	return opNames[o]
}

// Request describes a request to the function of Where.
type Request struct {
	Op    Op       // the most specific kind: Move, not Create
	Paths []string // of every operation in the request, in order
	Watch bool     // whether it sets a watch

	r proxy.Request
}

// Is reports whether the request is of kind op. A request may have several kinds.
func (r Request) Is(op Op) bool { return op.known() && r.r.Is(proxy.Op(op)) }

func requestOf(r proxy.Request) Request {
	return Request{Op: Op(r.Op), Paths: r.Paths, Watch: r.Watch, r: r}
}

// An Action is what a Fault does to its request.
type Action struct{ a proxy.Action }

// String returns the name of the action, with its parameter.
func (a Action) String() string { return a.a.String() }

// The documentation of the actions shows these names.
var (
	cutBefore, cutOnSend, cutAfterCommit = proxy.CutBefore, proxy.CutOnSend, proxy.CutAfterCommit
	holdRequest, holdReply               = proxy.HoldRequest, proxy.HoldReply
	loseRequest, loseReply               = proxy.LoseRequest, proxy.LoseReply
)

var (
	// CutBefore cuts the connection instead of sending the request: the server never receives it.
	CutBefore = Action{cutBefore}
	// CutOnSend sends the request and cuts the connection at once. The server receives the request,
	// and may execute it after the client has reconnected.
	CutOnSend = Action{cutOnSend}
	// CutAfterCommit sends the request, waits for the reply, drops it and cuts the connection: the
	// request is executed, and the client receives no reply.
	CutAfterCommit = Action{cutAfterCommit}
	// HoldRequest holds the request, and all that follows it on its connection, until
	// Fault.Release.
	HoldRequest = Action{holdRequest}
	// HoldReply holds the reply, and all that follows it on its connection, until Fault.Release.
	HoldReply = Action{holdReply}
	// LoseRequest loses the request, and all that follows it on its connection, which remains open:
	// the client must detect that no reply comes.
	LoseRequest = Action{loseRequest}
	// LoseReply sends the request, and loses the reply and all that follows it on its connection,
	// which remains open.
	LoseReply = Action{loseReply}
)

// DelayRequest holds the request, and all that follows it on its connection, for d.
func DelayRequest(d time.Duration) Action { return Action{proxy.DelayRequest(d)} }

// DelayReply holds the reply, and all that follows it on its connection, for d.
func DelayReply(d time.Duration) Action { return Action{proxy.DelayReply(d)} }

// Answer answers the request with a ZooKeeper error code, and does not pass it to the server: an
// overloaded server answers -127, and -102 is zk.ErrNoAuth. It does not affect a Handshake. It
// panics if code is 0, which is not an error.
func Answer(code int32) Action {
	if code == 0 {
		panic("zktest: Answer: 0 is no error")
	}
	return Action{proxy.Answer(code)}
}

// A Fault strikes once.
type Fault struct{ f *proxy.Fault }

// Fired returns a channel that is closed when the fault has struck: the connection is cut, or the
// packet is held, lost or answered. With CutAfterCommit, HoldReply and LoseReply the server has
// executed the request by then. If the client's connection ends before that reply, the channel is
// closed when the reply arrives; without a reply it is never closed.
func (f *Fault) Fired() <-chan struct{} { return f.f.Fired() }

// Release sends the held packets. If the fault has not struck yet, it will hold its packet for no
// time.
func (f *Fault) Release() { f.f.Release() }

// Cancel disarms the fault if it has not struck, and sends the packets that it holds. If an Answer
// has already replaced its request, the request is still answered.
func (f *Fault) Cancel() { f.f.Cancel() }

// Next arms a fault for the host's next request of kind op, to any member.
func (h *Host) Next(op Op, action Action) *Fault { return h.Nth(op, 1, action) }

// Nth arms a fault for the host's n-th request of kind op from now on; 1 is the next.
func (h *Host) Nth(op Op, n int, action Action) *Fault {
	if !op.known() {
		panic("zktest: Nth: unknown Op")
	}
	atLeastFirst("Nth", n)
	h.s.check("Nth")
	return &Fault{h.proxy.Nth(proxy.Op(op), n, action.a)}
}

// Where arms a fault for the host's n-th request for which match returns true. match must not call
// a method of the Host.
func (h *Host) Where(match func(Request) bool, n int, action Action) *Fault {
	if match == nil {
		panic("zktest: Where: no function")
	}
	atLeastFirst("Where", n)
	h.s.check("Where")
	return &Fault{h.proxy.Where(func(r proxy.Request) bool { return match(requestOf(r)) }, n, action.a)}
}

func atLeastFirst(method string, n int) {
	if n < 1 {
		panic(fmt.Sprintf("zktest: %s: %d: the first is 1", method, n))
	}
}

// Seen returns how many requests of kind op the servers have received from the host.
func (h *Host) Seen(op Op) int64 {
	if !op.known() {
		panic("zktest: Seen: unknown Op")
	}
	return h.proxy.Seen(proxy.Op(op))
}
