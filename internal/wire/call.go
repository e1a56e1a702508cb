package wire

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"
)

// Each request of the locks belongs to one network connection and to one session. Its reply has the
// server's code and zxid, and a caller whose ctx is canceled withdraws a request that was not sent
// yet.

var (
	// ErrOver means that the session of a request is over. Its ephemeral nodes are gone or will be,
	// and answers to its requests are no longer valid.
	ErrOver = errors.New("session is over")
	// ErrUnsent means that a request was not sent, because there is no connection or because ctx
	// was canceled before.
	ErrUnsent = errors.New("the request was not sent")
)

// AnySession means whichever session is current.
const AnySession int64 = 0

// A Call is a request under way.
type Call struct {
	conn *Conn
	over chan struct{} // closed when reply and err are final

	// conn.mu guards what follows.
	left  bool // the caller has left before the request was sent
	reply Reply
	err   error // of the request, as far as it is known
}

// Send begins a request in the given session.
func (c *Conn) Send(session int64, r Request) *Call {
	call := &Call{conn: c, over: make(chan struct{}), err: ErrUnsent}
	c.mu.Lock()
	defer c.mu.Unlock()
	p, err := c.in(session)
	if err != nil {
		call.answered(Reply{}, err)
	} else {
		p.enqueue(outgoing{Request: r, ready: call.ready, answered: call.answered})
	}
	return call
}

func (call *Call) ready() bool {
	if !call.left {
		call.err = ErrNoAnswer
	}
	return !call.left
}

func (call *Call) answered(r Reply, err error) {
	call.reply, call.err = r, err
	close(call.over)
}

// Wait waits for the reply until ctx is canceled. If the server refuses the request, the error is
// an error of package zk or a Code. If there is no reply, the error is ErrOver or ErrUnsent if the
// request was not sent and will not be, zk.ErrConnectionClosed if the connection was lost or the
// Conn closed, and ErrNoAnswer if ctx is canceled. After the last two the reply may still arrive,
// for another Wait.
func (call *Call) Wait(ctx context.Context) (Reply, error) {
	select {
	case <-call.over:
	case <-ctx.Done():
	case <-call.conn.quit.Done():
	}
	call.conn.mu.Lock()
	call.left = true
	reply, err := call.reply, call.err
	call.conn.mu.Unlock()
	if err == ErrNoAnswer && ctx.Err() == nil { // the program has closed the Conn
		err = zk.ErrConnectionClosed
	}
	return reply, err
}

// Ask sends a request and waits for the reply, see Wait.
func (c *Conn) Ask(ctx context.Context, session int64, r Request) (Reply, error) {
	return c.Send(session, r).Wait(ctx)
}
