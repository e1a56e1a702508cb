package queue

import (
	"context"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/hold"
	"github.com/zklocks/zklocks/internal/zkclient"
	"github.com/zklocks/zklocks/internal/znode"
)

// survey lists the line once and stays with that listing as long as striking out
// those who go can tell whether it is the member's turn. errAgain asks for the
// next listing, errRequeue says that the own nodes are gone.
func (m *member) survey(ctx context.Context, wait bool) (*Place, error) {
	client := m.line.client
	if m.lease.Alive() != nil {
		if err := client.Refresh(ctx, m.sess); err != nil {
			return nil, err
		}
	}
	epoch := client.Epoch()
	terms, err := m.entry.Terms(ctx, m.sess)
	if err != nil {
		return nil, err
	}
	m.own = nil
	line, dir, err := m.list(ctx, epoch)
	if err != nil {
		return nil, err
	}
	if missing(line, m.nodes) {
		return nil, errRequeue
	}
	if terms.Line != 0 && dir.Czxid != terms.Line {
		terms.drop() // they are those of a directory that was deleted
		return nil, errAgain
	}
	if err := m.nodes[0].Alone(line); err != nil {
		return nil, err
	}
	turn := terms.Rule.Turn(line, m.nodes[0])
	if turn.Ahead() > 1 {
		m.marks = true // those behind may have two ahead, too, and wait for a mark
	}
	m.line.crowded.Store(len(line) > len(m.nodes)+terms.Rule.Tolerate)
	var v vigil
	defer v.end()
	for struck := false; ; struck = true {
		if turn.MayGo() {
			if struck && m.own == nil {
				return nil, errAgain
			}
			if err := m.look(terms, epoch); err != nil {
				return nil, err
			}
			return m.granted(), nil
		}
		if !wait {
			return nil, hold.ErrBusy
		}
		if turn.Stale() {
			return nil, errAgain
		}
		m.seat.SetAhead(max(1, turn.Ahead())) // 0 would say that it holds
		m.waits(turn.Ahead())
		if err := m.await(ctx, terms, &turn, &v); err != nil {
			return nil, err
		}
	}
}

// list lists the line. Who has no token yet watches the own nodes at the same time.
func (m *member) list(ctx context.Context, epoch uint64) ([]znode.Node, *zk.Stat, error) {
	var l struct {
		line     []znode.Node
		dir      *zk.Stat
		arrivals *zkclient.Watch
		err      error
	}
	var beside sync.WaitGroup
	list := func() { l.line, l.dir, l.err = m.line.list(ctx, m.sess) }
	if m.token == 0 {
		beside.Go(list)
	}
	if c := m.entry.Company; c != nil && c.Calm.watches() {
		beside.Go(func() { l.arrivals = m.line.arrivals(ctx, m.sess) })
	}
	var err error
	if m.token == 0 {
		var own []*zkclient.Watch
		if own, err = m.watchAll(ctx, m.nodes); err == nil {
			err = m.keep(own)
		}
	} else {
		list()
	}
	beside.Wait()
	if l.err != nil {
		return nil, nil, l.err
	}
	if err != nil {
		return nil, nil, err
	}
	if m.entry.Company != nil {
		m.entry.Company.looked(m, l.line, l.dir, l.arrivals, epoch)
	}
	return l.line, l.dir, nil
}

// keep takes the watches of the own nodes, if these are still ours.
func (m *member) keep(own []*zkclient.Watch) error {
	for _, w := range own {
		if w == nil {
			return errRequeue
		}
		if w.Stat.EphemeralOwner != m.sess {
			return errRequeue
		}
	}
	m.own, m.token = own, own[0].Stat.Czxid
	m.line.client.Compare(m.header, m.token)
	return nil
}

// watchAll watches nodes, all at once. The watch of a node that does not exist is nil.
func (m *member) watchAll(ctx context.Context, nodes []znode.Node) ([]*zkclient.Watch, error) {
	watches := make([]*zkclient.Watch, len(nodes))
	_, err := m.each(nodes, func(i int, path string) (err error) {
		watches[i], err = m.line.client.Watch(ctx, m.sess, path)
		return err
	})
	return watches, err
}

// mostReads is how many nodes are read at once: each takes a goroutine.
const mostReads = 1000

