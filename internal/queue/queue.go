package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/wire"
	"github.com/zklocks/zklocks/internal/zkclient"
	"github.com/zklocks/zklocks/internal/znode"
	"github.com/zklocks/zklocks/observe"
)

// Config has what options set, and what the recipe sets.
type Config struct {
	Conn *wire.Conn
	Dir  string // of the queue
	// Recipe is the package of the lock, and Path its path as the program gave it, for errors and
	// events.
	Recipe, Path string
	// Wrong is what the recipe finds wrong with its arguments, or nil.
	Wrong error

	ACL       []zk.ACL
	Data      []byte
	Observers []observe.Observer

	// Names are the kinds of node in the queue.
	Names Names
	// Persistent makes the directory a plain node instead of a container, which the server deletes
	// when it is empty: for clients that create the directory once and then rely on it.
	Persistent bool
	// Parent returns what the node above the directory is made with; nil: it is a container
	// without data.
	Parent func() *zk.CreateRequest
}

// Default returns the configuration without options.
func Default() Config {
	return Config{ACL: zk.WorldACL(zk.PermAll), Data: self()}
}

// MaxData is how many bytes a node may contain. It leaves room for the rest of the request, see
// zkclient.MaxRequest.
const MaxData = 512 << 10

// Queue is the directory of one lock, as this process uses it over one connection. Its methods may
// be called from any goroutine.
type Queue struct {
	client *zkclient.Client
	dir    string
	kinds  []znode.Kind
	marker string // the end of a release marker's name, see shortcut.go
	cfg    Config
	err    error // what is wrong with the arguments, or nil

	view dirView

	// readable says that this client may read its own nodes, because their ACL says so, or because
	// it has read one of them. So the server does not withhold their events.
	readable atomic.Bool
	// missing is how many directories the transaction for the next node makes: 0: none, the
	// lock's own exists; 1: the lock's own; 2: its parent, too, and so on. unread: look finds out.
	missing atomic.Int32
	// untouchable says that this client does not write the directory's data: they are another
	// program's, or the server has refused it.
	untouchable atomic.Bool
}

// ErrNoConn is the error of a lock that was made without a connection.
var ErrNoConn = errors.New("the connection is nil")

// wrong returns what is wrong with the configuration, or nil.
func (cfg Config) wrong() error {
	switch {
	case cfg.Conn == nil:
		return ErrNoConn
	case cfg.Wrong != nil:
		return cfg.Wrong
	case len(cfg.ACL) == 0:
		return fmt.Errorf("%w: WithACL needs at least one entry", zk.ErrInvalidACL)
	case isReleaseRequest(cfg.Data):
		return fmt.Errorf("WithData: %q is what asks a holder to release the lock", cfg.Data)
	case len(cfg.Data) > MaxData:
		return fmt.Errorf("WithData: %d bytes, the limit is %d", len(cfg.Data), MaxData)
	}
	return znode.ValidatePath(cfg.Dir)
}

// New returns the queue of a lock. It does no I/O. If the arguments are wrong, later calls and
// Invalid return the error.
func New(cfg Config) *Queue {
	q := &Queue{dir: cfg.Dir, cfg: cfg, err: cfg.wrong(), marker: "-released"}
	if q.err != nil {
		return q
	}
	q.client = zkclient.Of(cfg.Conn)
	q.missing.Store(unread)
	q.readable.Store(slices.ContainsFunc(cfg.ACL, func(a zk.ACL) bool {
		return a.Scheme == "world" && a.Perms&zk.PermRead != 0
	}))
	for _, name := range cfg.Names {
		q.kinds = append(q.kinds, name.Kind)
		q.marker += "-" + strings.TrimSuffix(string(name.Kind), "-")
	}
	if len(cfg.Observers) > 0 {
		q.client = q.client.Traced(func(op string, cause error) {
			q.each(func(o observe.Observer) { tell(o.Retried, observe.Retried{Path: cfg.Path, Op: op, Cause: cause}) })
		})
	}
	return q
}

// Client returns the connection; nil if the arguments are wrong.
func (q *Queue) Client() *zkclient.Client { return q.client }

// Unmade returns a queue whose calls all return an error, for the zero value of a lock.
func Unmade(what string) *Queue {
	return &Queue{err: errors.New(what + " was not made by New")}
}

