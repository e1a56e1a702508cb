package bench

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/wire"
	"github.com/zklocks/zklocks/internal/znode"
)

// requests sends the requests that a fair lock or semaphore needs, with names like ours, by which a
// node can be found again after a lost reply. It does nothing else: it handles neither lost replies
// nor sessions, contexts or tokens, and assumes that every waiter watches the node ahead of its
// own. It watches all readers ahead with one request, which saves requests of writers. So its
// figures are an upper bound.
type requests struct {
	job
	conn *wire.Conn
	id   string // in the names of all its nodes
}

func openRequests(ctx context.Context, j job) (lockers, error) {
	conn, err := wire.Connect(ctx, []string{j.Servers}, time.Duration(j.Timeout)*time.Millisecond)
	if err != nil {
		return nil, err
	}
	dirs := slices.Collect(ancestors(j.Path))
	for i := range j.Among {
		dirs = append(dirs, lockOf(j.Path, i))
	}
	for _, dir := range dirs {
		if _, err := conn.Create(dir, nil, 0, zk.WorldACL(zk.PermAll)); err != nil && err != zk.ErrNodeExists {
			conn.Close()
			return nil, err
		}
	}
	return &requests{job: j, conn: conn, id: znode.NewID()}, nil
}

// ancestors yields a path's ancestors, the highest first, and then the path.
func ancestors(whole string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		if parent := path.Dir(whole); parent != "/" {
			ancestors(parent)(yield)
		}
		yield(whole)
	}
}

func (r *requests) close() { r.conn.Close() }

func (r *requests) worker() func(context.Context, bool) (func() error, error) {
	return func(_ context.Context, read bool) (func() error, error) {
		node, release, err := "", r.conn.Delete, error(nil)
		switch {
		case r.Mode == several:
			return r.together()
		case r.Workers == 1:
			node, err = r.alone()
		case r.Mode == permits:
			node, err = r.permit()
		default:
			var marked bool
			if node, marked, err = r.lock(read); marked {
				release = r.deleteMarked
			}
		}
		return func() error { return release(node, -1) }, err
	}
}

var everything = zk.WorldACL(zk.PermAll)

func (r *requests) create(kind znode.Kind) (node string, err error) {
	return r.conn.Create(r.Path+"/"+znode.Prefix(r.id, kind), nil, zk.FlagEphemeral|zk.FlagSequence, everything)
}

// ahead lists the nodes ahead of a node, the nearest first.
func (r *requests) ahead(node string) ([]string, error) {
	children, _, err := r.conn.Children(r.Path)
	slices.SortFunc(children, func(a, b string) int { return strings.Compare(sequence(b), sequence(a)) })
	return children[slices.Index(children, path.Base(node))+1:], err
}

func sequence(name string) string { return name[len(name)-10:] }

// permit waits while too many nodes are ahead.
func (r *requests) permit() (node string, err error) {
	node, err = r.create(znode.Permit)
	for err == nil {
		var ahead []string
		if ahead, err = r.ahead(node); err != nil || len(ahead) < r.Permits {
			break
		}
		_, err = r.wait(ahead[:r.Permits], "")
	}
	return node, err
}

// lock waits for the writers ahead or, to write, for all members ahead. marked reports that a
// waiter behind may watch a mark.
func (r *requests) lock(read bool) (node string, marked bool, err error) {
	kind := znode.Write
	if read {
		kind = znode.Read
	}
	if node, err = r.create(kind); err == nil {
		marked, err = r.turn(node, read)
	}
	return node, marked, err
}

// turn waits until a node may hold.
func (r *requests) turn(node string, read bool) (marked bool, err error) {
	for err == nil {
		var ahead []string
		if ahead, err = r.ahead(node); err != nil {
			break
		}
		if read {
			ahead = slices.DeleteFunc(ahead, isReader)
		}
		marked = marked || !read && len(ahead) > 1
		beside := slices.IndexFunc(ahead, func(name string) bool { return !isReader(name) })
		var last bool
		switch {
		case len(ahead) == 0:
			return marked, nil
		case beside == 0 && len(ahead) == 1:
			_, err = r.wait(ahead, "")
			last = true
		case beside == 0:
			last, err = r.wait(append(ahead[:1], path.Base(node)), r.markOf(ahead[0]))
		case beside < 0:
			last, err = true, r.waitForAll(ahead, node)
		default:
			err = r.waitForAll(ahead[:beside], node)
		}
		if last {
			break
		}
	}
	return marked, err
}

// together acquires several locks: one transaction creates their nodes, each node waits for its
// turn unless the reply shows that it is alone, and one transaction deletes them.
func (r *requests) together() (release func() error, err error) {
	var creates []any
	var locks []*requests
	for _, i := range (choice{r.Among, r.AtOnce}).draw() {
		l := *r
		l.Path = lockOf(r.Path, i)
		locks = append(locks, &l)
		creates = append(creates, l.createAndCount()...)
	}
	replies, err := r.conn.Multi(creates...)
	if err != nil {
		return nil, err
	}
	deletes, errs := make([][]any, len(locks)), make([]error, len(locks))
	var all sync.WaitGroup
	for i, l := range locks {
		node, alone := replies[2*i].String, replies[2*i+1].Stat.NumChildren == 1
		all.Go(func() {
			marked := false
			if !alone {
				marked, errs[i] = l.turn(node, false)
			}
			deletes[i] = l.deletion(node, -1, marked)
		})
	}
	all.Wait()
	return func() error {
		_, err := r.conn.Multi(slices.Concat(deletes...)...)
		return err
	}, errors.Join(errs...)
}