// each reads nodes, many at once. That one does not exist is no error.
func (m *member) each(nodes []znode.Node, read func(i int, path string) error) (missing bool, err error) {
	errs := make([]error, len(nodes))
	one := func(i int) { errs[i] = read(i, m.line.path(nodes[i])) }
	for from := 0; from < len(nodes); from += mostReads {
		var some sync.WaitGroup
		for i := from + 1; i < min(from+mostReads, len(nodes)); i++ {
			some.Go(func() { one(i) })
		}
		one(from)
		some.Wait()
	}
	for i, err := range errs {
		if err != nil && err != zk.ErrNoNode {
			return false, explain(err, "READ on "+m.line.path(nodes[i]))
		}
	}
	return slices.Contains(errs, zk.ErrNoNode), nil
}

// watchBlockers watches the blockers and, if it may be the member's turn as soon as
// one of them goes, its own nodes.
func (m *member) watchBlockers(ctx context.Context, turn *Turn, nearest []znode.Node) (watches []*zkclient.Watch, err error) {
	client := m.line.client
	next := m.own == nil && turn.IsNext()
	if m.token != 0 && (turn.MayBeMarked() || next && !turn.AsksHow()) {
		return m.watchBeside(ctx, turn, nearest)
	}
	var beside sync.WaitGroup
	var own []*zkclient.Watch
	var ownErr error
	if next {
		beside.Go(func() { own, ownErr = m.watchAll(ctx, m.nodes) })
	}
	if len(nearest) == 1 {
		watches, err = m.watchAll(ctx, nearest)
	} else {
		watches, err = client.WatchAll(ctx, m.sess, m.line.pathsOf(nearest))
		err = explain(err, "READ on the nodes in "+m.line.dir)
	}
	beside.Wait()
	switch {
	case err != nil:
		return nil, err
	case ownErr != nil:
		return nil, ownErr
	case next:
		return watches, m.keep(own)
	}
	return watches, nil
}

// watchBeside watches the blockers beside the own nodes, all with one request, and
// the mark of the nearest if that is what it may be the member's turn by.
func (m *member) watchBeside(ctx context.Context, turn *Turn, nearest []znode.Node) ([]*zkclient.Watch, error) {
	mark := ""
	if turn.MayBeMarked() {
		mark = m.line.mark
	}
	paths := m.line.pathsOf(slices.Concat(nearest, m.nodes))
	watches, err := m.line.client.WatchMarked(ctx, m.sess, mark, paths)
	if err != nil {
		return nil, explain(err, "READ on the nodes in "+m.line.dir)
	}
	m.own = watches[len(nearest):]
	return watches[:len(nearest)], nil
}

// vigil is what a member waits by, from one listing to the next. The zero value has
// not begun.
type vigil struct {
	begun   bool
	watches []*zkclient.Watch // on those that the turn wants watched
	doubt   *time.Timer       // nil if the watches are not to be doubted
}

func (v *vigil) begin(watches []*zkclient.Watch) {
	v.begun, v.watches = true, watches
	if slices.ContainsFunc(watches, func(w *zkclient.Watch) bool { return w != nil && w.Stat == nil }) {
		v.doubt = time.NewTimer(patience)
	}
}

func (v *vigil) end() {
	if v.doubt != nil {
		v.doubt.Stop()
	}
}

// await watches the nearest blockers, at the beginning of the vigil, and waits until
// one of them goes or something else happens that asks for another look.
//
// If it may be the member's turn then, without another listing, the own nodes are
// watched as well: that they exist has to be known by something that is younger
// than the event. Who has to list again sees it there.
func (m *member) await(ctx context.Context, terms Terms, turn *Turn, v *vigil) error {
	nearest := turn.Watch()
	if !v.begun {
		watches, err := m.watchBlockers(ctx, turn, nearest)
		if err != nil {
			return err
		}
		v.begin(watches)
		for i, w := range watches {
			if w == nil {
				turn.Gone(nearest[i], false)
			}
		}
		v.watches = slices.DeleteFunc(watches, func(w *zkclient.Watch) bool { return w == nil })
		if len(v.watches) < len(nearest) {
			return nil
		}
	}
	i, event, err := m.next(ctx, terms, v, nearest)
	if err != nil {
		return err
	}
	switch {
	case i < 0 || !zkclient.Gone(event):
		return errAgain
	case zkclient.Marked(event):
		turn.Marked()
		return nil
	}
	stat := v.watches[i].Stat // nil if it was set with others, whose rule does not ask
	turn.Gone(nearest[i], stat != nil && stat.Mzxid == stat.Czxid)
	v.watches = slices.Delete(v.watches, i, i+1)
	return nil
}

