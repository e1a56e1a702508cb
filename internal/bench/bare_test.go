package bench

import (
	"context"
	"errors"
	"fmt"
	"path"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/link"
	"github.com/zklocks/zklocks/zkconn"
)

// requests makes the requests that a fair lock or semaphore of this kind takes, and
// does nothing else: it cares neither for lost replies nor for sessions, contexts
// or tokens, and trusts everybody in the line. What it reaches is what there is to
// be had.
type requests struct {
	conn    *zk.Conn
	link    *link.Link
	dir     string
	permits int
	free    bool // nobody else comes
}

func openRequests(ctx context.Context, j job) (lockers, error) {
	conn, err := zkconn.Connect(ctx, []string{j.Servers}, time.Duration(j.Timeout)*time.Millisecond)
	if err != nil {
		return nil, err
	}
	for dir := range ancestors(j.Path) {
		if _, err := conn.Create(dir, nil, 0, zk.WorldACL(zk.PermAll)); err != nil && err != zk.ErrNodeExists {
			conn.Close()
			return nil, err
		}
	}
	return &requests{conn: conn, link: link.Of(conn), dir: j.Path, permits: max(j.Permits, 1), free: j.Workers == 1}, nil
}

// ancestors yields a path's ancestors, the highest first, and the path itself.
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
	acl := zk.WorldACL(zk.PermAll)
	var node string
	plain := func() error { return r.conn.Delete(node, -1) }
	marked := func() error {
		_, err := r.conn.Multi(
			&zk.CreateRequest{Path: markOf(node), Acl: acl, Flags: zk.FlagEphemeral},
			&zk.DeleteRequest{Path: markOf(node), Version: -1},
			&zk.DeleteRequest{Path: node, Version: -1})
		return err
	}
	if r.free {
		return func(context.Context, bool) (func() error, error) {
			var err error
			node, err = r.alone(acl)
			return plain, err
		}
	}
	return func(context.Context, bool) (func() error, error) {
		var err error
		node, err = r.conn.Create(r.dir+"/n-", nil, zk.FlagEphemeral|zk.FlagSequence, acl)
		release := plain
		for mine := path.Base(node); err == nil; {
			var children []string
			if children, _, err = r.conn.Children(r.dir); err != nil {
				break
			}
			slices.Sort(children)
			ahead := children[:slices.Index(children, mine)]
			if len(ahead) < r.permits {
				return release, nil
			}
			if r.permits > 1 || len(ahead) == 1 {
				_, err = r.wait(ahead[len(ahead)-r.permits:], "")
				continue
			}
			release = marked
			var last bool
			if last, err = r.wait([]string{ahead[len(ahead)-1], mine}, markOf(r.dir+"/"+ahead[len(ahead)-1])); last {
				break
			}
		}
		return release, err
	}
}

// alone makes a node in a transaction whose reply tells that it is the only one.
func (r *requests) alone(acl []zk.ACL) (node string, err error) {
	replies, err := r.conn.Multi(
		&zk.CreateRequest{Path: r.dir + "/n-", Acl: acl, Flags: zk.FlagEphemeral | zk.FlagSequence},
		&zk.SetDataRequest{Path: r.dir, Version: -1})
	if err != nil {
		return "", err
	}
	if n := replies[1].Stat.NumChildren; n != 1 {
		return "", fmt.Errorf("%s: %d children, want 1", r.dir, n)
	}
	return replies[0].String, nil
}

func markOf(node string) string { return node + "-released" }

// wait waits until one of the nodes is gone. marked: and its mark has been made.
func (r *requests) wait(nodes []string, mark string) (marked bool, err error) {
	paths := make([]string, len(nodes))
	for i, n := range nodes {
		paths[i] = r.dir + "/" + n
	}
	if len(nodes) == 1 {
		_, _, event, err := r.conn.GetW(paths[0])
		if err == nil {
			<-event
		}
		if err == zk.ErrNoNode {
			err = nil
		}
		return false, err
	}
	events, err := r.link.WatchAll(paths, mark)
	if err != nil {
		return false, err
	}
	cases := make([]reflect.SelectCase, len(events))
	for i, event := range events {
		cases[i] = reflect.SelectCase{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(event)}
	}
	_, event, _ := reflect.Select(cases)
	return event.Interface().(zk.Event).Type == zk.EventNodeCreated, nil
}

// localMutex is a sync.RWMutex: what a join could cost at the least. It may look
// whether a session lives when it is locked and when it is unlocked, as whoever says
// that a lock is held must.
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
	l := link.New()
	l.Connected(1, time.Hour, time.Now())
	mutex, err := openInMemory(ctx, j)
	if err != nil {
		return nil, err
	}
	return localMutex{mutex.(localMutex).mu, func() bool { return l.Alive(1) }}, nil
}

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