func isReader(name string) bool { return strings.Contains(name, string(znode.Read)) }

func (r *requests) deleteMarked(node string, version int32) error {
	_, err := r.conn.Multi(r.deletion(node, version, true)...)
	return err
}

func (r *requests) deletion(node string, version int32, marked bool) (ops []any) {
	if marked {
		mark := r.markOf(path.Base(node))
		ops = append(ops, &zk.CreateRequest{Path: mark, Acl: everything, Flags: zk.FlagEphemeral}, &zk.DeleteRequest{Path: mark, Version: -1})
	}
	return append(ops, &zk.DeleteRequest{Path: node, Version: version})
}

func (r *requests) markOf(name string) string { return r.Path + "/" + name + "-released-read-write" }

// alone creates a node in a transaction whose reply shows whether it is alone.
func (r *requests) alone() (node string, err error) {
	replies, err := r.conn.Multi(r.createAndCount()...)
	if err != nil {
		return "", err
	}
	if n := replies[1].Stat.NumChildren; n != 1 {
		return "", fmt.Errorf("%s: %d children, want 1", r.Path, n)
	}
	return replies[0].String, nil
}

// createAndCount creates a node and counts the children.
func (r *requests) createAndCount() []any {
	return []any{
		&zk.CreateRequest{Path: r.Path + "/" + znode.Prefix(r.id, znode.Write), Acl: everything, Flags: zk.FlagEphemeral | zk.FlagSequence},
		&zk.SetDataRequest{Path: r.Path, Version: -1},
	}
}

// wait waits until one of the nodes is deleted. marked reports that its mark was created.
func (r *requests) wait(names []string, mark string) (marked bool, err error) {
	if len(names) == 1 {
		_, _, event, err := r.conn.GetW(r.Path + "/" + names[0])
		if err == nil {
			<-event
		}
		if err == zk.ErrNoNode {
			err = nil
		}
		return false, err
	}
	watches, err := r.conn.WatchNodes(r.paths(names), mark)
	if err != nil {
		return false, err
	}
	if slices.Contains(watches, nil) { // the node was deleted before
		return false, nil
	}
	wire.Wait(context.Background(), nil, watches...)
	for _, w := range watches {
		if event, _ := w.Fired(); event.Type == zk.EventNodeCreated {
			return true, nil
		}
	}
	return false, nil
}

// waitForAll waits until all the nodes are deleted, and also watches its own node.
func (r *requests) waitForAll(names []string, own string) error {
	watches, err := r.conn.WatchNodes(append(r.paths(names), own), "")
	if err != nil {
		return err
	}
	for _, w := range watches[:len(names)] {
		if w != nil { // otherwise the node was deleted before
			wire.Wait(context.Background(), nil, w)
		}
	}
	return nil
}

func (r *requests) paths(names []string) []string {
	paths := make([]string, len(names))
	for i, name := range names {
		paths[i] = r.Path + "/" + name
	}
	return paths
}

// localMutex is a sync.RWMutex: the lower bound for a join. If alive is set, it checks a session
// when it is locked and when it is unlocked, as a lock must before it reports that it is held.
type localMutex struct {
	mu    *sync.RWMutex
	alive func() bool
}

func openInMemory(_ context.Context, j job) (lockers, error) {
	if j.Sessions != 1 {
		return nil, fmt.Errorf("%s has one process, not %d sessions", inMemory, j.Sessions)
	}
	return localMutex{new(sync.RWMutex), func() bool { return true }}, nil
}

func openLooking(ctx context.Context, j job) (lockers, error) {
	mutex, err := openInMemory(ctx, j)
	if err != nil {
		return nil, err
	}
	conn, err := wire.Connect(ctx, []string{j.Servers}, time.Duration(j.Timeout)*time.Millisecond)
	if err != nil {
		return nil, err
	}
	// The result does not matter: without a lock no heartbeat extends the deadline.
	alive := func() bool { return conn.Alive(conn.Session()) || true }
	return connected{localMutex{mutex.(localMutex).mu, alive}, conn}, nil
}

// connected is a localMutex with the connection whose session it checks.
type connected struct {
	localMutex
	conn *wire.Conn
}

func (l connected) close() { l.conn.Close() }

func (localMutex) close() {}

func (l localMutex) worker() func(context.Context, bool) (func() error, error) {
	look := func() error {
		if !l.alive() {
			return errors.New("the session has ended")
		}
		return nil
	}
	unlock := func() error { l.mu.Unlock(); return look() }
	runlock := func() error { l.mu.RUnlock(); return look() }
	return func(_ context.Context, read bool) (func() error, error) {
		if read {
			l.mu.RLock()
			return runlock, look()
		}
		l.mu.Lock()
		return unlock, look()
	}
}
