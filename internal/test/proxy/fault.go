package proxy

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// An Action is what a Fault does to its request.
type Action struct {
	verb verb
	code int32         // of Answer
	wait time.Duration // of DelayRequest and DelayReply; 0: until Release
}

type verb int

const (
	cutBefore verb = iota
	cutOnSend
	cutAfterCommit
	holdRequest
	holdReply
	loseRequest
	loseReply
	answer
)

var (
	// CutBefore cuts the connection instead of forwarding the request.
	CutBefore = Action{verb: cutBefore}
	// CutOnSend forwards the request and cuts at once. The server receives the request, and may
	// execute it after the client has reconnected.
	CutOnSend = Action{verb: cutOnSend}
	// CutAfterCommit forwards the request, waits for the server's reply, drops it and cuts: the
	// request is executed, and the client receives no reply.
	CutAfterCommit = Action{verb: cutAfterCommit}
	// HoldRequest holds the request, and all that follows it on its connection, until Release. Even
	// if the client closes the connection meanwhile, the request is forwarded at the release, like
	// a packet that was under way for long.
	HoldRequest = Action{verb: holdRequest}
	// HoldReply holds the reply and all that follows it (also watch events) until Release.
	HoldReply = Action{verb: holdReply}
	// LoseRequest loses the request, and all that follows it on its connection, which remains open:
	// the client must detect that no reply comes.
	LoseRequest = Action{verb: loseRequest}
	// LoseReply forwards the request, and loses the reply and all that follows it on its connection
	// (also watch events), which remains open.
	LoseReply = Action{verb: loseReply}
)

// DelayRequest is HoldRequest with a Release after d.
func DelayRequest(d time.Duration) Action { return Action{verb: holdRequest, wait: max(d, 1)} }

// DelayReply is HoldReply with a Release d after the server's reply.
func DelayReply(d time.Duration) Action { return Action{verb: holdReply, wait: max(d, 1)} }

// Answer answers the request with a ZooKeeper error code, such as -127 of an overloaded server.
// Instead of the request the server receives a read of the root, so that the reply has the server's
// zxid and comes in order. A handshake cannot be answered like this, and does not count.
func Answer(code int32) Action { return Action{verb: answer, code: code} }

var verbNames = [...]string{
	"cut before", "cut on send", "cut after commit", "hold request", "hold reply", "lose request", "lose reply", "answer",
}

func (a Action) String() string {
	switch name := verbNames[a.verb]; {
	case a.verb == answer:
		return fmt.Sprintf("%s %d", name, a.code)
	case a.wait > 0:
		return fmt.Sprintf("%s for %v", name, a.wait)
	default:
		return name
	}
}

// A Fault strikes once.
type Fault struct {
	proxy  *Proxy
	match  func(Request) bool
	left   int // matching requests until it strikes; guarded by proxy.mu
	action Action

	canceled    atomic.Bool
	reply       []byte // of the server, before fired is closed
	fired       chan struct{}
	fireOnce    sync.Once
	released    chan struct{}
	releaseOnce sync.Once
}

// Fired returns a channel that is closed when the fault has struck: the connection is cut, or the
// packet is held, lost or answered. With CutAfterCommit, HoldReply and LoseReply the server's reply
// has arrived by then. If the client's connection ends before that reply, the channel is closed
// when the reply arrives; without a reply it is never closed.
func (f *Fault) Fired() <-chan struct{} { return f.fired }

// Reply returns the server's reply, once Fired is closed, for an action that waits for it.
func (f *Fault) Reply() []byte { return f.reply }

// Release sends the held packets. If the fault has not struck yet, it will hold its packet for no
// time.
func (f *Fault) Release() { f.releaseOnce.Do(func() { close(f.released) }) }

// Cancel disarms the fault if it has not struck, and sends the packets that it holds. If an Answer
// has already replaced its request, the request is still answered.
func (f *Fault) Cancel() {
	f.canceled.Store(true)
	f.proxy.disarm(f)
	f.Release()
}

func (f *Fault) fire() { f.fireOnce.Do(func() { close(f.fired) }) }

// hold waits for Release. It returns false if the connection ends first.
func (f *Fault) hold(gone <-chan struct{}) bool {
	f.fire()
	if f.action.wait > 0 {
		defer time.AfterFunc(f.action.wait, f.Release).Stop()
	}
	select {
	case <-f.released:
		return true
	case <-gone:
		return false
	}
}