// Invalid returns what is wrong with the arguments of New, or nil.
func (q *Queue) Invalid() error { return q.err }

// Wrap adds the package, an operation and the path of the lock to an error. If err is the error of
// a loss, op replaces the operation in it.
func (q *Queue) Wrap(op string, err error) error {
	if lost, ok := err.(*opError); ok && lost.queue == q {
		err = lost.err
	}
	switch {
	case err == nil:
		return nil
	case q.err != nil && q.cfg.Recipe == "": // see Unmade
		return q.err
	}
	return &opError{q, op, err}
}

// opError is the error of an operation on a lock, as Wrap returns it.
type opError struct {
	queue *Queue
	op    string
	err   error
}

func (e *opError) Error() string {
	return fmt.Sprintf("%s: %s %s: %v", e.queue.cfg.Recipe, e.op, znode.Shown(e.queue.cfg.Path), e.err)
}

func (e *opError) Unwrap() error { return e.err }

// named adds the path of the lock to the error of one of several locks. It leaves errors that
// concern all of them as they are: a closed connection, the end of ctx.
func (q *Queue) named(ctx context.Context, err error) error {
	if errors.Is(err, zkclient.ErrClosed) || ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return err
	}
	return fmt.Errorf("%s: %w", znode.Shown(q.cfg.Path), err)
}

// each calls notify for each observer; notify calls functions of the observer by tell.
func (q *Queue) each(notify func(observe.Observer)) {
	for _, o := range q.cfg.Observers {
		notify(o)
	}
}

func tell[E any](observer func(E), event E) {
	if observer != nil {
		observer(event)
	}
}

const unread = -1

// look reads the directory before its first use. The transaction that creates a waiter's node
// writes the directory's data, which stay empty: no other operation has a reply with the number of
// children, or changes a version that readers can check. So data of another program would be lost.
func (q *Queue) look(ctx context.Context, sess int64) error {
	if q.missing.Load() != unread {
		return nil
	}
	dir, err := q.client.Stat(ctx, sess, q.dir)
	switch err {
	case nil:
		return q.Saw(ctx, dir)
	case zk.ErrNoNode:
		q.missing.Store(1)
		return nil
	}
	return Explain(err, "READ on "+q.dir)
}

// Saw records an answer that shows the directory. If it has data, a queue whose names no other
// library uses is refused: no program has such a path for a reason. Any other waits in it without
// writing. A semaphore's number of permits is refused by all: the two would not exclude each other.
func (q *Queue) Saw(ctx context.Context, dir *zk.Stat) error {
	if q.missing.Load() == 0 {
		return nil
	}
	if size := dir.DataLength; 0 < size && int(size) <= znode.MaxPermits {
		switch data, _, err := q.client.Get(ctx, q.dir); {
		case err != nil && err != zk.ErrNoNode:
			return Explain(err, "READ on "+q.dir)
		case znode.Permits(data) > 0:
			return fmt.Errorf("%s is in use by a lock of another kind: it has a semaphore's number of permits (bytes of data: %d)", q.dir, len(data))
		}
	}
	if size := dir.DataLength; size > 0 {
		if slices.ContainsFunc(q.kinds, znode.Kind.Ours) {
			return fmt.Errorf("%s is in use by another program: it has data (bytes of data: %d)", q.dir, size)
		}
		q.untouchable.Store(true)
	}
	q.missing.Store(0)
	return nil
}

// dirs returns so many directories, the highest first. The transaction that creates nodes in the
// last makes them: a call that is refused leaves none behind. The server never deletes a container
// that has had no child.
func (q *Queue) dirs(n int) []*zk.CreateRequest {
	all, path := make([]*zk.CreateRequest, max(0, n)), q.dir
	for level := range all {
		dir := &zk.CreateRequest{Flags: zk.FlagContainer}
		switch {
		case level == 0 && q.cfg.Persistent:
			dir.Flags = zk.FlagPersistent
		case level == 1 && q.cfg.Parent != nil:
			dir = q.cfg.Parent()
		}
		dir.Path, dir.Acl = path, q.cfg.ACL
		all[len(all)-1-level], path = dir, znode.Parent(path)
	}
	return all
}

// list returns the nodes in order, and the directory's Stat of that moment. If there is no
// directory, it returns no nodes and nil.
func (q *Queue) list(ctx context.Context, sess int64) ([]znode.Node, *zk.Stat, error) {
	nodes, _, dir, err := q.children(ctx, sess)
	return nodes, dir, err
}

