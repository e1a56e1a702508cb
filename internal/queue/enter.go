package queue

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/go-zookeeper/zk"
	"github.com/hashicorp/go-multierror"

	"github.com/zklocks/zklocks/internal/hold"
	"github.com/zklocks/zklocks/internal/zkclient"
	"github.com/zklocks/zklocks/internal/znode"
)

// errAgain has the member look at the line once more; errRequeue has it stand in
// line anew, at the tail, for its nodes are gone.
var (
	errAgain   = errors.New("look again")
	errRequeue = errors.New("its node is gone: queue again")
)

// Wait stands in line until it is the member's turn or ctx ends.
func (l *Line) Wait(ctx context.Context, e Entry) (*Place, error) { return l.enter(ctx, e, true) }

// Try takes the lock if it is free, and else returns hold.ErrBusy. It looks
// first, and writes nothing when the lock is visibly taken.
func (l *Line) Try(ctx context.Context, e Entry) (*Place, error) { return l.enter(ctx, e, false) }

func (l *Line) enter(ctx context.Context, e Entry, wait bool) (*Place, error) {
	for {
		if err := zkclient.Ended(ctx); err != nil {
			return nil, err
		}
		place, err := l.attempt(ctx, e, wait)
		switch {
		case err == nil:
			return place, nil
		case errors.Is(err, errRequeue), errors.Is(err, errAgain), errors.Is(err, zkclient.ErrOver):
		default:
			return nil, l.client.Unreached(ctx, err)
		}
	}
}

// maxRequest is below the server's limit of 1 MiB (jute.maxbuffer): what is larger
// is answered by a closed connection, which looks like any other lost one.
const maxRequest = 1_000_000

// attempt stands in line once, within one session.
func (l *Line) attempt(ctx context.Context, e Entry, wait bool) (*Place, error) {
	sess, err := l.client.Session(ctx)
	if err != nil {
		return nil, err
	}
	epoch := l.client.Epoch()
	terms, err := e.Terms(ctx, sess)
	if err != nil {
		return nil, err
	}
	if !wait {
		line, _, err := l.list(ctx, sess)
		if err != nil {
			return nil, err
		}
		l.crowded.Store(len(line) > terms.Rule.Tolerate)
		turn := terms.Rule.Turn(line, znode.Node{Seq: math.MaxInt64})
		if !turn.MayGo() {
			return nil, hold.ErrBusy
		}
	}
	claim := zkclient.Claim{
		Dir: l.dir, Kind: e.Kind, Nodes: e.Nodes, Data: l.cfg.Data, ACL: l.cfg.ACL,
		Touch: l.touches(e), Check: terms.Check,
	}
	if size := claim.Size(); size > maxRequest {
		return nil, fmt.Errorf("%d nodes make a request of %d bytes, more than a server takes", e.Nodes, size)
	}
	made, err := l.client.Claim(ctx, sess, claim)
	switch {
	case err == zk.ErrNoNode:
		terms.drop()
		if err := l.make(ctx); err != nil {
			return nil, err
		}
		return nil, errAgain
	case err == zk.ErrBadVersion:
		terms.drop()
		return nil, errAgain
	case err == zk.ErrNoAuth && claim.Touch && e.Silently:
		l.untouchable.Store(true)
		return nil, errAgain
	case err == zk.ErrNoAuth && e.Announce && !e.Silently:
		return nil, explain(err, "CREATE and WRITE on "+l.dir)
	case err != nil:
		return nil, explain(err, "CREATE on "+l.dir)
	}

	m := &member{line: l, entry: e, sess: sess, nodes: made.Nodes, lease: l.client.Keep(sess)}
	place, err := m.take(ctx, made, terms, epoch, wait)
	if err != nil {
		return nil, m.leave(ctx, err)
	}
	return place, nil
}

// touches reports whether the transaction that makes the nodes touches the directory:
// not if nobody watches, the token is told without, and all else has to be listed.
func (l *Line) touches(e Entry) bool {
	saves := !l.crowded.Load() || !l.client.Trusts()
	return e.Announce && !l.untouchable.Load() && (saves || !e.Silently)
}

