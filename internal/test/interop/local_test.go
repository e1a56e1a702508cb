package interop

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test/contract"
	"github.com/zklocks/zklocks/internal/test/history"
	"github.com/zklocks/zklocks/internal/test/locks"
	"github.com/zklocks/zklocks/internal/wire"
	"github.com/zklocks/zklocks/leader"
	"github.com/zklocks/zklocks/reentrant"
	"github.com/zklocks/zklocks/rwlock"
)

// local is a library in this process: this one, or zk.Lock.
type local struct {
	*contract.Stage
	name     string
	on       func(conn *wire.Conn, path string) locker
	fighters []*wire.Conn
}

// locker acquires the lock in one session.
type locker func(ctx context.Context, kind string) (grip, error)

// grip is a hold.
type grip struct {
	token           int64
	give, downgrade func(context.Context) error
}

func held(h *zklocks.Hold, err error) (grip, error) {
	if err != nil {
		return grip{}, err
	}
	return grip{token: h.Token(), give: h.Release}, nil
}

func ourMutex(s *contract.Stage, opts ...reentrant.Option) *local {
	return &local{Stage: s, name: "reentrant", on: func(conn *wire.Conn, path string) locker {
		m := reentrant.New(locks.On(conn), path, opts...)
		return func(ctx context.Context, _ string) (grip, error) { return held(m.Lock(ctx)) }
	}}
}

func ourElection(s *contract.Stage, opts ...leader.Option) *local {
	return &local{Stage: s, name: "leader", on: func(conn *wire.Conn, path string) locker {
		e := leader.New(locks.On(conn), path, opts...)
		return func(ctx context.Context, _ string) (grip, error) { return held(e.Campaign(ctx)) }
	}}
}

func ourRW(s *contract.Stage, opts ...rwlock.Option) *local {
	return &local{Stage: s, name: "rwlock", on: func(conn *wire.Conn, path string) locker {
		m := rwlock.New(locks.On(conn), path, opts...)
		return func(ctx context.Context, kind string) (grip, error) {
			lock := m.Lock
			if kind == read {
				lock = m.RLock
			}
			h, err := lock(ctx)
			g, err := held(h, err)
			if err == nil {
				g.downgrade = func(ctx context.Context) error { return m.Downgrade(ctx, h) }
			}
			return g, err
		}
	}}
}

// ourAll acquires the lock at the path together with another lock that the peer does not use, each
// time in another order.
func ourAll(s *contract.Stage, at func(conn *zklocks.Conn, path, kind string) zklocks.Locker) *local {
	return &local{Stage: s, name: "All", on: func(conn *wire.Conn, path string) locker {
		c := locks.On(conn)
		other, turn := reentrant.New(c, path+"-beside"), 0
		return func(ctx context.Context, kind string) (grip, error) {
			all := []zklocks.Locker{at(c, path, kind), other}
			turn++
			if turn%2 == 0 {
				slices.Reverse(all)
			}
			return held(zklocks.All(all...).Lock(ctx))
		}
	}}
}

func allMutex(opts ...reentrant.Option) func(*zklocks.Conn, string, string) zklocks.Locker {
	return func(conn *zklocks.Conn, path, _ string) zklocks.Locker { return reentrant.New(conn, path, opts...) }
}

func allRW(opts ...rwlock.Option) func(*zklocks.Conn, string, string) zklocks.Locker {
	return func(conn *zklocks.Conn, path, kind string) zklocks.Locker {
		m := rwlock.New(conn, path, opts...)
		if kind == read {
			return m.RLocker()
		}
		return m
	}
}

func zkLock(s *contract.Stage) *local {
	return &local{Stage: s, name: "zk.Lock", on: func(conn *wire.Conn, path string) locker {
		return func(context.Context, string) (grip, error) {
			l := zk.NewLock(conn.Client(), path, zk.WorldACL(zk.PermAll))
			return grip{give: func(context.Context) error { return l.Unlock() }}, l.Lock()
		}
	}}
}

func (l *local) part() {}

func (l *local) party(string) party {
	return &localParty{local: l, lock: l.on(l.Connect(), l.Path)}
}

type localParty struct {
	*local
	lock  locker
	asked *contract.Attempt[grip]
}

func (p *localParty) take(kind string) {
	p.asked = contract.Begin(p.T, p.Ctx, func(ctx context.Context) (grip, error) { return p.lock(ctx, kind) })
}

func (p *localParty) holds() bool {
	select {
	case <-p.asked.Done:
		return p.asked.Granted().give != nil
	default:
		return false
	}
}

func (p *localParty) await()     { p.asked.Granted() }
func (p *localParty) give()      { p.Must(p.asked.Granted().give(p.Ctx)) }
func (p *localParty) downgrade() { p.Must(p.asked.Granted().downgrade(p.Ctx)) }

func (l *local) open(sessions int) {
	for len(l.fighters) < sessions {
		l.fighters = append(l.fighters, l.Connect())
	}
}

func (l *local) fight(counter string, kinds []string) (ended func() []history.Hold) {
	rec := history.NewRecorder(l.name)
	var fighters sync.WaitGroup
	for i, conn := range l.fighters {
		w := &fighter{conn: l.Witness, who: fmt.Sprintf("%s-%d", l.name, i), path: l.Path, counter: counter, rec: rec}
		lock := l.on(conn, l.Path)
		fighters.Go(func() {
			for j := range cycles {
				if err := w.cycle(l.Ctx, lock, kinds[(i+j)%len(kinds)]); err != nil {
					l.Errorf("%s: %v", w.who, err)
					return
				}
			}
		})
	}
	return func() []history.Hold {
		fighters.Wait()
		return rec.Holds()
	}
}

// fighter is a session in a fight.
type fighter struct {
	conn               *wire.Conn // for the counter
	who, path, counter string
	rec                *history.Recorder
}

// cycle acquires the lock once, and changes the number, or checks that it does not change.
func (w *fighter) cycle(ctx context.Context, lock locker, kind string) error {
	called := history.Now()
	g, err := lock(ctx, kind)
	if err != nil {
		return err
	}
	hold := history.Hold{Path: w.path, Kind: history.Exclusive, Token: g.token, Who: w.who, Called: called}
	if kind == read {
		hold.Kind = history.Shared
	}
	span := w.rec.Begin(hold)
	value, err := w.count()
	if err != nil {
		return err
	}
	if kind != read {
		value++
		if _, err := w.conn.Client().Set(w.counter, []byte(strconv.Itoa(value)), -1); err != nil {
			return err
		}
	}
	if kind == downgrade {
		span.End()
		hold.Kind, hold.Called = history.Shared, history.Now()
		if err := g.downgrade(ctx); err != nil {
			return err
		}
		span = w.rec.Begin(hold)
	}
	if kind == read || kind == downgrade {
		if now, err := w.count(); err != nil || now != value {
			return fmt.Errorf("reads %d and then %d, %v", value, now, err)
		}
	}
	span.End()
	return g.give(ctx)
}

func (w *fighter) count() (int, error) {
	data, _, err := w.conn.Client().Get(w.counter)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(string(data))
}
