package leader

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/hold"
	"github.com/zklocks/zklocks/internal/queue"
	"github.com/zklocks/zklocks/internal/slot"
	"github.com/zklocks/zklocks/internal/znode"
)

// Election elects a leader of the whole cluster. It may be used by many goroutines at once. Each
// call of Run and Campaign is a candidate: two calls on one value exclude each other as calls in
// two processes do. It remains usable after any error. It must not be copied, and has to be made by
// New: calls of the zero value return an error.
type Election struct {
	queue   *queue.Queue
	request queue.Request
	backoff backoff

	candidates sync.Map                  // of *candidate: the calls of Run and Campaign that have not ended
	idle       atomic.Pointer[time.Time] // when the last of them left
}

// New returns the election at path. The path is a directory of the election's own, which is created
// when it is first needed. A candidate empties that node: data in it, such as the permits of a
// semaphore, are lost. New does no I/O: the first call reports bad arguments.
func New(conn *zklocks.Conn, path string, opts ...Option) *Election {
	cfg := config{Config: slot.Config(conn, "leader", path), kind: znode.Lock, backoff: backoff{min: time.Second, max: time.Minute}}
	slot.Apply(opts, &cfg.Config, &cfg, option(nil))
	cfg.Names, cfg.Persistent = queue.Names{{Kind: cfg.kind, Mode: queue.Mutex}}, cfg.kind == znode.KazooLock
	cfg.Wrong = cfg.backoff.wrong()
	e := &Election{queue: queue.New(cfg.Config), request: queue.Request{Kind: cfg.kind, Nodes: 1}, backoff: cfg.backoff}
	e.isIdle()
	return e
}

// Campaign waits until it leads, in the order of arrival, or until ctx is canceled; ctx bounds the
// wait only, never the term. The hold is the term, and its Release resigns. So
//
//	zklocks.Do(ctx, election.Campaign, f)
//
// is one term. The wait continues through lost connections. If the session expires, the caller
// queues again, at the tail.
//
// If Campaign fails, the node is deleted, in the background if ctx is canceled. Without the right
// DELETE the node remains until the session ends. The error
//   - matches ctx's error, zk.ErrClosing if the connection was closed, or zk.ErrNoAuth if a right
//     is missing;
//   - or says what is wrong with the arguments of New or with the directory: its sequence numbers
//     or a quota are used up, or it is ephemeral.
func (e *Election) Campaign(ctx context.Context) (*zklocks.Hold, error) {
	return e.campaign(ctx, "campaign", true)
}

// made returns e. If New has not made it, it returns a value whose calls all fail.
func (e *Election) made() *Election {
	if e == nil || e.queue == nil {
		e = &Election{queue: queue.Unmade("leader: Election")}
		e.isIdle()
	}
	return e
}

func (e *Election) campaign(ctx context.Context, op string, wait bool) (*zklocks.Hold, error) {
	e = e.made()
	call := e.queue.Call(ctx, e.request)
	c := e.enter()
	defer func() { // also if an observer panics
		if c.grant == nil {
			c.leave()
		}
	}()
	grant, err := e.queue.Acquire(ctx, e.request, wait)
	if err != nil {
		return nil, e.queue.Fail(call, op, err)
	}
	c.leads(grant)
	h := new(slot.Held[zklocks.Hold])
	h.Begin(grant, e.queue, c, call)
	return slot.Put(h), nil
}

var errForeign = errors.New("the hold is not a term of this election")

// Proclaim replaces what the leader's node contains, which [zklocks.WithData] has set: Leader,
// Observe and Queue show it in every process. data has at most 512 KiB. The next term begins with
// the data of WithData again. The name and the process number that the node has by default are
// replaced, too.
//
// It is a transaction that takes place only while the term lasts, as [zklocks.Hold.Multi] is, and
// has its errors: the error matches [zklocks.ErrLost] or [zklocks.ErrReleased] when the term has
// ended; zk.ErrNoAuth without the rights READ and WRITE on the node; or ctx's error or
// zk.ErrConnectionClosed when there was no answer, and then says that it may have taken place:
// proclaim again. It is an error, too, if term is not a term of this election, or if data are too
// large or are a request to release. A request to release in the node is overwritten; the term's
// ReleaseRequested is closed before.
func (e *Election) Proclaim(ctx context.Context, term *zklocks.Hold, data []byte) error {
	const op = "proclaim"
	hold.NeedContext(ctx)
	if term == nil {
		term = new(zklocks.Hold) // a zero Hold is lost, too
	}
	h := slot.Get(term)
	e = e.made()
	switch {
	case h == nil:
		return e.queue.Wrap(op, zklocks.ErrLost)
	case !h.Has(e.queue):
		return e.queue.Wrap(op, errForeign)
	case len(data) > queue.MaxData:
		return e.queue.Wrap(op, fmt.Errorf("%d bytes, the limit is %d", len(data), queue.MaxData))
	}
	return e.queue.Wrap(op, h.Write(ctx, bytes.Clone(data)))
}

// Status returns what this value does in this process, without asking a server: for a health
// check. The state is StateOverdue from the loss of a term until its Release is called, which Run
// does when the function has returned. After a call of Campaign without Run, release the hold also
// after a loss.
func (e *Election) Status() Status {
	if e == nil {
		panic(e.made().queue.Invalid())
	}
	s := Status{StateFollower, *e.idle.Load()}
	e.candidates.Range(func(c, _ any) bool {
		if of := c.(*candidate).status(); of.State > s.State || of.State == s.State && of.Since.Before(s.Since) {
			s = of
		}
		return true
	})
	return s
}

// Queue lists the leader and the candidates, in the order of the queue. The list is what one server
// knows, is meant for people and dashboards, and may be out of date when it is read: for the leader
// alone there is Leader. The errors are those of Campaign.
func (e *Election) Queue(ctx context.Context) ([]zklocks.Member, error) {
	members, err := e.made().queue.Members(ctx, nil)
	return slot.Members(members, func(m queue.Member) zklocks.Member { return zklocks.Member(m) }), err
}
