package leader_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/contract"
	"github.com/zklocks/zklocks/internal/test/locks"
	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/internal/wire"
	"github.com/zklocks/zklocks/leader"
	"github.com/zklocks/zklocks/observe"
)

const (
	soon    = 20 * time.Second // longer than any step
	timeout = 4 * time.Second  // of a candidate's session
)

// candidate is an Election on its own connection.
type candidate struct {
	*contract.Stage
	*leader.Election
	conn  *wire.Conn
	proxy *proxy.Proxy
}

func newCandidate(s *contract.Stage, opts ...leader.Option) *candidate {
	s.Helper()
	conn, p := s.BehindFor(timeout)
	return &candidate{s, leader.New(locks.On(conn), s.Path, opts...), conn, p}
}

// campaign acquires a term without Run.
func (c *candidate) campaign() *zklocks.Hold {
	c.Helper()
	h, err := c.Campaign(c.Ctx)
	c.Must(err)
	return h
}

// deleteNode deletes the node of a term, as an operator may.
func (c *candidate) deleteNode(h *zklocks.Hold) {
	c.Helper()
	c.Must(c.Witness.Client().Delete(contract.NodeOf(h), -1))
}

// state asserts the candidate's state and, in virtual time, its beginning.
func (c *candidate) state(want leader.State, since time.Time) {
	c.Helper()
	if s := c.Status(); s.State != want || !s.Since.Equal(since) {
		c.Errorf("%v since %v ago, want %v since %v ago", s.State, time.Since(s.Since), want, time.Since(since))
	}
}

// A term is one call of the function that Run was given.
type term struct {
	ctx  context.Context
	hold *zklocks.Hold
	end  chan error // receives the error that the function returns
	out  chan struct{}
}

// A run is a call of Run. The test decides when each of its terms ends.
type run struct {
	*candidate
	*contract.Attempt[any]
	terms chan *term
}

func (c *candidate) run(ctx context.Context) *run {
	r := &run{candidate: c, terms: make(chan *term, 100)}
	r.Attempt = contract.Begin(c.Stage, ctx, func(ctx context.Context) (any, error) {
		return nil, c.Run(ctx, func(ctx context.Context, h *zklocks.Hold) error {
			t := &term{ctx, h, make(chan error, 1), make(chan struct{})}
			defer close(t.out)
			r.terms <- t
			return <-t.end
		})
	})
	return r
}

// leads waits for the next term.
func (r *run) leads() (t *term) {
	r.Helper()
	test.Within(r.Stage, time.Minute, "a term", func() { t = <-r.terms })
	return t
}

// none asserts that no term has begun since the last call of leads.
func (r *run) none() {
	r.Helper()
	r.Settle()
	if len(r.terms) > 0 {
		r.Error("a term has begun")
	}
}

// over waits until a term's context is canceled, and asserts the cause.
func (r *run) over(t *term, cause error) {
	r.Helper()
	test.Within(r.Stage, time.Minute, "the end of the context", func() { <-t.ctx.Done() })
	r.Is(context.Cause(t.ctx), cause)
}

// stop ends a Run while it does not lead.
func (r *run) stop() {
	r.Helper()
	r.Cancel()
	r.Is(r.Failed(), context.Canceled)
}

// resign ends a Run that leads.
func (r *run) resign(t *term) {
	r.Helper()
	r.Cancel()
	t.end <- nil
	r.Is(r.Failed(), context.Canceled)
}

var errFailed = errors.New("the function has failed")

func inMemory(t *testing.T, play func(*contract.Stage)) { t.Helper(); contract.InMemory(t, "", play) }

func TestMain(m *testing.M) { contract.Main(m) }

func TestElection(t *testing.T) { contract.Run(t, election) }

func TestElectionOnRealServers(t *testing.T) { contract.RunReal(t, election) }

var election = contract.Recipe{
	Package: "leader", Lock: "campaign", TryLock: "try to campaign", Kind: observe.KindMutex,
	New: func(conn *zklocks.Conn, path string, common ...zklocks.Option) contract.Locker {
		var opts []leader.Option
		for _, o := range common {
			opts = append(opts, o)
		}
		l := leader.Locker{Election: leader.New(conn, path, opts...)}
		return contract.Locker{Locker: l, Block: l.Lock, Queue: l.Queue}
	},
	Nodes: 1, Markers: true, Requests: 2, Behind: 4,
}
