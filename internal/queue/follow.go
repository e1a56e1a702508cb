package queue

import (
	"context"

	"github.com/zklocks/zklocks/internal/zkclient"
)

// follow waits behind a seat of the same process, the next one ahead, without
// listing the line. When that seat has been the first of all, and is seen to go,
// nobody is ahead. errAgain says that it takes a listing to know.
//
// It costs a watch on the own node, which is the one that the next in line waits
// for, so no waiter needs any other. Observers are told what the seat knows of those ahead.
func (m *member) follow(ctx context.Context, terms Terms, ahead *zkclient.Seat, epoch uint64) (*Place, error) {
	m.seat.SetBehind(ahead)
	if len(m.line.cfg.Observers) > 0 {
		n, ok, err := ahead.Ahead(ctx)
		switch {
		case err != nil:
			return nil, err
		case !ok:
			return nil, errAgain
		}
		m.waits(n + 1)
	}
	turn := terms.Rule.Behind(ahead.Node)
	var v vigil
	defer v.end()
	if err := m.await(ctx, terms, &turn, &v); err != nil {
		return nil, err
	}
	if !turn.MayGo() || !ahead.IsFirst() {
		return nil, errAgain
	}
	if err := m.look(terms, epoch); err != nil {
		return nil, err
	}
	return m.granted(), nil
}
