package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/zkclient"
	"github.com/zklocks/zklocks/leader"
	"github.com/zklocks/zklocks/observe"
	"github.com/zklocks/zklocks/once"
	"github.com/zklocks/zklocks/reentrant"
	"github.com/zklocks/zklocks/rwlock"
	"github.com/zklocks/zklocks/semaphore"
)

// line lists the holders and waiters at a path, as -json shows them.
type line struct {
	Path    string   `json:"path"`
	Kind    string   `json:"kind"`              // rwlock, reentrant, semaphore, once; or with whose names, see look; mixed; empty if nothing is there
	Permits int      `json:"permits,omitempty"` // of a semaphore
	Missing bool     `json:"missing,omitempty"` // there is no such path
	Members []member `json:"members"`           // in the order in which they came

	Last *once.Run `json:"last,omitempty"` // of a job of package once

	below bool // there is something else below the path
}

func (l *line) held() bool {
	return slices.ContainsFunc(l.Members, func(m member) bool { return m.Holding })
}

type member struct {
	Holding bool      `json:"holding"`         // and not waiting
	Asked   bool      `json:"asked,omitempty"` // to release
	Kind    string    `json:"kind"`            // read, write, lock, permit
	Permits int       `json:"permits,omitempty"`
	Since   time.Time `json:"since"` // when it queued, by the server's clock
	Session string    `json:"session"`
	Token   int64     `json:"token"`
	Node    string    `json:"node"`
	Data    string    `json:"data,omitempty"`
}

func (l *line) add(kind string, queue []zklocks.Member) {
	for _, q := range queue {
		switch {
		case l.Kind == "":
			l.Kind = kind
		case l.Kind != kind && len(l.Members) > 0:
			l.Kind = "mixed" // they do not exclude each other
		}
		m := member{q.Holding, q.ReleaseRequested, kinds[q.Kind], 0, q.Since, sessionID(q.Session), q.Token, q.Path, string(q.Data)}
		if q.Kind == observe.KindPermits {
			m.Permits = q.Permits
		}
		l.Members = append(l.Members, m)
	}
}

func sessionID(id int64) string { return fmt.Sprintf("%#x", uint64(id)) }

// kinds are the words of -json and of the table.
var kinds = map[observe.Kind]string{
	observe.KindRead: "read", observe.KindWrite: "write", observe.KindMutex: "lock", observe.KindPermits: "permit",
}

// look determines the kind of lock at a path from its nodes: each recipe ignores the nodes of the
// others.
func look(ctx context.Context, conn *zklocks.Conn, path string) (*line, error) {
	l := &line{Path: path, Members: []member{}}
	at, err := read(ctx, conn, path)
	if l.Missing = at.missing; at.missing || err != nil && !errors.Is(err, zk.ErrNoAuth) { // Queue says which right is missing
		return l, err
	}
	for _, recipe := range []struct {
		kind  string
		queue func(context.Context) ([]zklocks.Member, error)
	}{
		{"rwlock", rwlock.New(conn, path).Queue},
		{"rwlock with Curator's names", rwlock.New(conn, path, rwlock.WithCuratorNames()).Queue},
		{"rwlock with kazoo's names", rwlock.New(conn, path, rwlock.WithKazooNames()).Queue},
		{"reentrant", reentrant.New(conn, path).Queue},
		{"leader with LeaderLatch's names", leader.New(conn, path, leader.WithLatchNames()).Queue},
	} {
		queue, err := recipe.queue(ctx)
		if err != nil {
			return nil, err
		}
		l.add(recipe.kind, queue)
	}
	if at.foreign || at.permits == 0 && l.Kind != "" {
		return l, nil
	}
	if l.Permits = at.permits; at.permits > 0 && l.Kind == "" {
		l.Kind = "semaphore"
	}
	// Without a number there may be a semaphore whose number was deleted.
	queue, err := semaphore.New(conn, path, 0).Queue(ctx)
	if err != nil {
		return nil, err
	}
	l.add("semaphore", queue)
	if l.below = l.Kind == "" && at.children > 0; !l.below {
		return l, nil
	}
	last, err := once.New(conn, path).Last(ctx)
	switch {
	case ctx.Err() != nil:
		return nil, err
	case err != nil: // what is below is not of package once
		return l, nil
	}
	running, err := look(ctx, conn, path+"/lock")
	if err != nil {
		return nil, err
	}
	return &line{Path: path, Kind: "once", Members: running.Members, Last: &last}, nil
}

// stored is what the node at the path of a lock shows.
type stored struct {
	missing  bool  // there is no node
	permits  int   // of a semaphore; 0: there is no number
	foreign  bool  // its data are no number
	version  int32 // of its data
	children int32
}

func read(ctx context.Context, conn *zklocks.Conn, path string) (at stored, err error) {
	type node struct {
		data []byte
		stat *zk.Stat
	}
	n, err := retried(ctx, func() (node, error) {
		data, stat, err := conn.Client().Get(conn.Path(path))
		return node{data, stat}, err
	})
	switch {
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		return at, err
	case err == zk.ErrNoNode:
		return stored{missing: true}, nil
	case err != nil:
		return at, fmt.Errorf("%s: %w", path, err)
	}
	at.version, at.children = n.stat.Version, n.stat.NumChildren
	if len(n.data) > 0 {
		at.permits, err = strconv.Atoi(string(n.data))
		if at.foreign = err != nil || at.permits < 1; at.foreign {
			at.permits = 0
		}
	}
	return at, nil
}

// retried makes a call of the client until a server answers or ctx ends. The client's calls wait
// until there is a server.
func retried[T any](ctx context.Context, call func() (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	answered := make(chan answer, 1)
	go func() {
		for {
			value, err := call()
			switch {
			case ctx.Err() != nil, !lostOnTheWay(err) && !zkclient.Overloaded(err):
				answered <- answer{value, err}
				return
			case zkclient.Overloaded(err):
				time.Sleep(100 * time.Millisecond) // it would be asked on and on otherwise
			}
		}
	}()
	select {
	case a := <-answered:
		return a.value, a.err
	case <-ctx.Done():
		var none T
		return none, fmt.Errorf("%w: %w", zklocks.ErrNoAnswer, ctx.Err())
	}
}

// lostOnTheWay reports whether the connection was lost before the answer arrived.
func lostOnTheWay(err error) bool {
	var network net.Error
	return errors.As(err, &network) || errors.Is(err, io.EOF) ||
		errors.Is(err, zk.ErrConnectionClosed) || errors.Is(err, zk.ErrSessionExpired) || errors.Is(err, zk.ErrSessionMoved)
}