// member is somebody who stands in line.
type member struct {
	line  *Line
	entry Entry
	sess  int64
	nodes []znode.Node
	seat  *zkclient.Seat // nil unless the entry stands alone
	lease *zkclient.Lease

	own    []*zkclient.Watch // on its own nodes, if it may hold by a strike-out
	token  int64
	header int64 // what the reply's header says that the token is, or 0
	marks  bool  // whoever is behind may wait for its mark

	waiting waiting // what its observers know of that
}

// take goes from standing in line to holding.
func (m *member) take(ctx context.Context, made zkclient.Claimed, terms Terms, epoch uint64, wait bool) (*Place, error) {
	for _, n := range m.nodes {
		if err := n.Usable(); err != nil {
			return nil, err
		}
	}
	var ahead *zkclient.Seat
	if m.entry.Alone {
		m.seat, ahead = m.line.client.Sit(m.sess, m.line.seats, m.nodes[0])
	}
	// The reply of the transaction that made the nodes has told how many
	// children there are: if even all the others were blockers, may we go?
	if dir := made.Dir; dir != nil {
		m.token = dir.Mzxid
		if terms.Line != 0 && dir.Czxid != terms.Line {
			terms.drop()
		} else if int(dir.NumChildren)-len(m.nodes) <= terms.Rule.Tolerate &&
			m.look(terms, epoch) == nil {
			return m.granted(), nil
		}
	} else if m.header = made.Zxid; m.header != 0 && m.line.client.Trusts() {
		m.token = m.header
		if m.entry.Company != nil && m.entry.Company.joinsCalm(m.sess, epoch) && m.look(terms, epoch) == nil {
			return m.granted(), nil
		}
	}
	if wait && ahead != nil {
		ahead.SetFollowed(true)
		place, err := m.follow(ctx, terms, ahead, epoch)
		ahead.SetFollowed(false)
		if !errors.Is(err, errAgain) {
			return place, err
		}
	}
	for {
		place, err := m.survey(ctx, wait)
		if !errors.Is(err, errAgain) {
			return place, err
		}
		if err := zkclient.Ended(ctx); err != nil {
			return nil, err
		}
	}
}

// look is what comes before every grant. Events of different nodes wait in
// different channels, and a select that finds several ready takes any of them;
// this restores the order: whatever forbids the grant and came before what
// allows it has arrived by now, and is seen here.
func (m *member) look(terms Terms, epoch uint64) error {
	for _, w := range m.own {
		if event, fired := w.Fired(); fired {
			if !zkclient.Gone(event) {
				return errAgain // somebody wrote into our node, or the watch ended with its connection: watch it anew
			}
			return errRequeue
		}
	}
	if terms.changed() {
		return errAgain
	}
	if !m.line.client.In(m.sess) {
		return errRequeue
	}
	if m.line.client.Epoch() != epoch {
		return errAgain // since a reconnect, events may be late
	}
	if m.lease.Alive() != nil {
		return errAgain
	}
	return nil
}

// granted turns the member into a holder.
func (m *member) granted() *Place {
	m.seat.SetAhead(0)
	return newPlace(m)
}

// leave gives up the place in line, because of err. When the caller has gone or
// the nodes go by themselves nobody waits for the answer; otherwise what goes
// wrong is reported together with err.
func (m *member) leave(ctx context.Context, err error) error {
	m.lease.End()
	m.line.client.Rise(m.sess, m.line.seats, m.seat)
	m.line.left(m.nodes, m.token, m.waiting, err)
	removed := m.line.client.Remove(m.sess, m.line.dir, m.nodes)
	if zkclient.Ended(ctx) != nil || errors.Is(err, zkclient.ErrOver) || errors.Is(err, zkclient.ErrClosed) {
		return err
	}
	select {
	case left := <-removed:
		switch left {
		case nil, zk.ErrNoNode, zkclient.ErrOver, zkclient.ErrClosed:
			return err
		}
		return also(err, fmt.Errorf("leaving the line: %w", explain(left, "DELETE on "+m.line.dir)))
	case <-ctx.Done():
		return err
	}
}

// also adds what went wrong while cleaning up after err.
func also(err, cleanup error) error {
	all := multierror.Append(err, cleanup)
	all.ErrorFormat = func(errs []error) string {
		text := errs[0].Error()
		for _, e := range errs[1:] {
			text += "; and " + e.Error()
		}
		return text
	}
	return all.ErrorOrNil()
}