// children is list, and also returns the names of all children.
func (q *Queue) children(ctx context.Context, sess int64) (nodes []znode.Node, all []string, dir *zk.Stat, err error) {
	all, dir, err = q.client.Children(ctx, sess, q.dir)
	if err != nil && err != zk.ErrNoNode {
		return nil, nil, nil, Explain(err, "READ on "+q.dir)
	}
	nodes, err = znode.Sort(all, q.kinds...)
	return nodes, all, dir, err
}

// listAhead is list for a waiter whose first node has the number before. It returns an error if a
// lock of another kind has a node ahead, because the two would not exclude each other. If its node
// is behind, that lock has to fail.
func (q *Queue) listAhead(ctx context.Context, sess, before int64) ([]znode.Node, *zk.Stat, error) {
	nodes, all, dir, err := q.children(ctx, sess)
	if err == nil && len(nodes) < len(all) {
		if other, found := znode.Other(all, q.kinds...); found && other.Seq < before {
			return nil, nil, OtherKind(q.dir, other)
		}
	}
	return nodes, dir, err
}

// OtherKind is the error of a lock whose directory has a node of a lock that it does not exclude.
func OtherKind(dir string, n znode.Node) error {
	return fmt.Errorf("%s is in use by a lock of another kind, with the node %s: such nodes need %s", dir, n.Name, n.Kind.Makers())
}

// Explain adds to zk.ErrNoAuth the right that a client lacks, and to zk.ErrInvalidACL how to prove
// an identity.
func Explain(err error, right string) error {
	switch {
	case errors.Is(err, zk.ErrNoAuth):
		return fmt.Errorf("%w: it takes %s", err, right)
	case errors.Is(err, zk.ErrInvalidACL):
		return fmt.Errorf(`%w: the server must know the schemes of WithACL, and zk.AuthACL needs an identity: WithDigestAuth or WithSASL`, err)
	}
	return err
}

// path returns the full path of a node.
func (q *Queue) path(n znode.Node) string { return q.dir + "/" + n.Name }

func (q *Queue) paths(nodes []znode.Node) []string {
	paths := make([]string, len(nodes))
	for i, n := range nodes {
		paths[i] = q.path(n)
	}
	return paths
}

// Request asks a queue for a number of nodes of one kind.
type Request struct {
	Kind  znode.Kind
	Nodes int
	// Limit returns how many nodes may be ahead; nil: none.
	Limit func(ctx context.Context, sess int64) (Limit, error)
	// Checked is the path of the node in Limit.Check; "": there is no check.
	Checked string

	shared *sharedNode   // lets other readers of the process share the node; nil: none may
	ahead  *atomic.Int64 // of its waiter; nil: a new one
	tries  bool          // it waits for an idle holder, which leaves soon, and not for others
}

// Limit is how many nodes may be ahead of a waiter, and what must be true while the number counts.
type Limit struct {
	AllowedAhead int
	// Check must hold when the nodes are created; nil: there is nothing to check.
	Check *zk.CheckVersionRequest
	// Changed fires when the limit changes; nil: it never changes.
	Changed *zkclient.Watch
	// Dir is the czxid of the directory that the limit belongs to; 0: any. A directory that was
	// deleted and created again may have another limit.
	Dir int64
	// Missing is how many directories do not exist, see Queue.missing; 0: that is not known.
	Missing int
	// Made is called when the transaction has made what is missing; nil: nothing is.
	Made func()
	// Forget has the next call of Request.Limit read the limit again; nil: nothing was read.
	Forget func()
}

func (r Request) limit(ctx context.Context, sess int64) (Limit, error) {
	if r.Limit == nil {
		return Limit{}, nil
	}
	return r.Limit(ctx, sess)
}

func (l Limit) forget() {
	if l.Forget != nil {
		l.Forget()
	}
}

// fired reports whether a watch has fired; nil never fires.
func fired(w *zkclient.Watch) bool {
	if w == nil {
		return false
	}
	_, fired := w.Fired()
	return fired
}

func (q *Queue) rule(r Request, l Limit) rule {
	return rule{names: q.cfg.Names, mode: q.cfg.Names.mode(r.Kind), allowed: l.AllowedAhead, nodes: r.Nodes}
}
