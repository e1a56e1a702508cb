package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/reentrant"
	"github.com/zklocks/zklocks/rwlock"
	"github.com/zklocks/zklocks/semaphore"
)

// ourLocks are a connection and values that all its workers share, as in a program.
type ourLocks struct {
	conn *zklocks.Conn
	mode string
	rw   *rwlock.RWMutex
	sem  *semaphore.Semaphore
	some choice // for several
	all  []*rwlock.RWMutex
}

func openOurs(ctx context.Context, j job) (lockers, error) {
	conn, err := zklocks.Connect(ctx, []string{j.Servers}, time.Duration(j.Timeout)*time.Millisecond)
	if err != nil {
		return nil, err
	}
	l := &ourLocks{conn: conn, mode: j.Mode, some: choice{j.Among, j.AtOnce}}
	switch {
	case j.Mode == several:
		for i := range j.Among {
			l.all = append(l.all, rwlock.New(conn, lockOf(j.Path, i)))
		}
	case j.Mode == permits:
		l.sem = semaphore.New(conn, j.Path, j.Permits)
	case j.Handoff > 0:
		l.rw = rwlock.New(conn, j.Path, rwlock.WithHandoff(j.Handoff))
	default:
		l.rw = rwlock.New(conn, j.Path)
	}
	return l, nil
}

func (l *ourLocks) close() { _ = l.conn.Close() }

func (l *ourLocks) worker() func(context.Context, bool) (func() error, error) {
	// held is declared here so that a worker has one closure to release its holds. A closure for
	// each cycle would add an allocation of the harness to the allocations of the library.
	var held *zklocks.Hold
	release := func() error { return held.Release(context.Background()) }
	return func(ctx context.Context, read bool) (func() error, error) {
		var err error
		switch {
		case l.mode == several:
			var all []zklocks.Locker
			for _, i := range l.some.draw() {
				all = append(all, l.all[i])
			}
			held, err = zklocks.All(all...).Lock(ctx)
		case l.mode == permits:
			held, err = l.sem.Acquire(ctx, 1)
		case read:
			held, err = l.rw.RLock(ctx)
		default:
			held, err = l.rw.Lock(ctx)
		}
		return release, err
	}
}

// mutexes are a connection and a value that all its workers share.
type mutexes struct {
	conn  *zklocks.Conn
	mutex *reentrant.Mutex
}

func openReentrant(ctx context.Context, j job) (lockers, error) {
	if j.Mode != exclusive {
		return nil, fmt.Errorf("reentrant has no mode %s", j.Mode)
	}
	conn, err := zklocks.Connect(ctx, []string{j.Servers}, time.Duration(j.Timeout)*time.Millisecond)
	if err != nil {
		return nil, err
	}
	return &mutexes{conn: conn, mutex: reentrant.New(conn, j.Path)}, nil
}

func (m *mutexes) close() { _ = m.conn.Close() }

func (m *mutexes) worker() func(context.Context, bool) (func() error, error) {
	var held *zklocks.Hold
	release := func() error { return held.Release(context.Background()) }
	return func(ctx context.Context, _ bool) (func() error, error) {
		var err error
		held, err = m.mutex.Lock(ctx)
		return release, err
	}
}

// zkLocks are a connection. Each worker has its own zk.Lock on it, because a zk.Lock cannot be
// shared.
type zkLocks struct {
	conn *zk.Conn
	path string
	some choice        // for several
	gone chan struct{} // closed when the client's goroutines have ended
}

func openZkLock(ctx context.Context, j job) (lockers, error) {
	if j.Mode != exclusive && j.Mode != several {
		return nil, fmt.Errorf("zk.Lock has no mode %s", j.Mode)
	}
	conn, events, err := zk.Connect([]string{j.Servers}, time.Duration(j.Timeout)*time.Millisecond,
		zk.WithLogger(quiet{}), zk.WithLogInfo(false))
	if err != nil {
		return nil, err
	}
	l := &zkLocks{conn: conn, path: j.Path, some: choice{j.Among, j.AtOnce}, gone: make(chan struct{})}
	session := make(chan struct{})
	opened := sync.OnceFunc(func() { close(session) })
	go func() {
		defer close(l.gone)
		for e := range events {
			if e.State == zk.StateHasSession {
				opened()
			}
		}
	}()
	select {
	case <-session:
		return l, nil
	case <-time.After(10 * time.Second):
		conn.Close()
		return nil, fmt.Errorf("no session with %s", j.Servers)
	}
}

func (l *zkLocks) close() {
	l.conn.Close()
	<-l.gone
}

func (l *zkLocks) worker() func(context.Context, bool) (func() error, error) {
	if l.some.among > 0 {
		return l.oneByOne()
	}
	lock := zk.NewLock(l.conn, l.path, zk.WorldACL(zk.PermAll))
	return func(context.Context, bool) (func() error, error) { return lock.Unlock, lock.Lock() }
}

// oneByOne acquires several locks in the order of their names, and releases them in reverse order.
func (l *zkLocks) oneByOne() func(context.Context, bool) (func() error, error) {
	locks := make([]*zk.Lock, l.some.among)
	for i := range locks {
		locks[i] = zk.NewLock(l.conn, lockOf(l.path, i), zk.WorldACL(zk.PermAll))
	}
	return func(context.Context, bool) (func() error, error) {
		drawn := l.some.draw()
		slices.Sort(drawn)
		release := func() error {
			for _, i := range slices.Backward(drawn) {
				if err := locks[i].Unlock(); err != nil {
					return err
				}
			}
			return nil
		}
		for _, i := range drawn {
			if err := locks[i].Lock(); err != nil {
				return nil, err
			}
		}
		return release, nil
	}
}

// lockOf returns the path of lock i of several.
func lockOf(path string, i int) string { return fmt.Sprintf("%s/%d", path, i) }

// A choice is a random choice of atOnce numbers among many.
type choice struct{ among, atOnce int }

func (c choice) draw() []int { return rand.Perm(c.among)[:c.atOnce] }

type quiet struct{}

func (quiet) Printf(string, ...any) {}
