package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/wire"
	"github.com/zklocks/zklocks/internal/znode"
	"github.com/zklocks/zklocks/leader"
	"github.com/zklocks/zklocks/observe"
	"github.com/zklocks/zklocks/once"
	"github.com/zklocks/zklocks/reentrant"
	"github.com/zklocks/zklocks/rwlock"
	"github.com/zklocks/zklocks/semaphore"
)

// line is the queue at a path, as -json shows it.
type line struct {
	Path    string   `json:"path"`
	Kind    string   `json:"kind"`              // rwlock, reentrant, semaphore, once; or with the names of a library, see look; mixed; empty if there is no lock
	Permits int      `json:"permits,omitempty"` // number of permits of a semaphore
	Missing bool     `json:"missing,omitempty"` // there is no such path
	Members []member `json:"members"`           // in queue order

	Last *once.Run `json:"last,omitempty"` // the last run of a job of package once

	Server string `json:"server"` // that was asked; another server may lag behind it

	resized  int64 // zxid of the last change of the number of permits
	below    bool  // the path has other children
	ensemble bool  // there are other servers
}

func (l *line) held() bool {
	return slices.ContainsFunc(l.Members, func(m member) bool { return m.Holding || m.Perhaps })
}

type member struct {
	Holding bool      `json:"holding"`           // otherwise it waits
	Perhaps bool      `json:"perhaps,omitempty"` // it may hold: it queued before the number of permits was changed
	Asked   bool      `json:"asked,omitempty"`   // asked to release
	Kind    string    `json:"kind"`              // read, write, lock, permit
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
			l.Kind = "mixed" // locks of different kinds do not exclude each other
		}
		m := member{q.Holding, !q.Holding && q.Kind == observe.KindPermits && q.Token < l.resized, q.ReleaseRequested, kinds[q.Kind], 0, q.Since, sessionID(q.Session), q.Token, q.Path, string(q.Data)}
		if q.Kind == observe.KindPermits {
			m.Permits = q.Permits
		}
		l.Members = append(l.Members, m)
	}
}

func sessionID(id int64) string { return fmt.Sprintf("%#x", uint64(id)) }

// kinds are the words for the kinds in -json and in the table.
var kinds = map[observe.Kind]string{
	observe.KindRead: "read", observe.KindWrite: "write", observe.KindMutex: "lock", observe.KindPermits: "permit",
}

// look lists the queue at a path. It determines the kind of lock from the nodes: each recipe
// ignores the nodes of the others.
func look(ctx context.Context, conn *zklocks.Conn, path string) (*line, error) {
	l := &line{Path: path, Members: []member{}, Server: conn.Client().Server()}
	at, err := read(ctx, conn, path)
	if l.Missing = at.missing; at.missing || err != nil && !errors.Is(err, zk.ErrNoAuth) { // on ErrNoAuth Queue says which right is missing
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
	if l.Permits, l.resized = at.permits, at.changed; at.permits > 0 && l.Kind == "" {
		l.Kind = "semaphore"
	}
	// If there is no number, there may be a semaphore whose number was deleted.
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
	case err != nil: // the children do not belong to package once
		return l, nil
	}
	running, err := look(ctx, conn, path+"/lock")
	if err != nil {
		return nil, err
	}
	return &line{Path: path, Kind: "once", Members: running.Members, Last: &last}, nil
}

// stored is the content of the node at the path of a lock.
type stored struct {
	missing  bool  // there is no node
	permits  int   // number of permits of a semaphore; 0: there is no number
	foreign  bool  // its data are not a number
	version  int32 // version of the data
	changed  int64 // zxid of the last change of the data
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
	at.version, at.changed, at.children = n.stat.Version, n.stat.Mzxid, n.stat.NumChildren
	at.permits = znode.Permits(n.data)
	at.foreign = len(n.data) > 0 && at.permits == 0
	return at, nil
}

// retried repeats a call of the zk client until a server answers or ctx is canceled. The client's
// calls wait for a connection.
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
			case ctx.Err() != nil, !lostOnTheWay(err) && !wire.Overloaded(err):
				answered <- answer{value, err}
				return
			case wire.Overloaded(err):
				time.Sleep(100 * time.Millisecond) // the overloaded server would receive requests without a pause
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
