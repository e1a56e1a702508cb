package proxy

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Action is what a Fault does to its request.
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
	// CutBefore cuts the connection in place of forwarding the request: the server never sees it.
	CutBefore = Action{verb: cutBefore}
	// CutOnSend forwards the request and cuts at once. The server gets it, and may still execute it
	// when the client has reconnected.
	CutOnSend = Action{verb: cutOnSend}
	// CutAfterCommit forwards the request, waits for the server's reply, drops it and cuts: the
	// request is executed and the client does not know.
	CutAfterCommit = Action{verb: cutAfterCommit}
	// HoldRequest keeps the request, and what follows it on its connection, until Release. If the
	// client gives up meanwhile, the request still arrives at its release, as a packet that was
	// long under way.
	HoldRequest = Action{verb: holdRequest}
	// HoldReply keeps the reply, and what follows it on its connection (watch events, too), until
	// Release.
	HoldReply = Action{verb: holdReply}
	// LoseRequest loses the request, and what follows it on its connection. The connection stays:
	// the client has to detect that no reply comes.
	LoseRequest = Action{verb: loseRequest}
	// LoseReply forwards the request and loses the reply, and what follows it on its connection
	// (watch events, too). The connection stays.
	LoseReply = Action{verb: loseReply}
)

// DelayRequest is HoldRequest with a Release after d.
func DelayRequest(d time.Duration) Action { return Action{verb: holdRequest, wait: max(d, 1)} }

// DelayReply is HoldReply with a Release d after the server's reply.
func DelayReply(d time.Duration) Action { return Action{verb: holdReply, wait: max(d, 1)} }

// Answer answers the request with an error code of ZooKeeper's, such as -127 of an overloaded
// server. In place of the request the server gets a read of the root, so that the reply has the
// server's zxid and comes in order. The handshake has no such reply: Answer does not count it.
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

// Fault is one fault, which strikes once.
type Fault struct {
	proxy  *Proxy
	match  func(Request) bool
	left   int // matching requests until it strikes; guarded by proxy.mu
	action Action

	canceled    atomic.Bool
	fired       chan struct{}
	fireOnce    sync.Once
	released    chan struct{}
	releaseOnce sync.Once
}

// Fired is closed when the fault has struck: the connection is cut, or the packet is held, lost or
// answered. With CutAfterCommit, HoldReply and LoseReply the server's reply has arrived by then.
// Once the connection has ended, only the server's reply to the request closes it.
func (f *Fault) Fired() <-chan struct{} { return f.fired }

// Release sends on what is held. Before the fault has struck, it makes the hold of no length.
func (f *Fault) Release() { f.releaseOnce.Do(func() { close(f.released) }) }

// Cancel disarms the fault if it has not struck, and sends on what it holds. An Answer is given if
// the request has been replaced.
func (f *Fault) Cancel() {
	f.canceled.Store(true)
	f.proxy.disarm(f)
	f.Release()
}

func (f *Fault) fire() { f.fireOnce.Do(func() { close(f.fired) }) }

// hold waits for Release; false: the connection ended first.
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