// next waits for the first event: that of watch i or, with i < 0, one of the own
// nodes or the terms. Watches that were set without looking at the nodes are doubted
// once, after a while.
func (m *member) next(ctx context.Context, terms Terms, v *vigil, nodes []znode.Node) (i int, event zk.Event, err error) {
	var doubt <-chan time.Time
	if v.doubt != nil {
		doubt = v.doubt.C
	}
	i, event, err = m.first(ctx, terms, v.watches, doubt)
	if i != doubted {
		return i, event, err
	}
	v.doubt = nil
	missing, err := m.each(slices.Concat(nodes, m.nodes), func(_ int, path string) error {
		_, _, err := m.line.client.Get(ctx, path)
		return err
	})
	switch {
	case err != nil:
		return i, event, err
	case missing:
		return i, event, errAgain
	}
	return m.first(ctx, terms, v.watches, nil)
}

// patience is how long watches are trusted that were set without looking at the
// nodes. Whoever is not allowed to read a node is not told by that request; but
// servers from 3.8.4 and 3.9.2 on keep its events from him, and he would wait for
// ever. So then they are read, the own ones, too, which says whether it is allowed.
const patience = 5 * time.Second

// What has come first, if it is none of the watches.
const (
	another = -1 - iota
	doubted
)

// first waits for the first event: that of watch i, another or doubt.
func (m *member) first(ctx context.Context, terms Terms, watches []*zkclient.Watch, doubt <-chan time.Time) (i int, event zk.Event, err error) {
	if len(watches) == 1 && len(m.own) <= 1 {
		var own *zkclient.Watch
		var ownC <-chan zk.Event
		if len(m.own) == 1 {
			own = m.own[0]
			ownC = own.C()
		}
		select {
		case event, first := <-watches[0].C():
			return 0, watches[0].Event(event, first), nil
		case event, first := <-ownC:
			return another, own.Event(event, first), nil
		case event, first := <-terms.watchC():
			return another, terms.Watch.Event(event, first), nil
		case <-doubt:
			return doubted, zk.Event{}, nil
		case <-ctx.Done():
			return another, zk.Event{}, zkclient.Ended(ctx)
		}
	}
	all := make([]*zkclient.Watch, 0, len(watches)+len(m.own)+1)
	all = append(append(all, watches...), m.own...)
	if terms.Watch != nil {
		all = append(all, terms.Watch)
	}
	j, event := receive(all, ctx.Done(), doubt)
	switch {
	case j == len(all):
		return another, zk.Event{}, zkclient.Ended(ctx)
	case j > len(all):
		return doubted, zk.Event{}, nil
	case j >= len(watches):
		j = another
	}
	return j, event, nil
}

// mostWatches is how many of them one select waits for: reflect.Select takes 65,536 cases.
const mostWatches = 60_000

// receive waits for the first event of the watches, or for one of the other channels, whose
// index comes after those of the watches.
func receive(watches []*zkclient.Watch, others ...any) (int, zk.Event) {
	if len(watches) > mostWatches {
		return receiveInParts(watches, others)
	}
	cases := make([]reflect.SelectCase, 0, len(watches)+len(others))
	for _, w := range watches {
		cases = append(cases, reflect.SelectCase{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(w.C())})
	}
	for _, other := range others {
		cases = append(cases, reflect.SelectCase{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(other)})
	}
	i, value, first := reflect.Select(cases)
	if i >= len(watches) {
		return i, zk.Event{}
	}
	event, _ := value.Interface().(zk.Event)
	return i, watches[i].Event(event, first)
}

// receiveInParts waits for each part of the watches on a goroutine of its own. An event that
// comes second is not lost: its watch knows it.
func receiveInParts(watches []*zkclient.Watch, others []any) (int, zk.Event) {
	type result struct {
		i     int
		event zk.Event
	}
	results := make(chan result, len(watches)/mostWatches+1)
	stop := make(chan struct{})
	var parts sync.WaitGroup
	for from := 0; from < len(watches); from += mostWatches {
		part := watches[from:min(from+mostWatches, len(watches))]
		parts.Go(func() {
			if i, event := receive(part, stop); i < len(part) {
				results <- result{from + i, event}
			}
		})
	}
	defer parts.Wait()
	defer close(stop)
	cases := []reflect.SelectCase{{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(results)}}
	for _, other := range others {
		cases = append(cases, reflect.SelectCase{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(other)})
	}
	i, value, _ := reflect.Select(cases)
	if i > 0 {
		return len(watches) + i - 1, zk.Event{}
	}
	first := value.Interface().(result)
	return first.i, first.event
}
