package zktest

import "sync"

// Action is what a Fault does to its request.
type Action int

const (
	// CutBefore cuts the connection in place of forwarding the request: the
	// server never sees it.
	CutBefore Action = iota
	// CutOnSend forwards the request and cuts at once. The server gets it, and
	// works on it while the client may already be back.
	CutOnSend
	// CutAfterCommit forwards the request, waits for the server's reply,
	// swallows it and cuts: the work is done and the client does not know.
	CutAfterCommit
	// HoldRequest keeps the request, and what follows it on its connection,
	// until Release. If the client gives up meanwhile, the request still
	// arrives at its release, as a packet that was long under way.
	HoldRequest
	// HoldReply keeps the reply, and what follows it on its connection (watch
	// events, too), until Release.
	HoldReply
)

var actionNames = [...]string{"cut before", "cut on send", "cut after commit", "hold request", "hold reply"}

func (a Action) String() string {
	if a < 0 || int(a) >= len(actionNames) {
		return "unknown"
	}
	return actionNames[a]
}

// Fault is one thing that will go wrong, once.
type Fault struct {
	proxy  *Proxy
	match  func(Request) bool
	left   int // matching requests until it strikes; guarded by proxy.mu
	action Action

	fired       chan struct{}
	fireOnce    sync.Once
	released    chan struct{}
	releaseOnce sync.Once
}

// Fired is closed when the fault has struck: the connection is cut, or the
// packet is held. With CutAfterCommit and HoldReply the server's reply is
// known to exist by then. It is never closed if the connection goes first.
func (f *Fault) Fired() <-chan struct{} { return f.fired }

// Release lets go what is held. Before the fault has struck, it makes the hold
// of no length.
func (f *Fault) Release() { f.releaseOnce.Do(func() { close(f.released) }) }

// Cancel disarms the fault if it has not struck, and lets go what it holds.
func (f *Fault) Cancel() {
	f.proxy.disarm(f)
	f.Release()
}

func (f *Fault) fire() { f.fireOnce.Do(func() { close(f.fired) }) }

// hold waits for Release; false: the connection went first.
func (f *Fault) hold(gone <-chan struct{}) bool {
	f.fire()
	select {
	case <-f.released:
		return true
	case <-gone:
		return false
	}
}
