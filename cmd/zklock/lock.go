package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/rwlock"
	"github.com/zklocks/zklocks/semaphore"
)

// lock describes the lock to acquire.
type lock struct {
	path    string
	shared  bool
	permits int // 0: a lock, not a semaphore
	try     bool
	data    []byte
}

// locker returns a permit of a semaphore, or a lock for reading or for writing.
func (l *lock) locker(ctx context.Context, conn *zklocks.Conn) (zklocks.Locker, error) {
	data := zklocks.WithData(l.data)
	if l.permits > 0 {
		return semaphore.New(conn, l.path, l.permits, data).Locker(1), nil
	}
	// A lock would overwrite the number that a semaphore has stored at the path.
	if at, err := read(ctx, conn, l.path); err != nil && !errors.Is(err, zk.ErrNoAuth) {
		return nil, err
	} else if at.permits > 0 {
		err := fmt.Errorf("%s is a semaphore: say -permits %d, or take another path", l.path, at.permits)
		return nil, exit{exitFailed, err, fmt.Sprintf("the node has the data %d; zklock resize %s none deletes them, if no program needs them", at.permits, l.path)}
	}
	m := rwlock.New(conn, l.path, data)
	if l.shared {
		return m.RLocker(), nil
	}
	return m, nil
}
