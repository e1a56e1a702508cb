package main

import (
	"context"
	"errors"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/rwlock"
	"github.com/zklocks/zklocks/semaphore"
)

// lock says which one to take, and how.
type lock struct {
	path    string
	shared  bool
	permits int // 0: a lock, not a semaphore
	try     bool
	data    []byte
}

// held is what the holds of all recipes can do.
type held interface {
	Held() bool
	Lost() <-chan struct{}
	Deadline() (time.Time, bool)
	Token() int64
	giveBack(context.Context) error
}

type locked struct{ *rwlock.Hold }

func (h locked) giveBack(ctx context.Context) error { return h.Unlock(ctx) }

type permitted struct{ *semaphore.Hold }

func (h permitted) giveBack(ctx context.Context) error { return h.Release(ctx) }

func (l lock) take(ctx context.Context, conn *zk.Conn) (held, error) {
	if l.permits > 0 {
		s := semaphore.New(conn, l.path, l.permits, semaphore.WithData(l.data))
		how := s.Acquire
		if l.try {
			how = s.TryAcquire
		}
		h, err := how(ctx, 1)
		if err != nil {
			return nil, err
		}
		return permitted{h}, nil
	}
	// A lock overwrites the number that a semaphore has stored at its path.
	if n, err := permits(ctx, conn, l.path); err != nil && !errors.Is(err, zk.ErrNoAuth) {
		return nil, err
	} else if n > 0 {
		return nil, fail(exitFailed, "%s is a semaphore: say -permits %d, or take another path", l.path, n)
	}
	m := rwlock.New(conn, l.path, rwlock.WithData(l.data))
	how := m.Lock
	switch {
	case l.shared && l.try:
		how = m.TryRLock
	case l.shared:
		how = m.RLock
	case l.try:
		how = m.TryLock
	}
	h, err := how(ctx)
	if err != nil {
		return nil, err
	}
	return locked{h}, nil
}
