package leader

import (
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
// call of Run and Campaign is a candidate of its own, so two calls on one value exclude each other.
// It remains usable after any error. It must not be copied. It has to be made by New: calls of the
// zero value return an error.
type Election struct {
	queue   *queue.Queue
	request queue.Request
	backoff backoff

	candidates sync.Map                  // keys: *candidate, for each campaign and each term that is not released
	idle       atomic.Pointer[time.Time] // when New was called or a candidate left; Since of a follower
}

// New returns the election at path. The path must be a directory for this election alone; it is
// created when it is first needed. If the node at path has data when the value is first used, they
// stay, and each campaign takes one more request. If they are the number of permits of a semaphore, calls return an error. New
// does no I/O: the first call reports bad arguments.
func New(conn *zklocks.Conn, path string, opts ...Option) *Election {
	cfg := config{Config: slot.Config(conn, "leader", path), kind: znode.Lock, backoff: backoff{min: time.Second, max: time.Minute}}
	slot.Apply(opts, &cfg.Config, &cfg, option(nil))
	cfg.Names, cfg.Persistent = queue.Names{{Kind: cfg.kind, Mode: queue.Mutex}}, cfg.kind == znode.KazooLock
	cfg.Wrong = cfg.backoff.wrong()
	e := &Election{queue: queue.New(cfg.Config), request: queue.Request{Kind: cfg.kind, Nodes: 1}, backoff: cfg.backoff}
	e.isIdle()
	return e
}

// Campaign queues in the order of arrival, and waits until it leads or ctx is canceled. ctx bounds
// only the wait, not the term. The hold is the term, and its Release resigns. So
//
//	zklocks.Do(ctx, election.Campaign, f)
//
// is one term. The wait continues through lost connections. If the session expires, the caller
// queues again, at the tail.
//
// If Campaign fails, it deletes its node, in the background if ctx is canceled. If the client lacks
// the right DELETE, the node remains until the right is back or the session ends. The error
//   - matches ctx's error, zk.ErrClosing if the connection was closed, or zk.ErrNoAuth if a right
//     is missing;
//   - or says what is wrong with the arguments of New or with the directory: it is ephemeral, its
//     sequence numbers or a quota are used up, or a lock of another kind uses it.
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
	grant, err := e.queue.Join(ctx, e.request, wait)
	if err != nil {
		return nil, e.queue.Fail(call, op, err)
	}
	c.leads(grant)
	return slot.Give(new(slot.Held[zklocks.Hold]), grant, e.queue, c, call), nil
}

var errForeign = errors.New("the hold is not a term of this election")

// Proclaim replaces the data of the leader's node, which [zklocks.WithData] has set: Leader,
// Observe and Queue show them in every process. data has at most 512 KiB. Proclaim also replaces
// the node's default data, host name and process number. The next term begins with WithData's data.
//
// Like [zklocks.Hold.Multi] it is a transaction that fails if the term has ended. The error
//   - matches [zklocks.ErrLost] or [zklocks.ErrReleased] if the term has ended;
//   - matches zk.ErrNoAuth if the client lacks READ or WRITE on the node;
//   - matches ctx's error or zk.ErrConnectionClosed if there was no answer, and then says that the
//     write may have taken place: proclaim again;
//   - or says that term is not a term of this election, that data are too large, or that they are a
//     request to release.
//
// If the node contains a request to release, Proclaim closes the term's ReleaseRequested before it
// overwrites the request.
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
	return e.queue.Wrap(op, h.Write(ctx, data))
}

// Status returns the state of this value in this process, without a request: for a health check.
// The state is StateOverdue from the loss of a term until its Release is called. Run calls Release
// when the function has returned. After Campaign the caller must call it, also after a loss.
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

// Queue lists the leader and the candidates in queue order. It reads from one server, so the list
// may be out of date: it is for people and dashboards. To find the leader, use Leader.
// The error matches ctx's error, zk.ErrClosing or zk.ErrNoAuth, or says what is wrong with the
// arguments of New.
func (e *Election) Queue(ctx context.Context) ([]zklocks.Member, error) {
	members, err := e.made().queue.Members(ctx, nil)
	return slot.Members(members, func(m queue.Member) zklocks.Member { return zklocks.Member(m) }), err
}
