package hammer

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/locks"
	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/internal/test/realzk"
	"github.com/zklocks/zklocks/internal/wire"
	"github.com/zklocks/zklocks/reentrant"
	"github.com/zklocks/zklocks/rwlock"
	"github.com/zklocks/zklocks/semaphore"
)

// TestLostReplies has the server execute each create and each delete while its reply is lost: 30
// times each, or LOST times. Half of the clients reconnect to the same member, half to another,
// which may be behind. Each acquisition must have created its nodes once, and after the release
// none of them may be left.
func TestLostReplies(t *testing.T) {
	want, clients := int64(30), 4
	test.Setting(t, "LOST", &want, func(v string) (int64, error) { clients = 16; return strconv.ParseInt(v, 10, 64) })
	// The directories stay: a create that is refused because the directory is missing has no effect
	// that could be lost.
	e := realzk.Cluster(t, 3, realzk.Options{ContainerCheck: time.Hour})
	l := &losses{TB: t, want: want / 2, witness: realzk.Connect(t, 20*time.Second, e.Addrs()...)}
	began := time.Now()
	var wg sync.WaitGroup
	for i := range clients {
		c := &forgetful{losses: l, moves: i%2 == 0}
		members := []string{e.Addrs()[i/2%3]}
		if c.moves {
			members = append(members, e.Addrs()[(i/2+1)%3])
		}
		var hosts []string
		for _, member := range members {
			p := proxy.For(t, member)
			c.proxies = append(c.proxies, p)
			hosts = append(hosts, p.Addr())
		}
		c.conn = realzk.Connect(t, 20*time.Second, hosts...)
		base := test.Path(t)
		wg.Go(func() { c.run(base) })
	}
	wg.Wait()
	row := func(c *[2]atomic.Int64) string {
		return fmt.Sprintf("%d (%d with a reconnect to another member)", c[0].Load()+c[1].Load(), c[1].Load())
	}
	t.Logf("LOST REPLIES | creates %s | deletes %s | %d clients | %v | %d orphans | %d duplicates",
		row(&l.creates), row(&l.deletes), clients, time.Since(began).Round(time.Second), l.orphans.Load(), l.duplicates.Load())
}

// losses is the campaign.
type losses struct {
	testing.TB
	want    int64 // of each, with a move and without
	witness *wire.Conn

	creates, deletes    [2]atomic.Int64 // lost; second: with a move to another member
	orphans, duplicates atomic.Int64
}

// forgetful is a client whose replies are lost.
type forgetful struct {
	*losses
	moves   bool
	proxies []*proxy.Proxy
	conn    *wire.Conn
}

// taking is one way to acquire.
type taking struct {
	dir   string
	nodes int
	take  func(context.Context) (release func(context.Context) error, err error)
}

func (c *forgetful) run(base string) {
	conn := locks.On(c.conn)
	rw, sem, mutex := rwlock.New(conn, base+"-rw"), semaphore.New(conn, base+"-sem", 3), reentrant.New(conn, base+"-mutex")
	takings := []taking{
		{base + "-rw", 1, func(ctx context.Context) (func(context.Context) error, error) {
			h, err := rw.Lock(ctx)
			return h.Release, err
		}},
		{base + "-rw", 1, func(ctx context.Context) (func(context.Context) error, error) {
			h, err := rw.RLock(ctx)
			return h.Release, err
		}},
		{base + "-sem/queue", 2, func(ctx context.Context) (func(context.Context) error, error) {
			h, err := sem.Acquire(ctx, 2)
			return h.Release, err
		}},
		{base + "-mutex", 1, func(ctx context.Context) (func(context.Context) error, error) {
			h, err := mutex.Lock(ctx)
			return h.Release, err
		}},
	}
	for _, k := range takings {
		release, err := k.take(context.Background()) // makes the directory
		if err == nil {
			err = release(context.Background())
		}
		if err != nil {
			c.Error(err)
			return
		}
	}
	kind := 0
	if c.moves {
		kind = 1
	}
	for n := 0; c.creates[kind].Load() < c.want || c.deletes[kind].Load() < c.want; n++ {
		if err := c.cycle(takings[n%len(takings)]); err != nil {
			c.Error(err)
			return
		}
	}
}

func (c *forgetful) cycle(k taking) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var release func(context.Context) error
	creates := c.seen(proxy.CreateOp)
	err := c.losing(proxy.CreateOp, &c.creates, func() (err error) {
		release, err = k.take(ctx)
		return err
	})
	if err != nil {
		return fmt.Errorf("acquire %s: %w", k.dir, err)
	}
	children, err := c.look(k.dir)
	if err != nil {
		return err
	}
	if creates = c.seen(proxy.CreateOp) - creates; len(children) != k.nodes || creates != 1 {
		c.duplicates.Add(1)
		c.Errorf("one acquisition of %d nodes has made %q, by %d creates", k.nodes, children, creates)
	}
	if err := c.losing(proxy.DeleteOp, &c.deletes, func() error { return release(ctx) }); err != nil {
		return fmt.Errorf("release %s: %w", k.dir, err)
	}
	if children, err = c.look(k.dir); len(children) > 0 {
		c.orphans.Add(int64(len(children)))
		return fmt.Errorf("%s: %q are left", k.dir, children)
	}
	return err
}

// losing runs a function whose request of that kind is executed, and not answered.
func (c *forgetful) losing(op proxy.Op, count *[2]atomic.Int64, do func() error) error {
	before := c.conn.Server()
	var f *proxy.Fault
	for _, p := range c.proxies {
		if p.Addr() == before {
			f = p.Next(op, proxy.CutAfterCommit)
		}
	}
	if f == nil {
		return fmt.Errorf("connected to %s, which is no proxy", before)
	}
	defer f.Cancel()
	if err := do(); err != nil {
		return err
	}
	moved := 0
	if c.conn.Server() != before {
		moved = 1
	}
	select {
	case <-f.Fired():
		count[moved].Add(1)
	default:
	}
	return nil
}

func (c *forgetful) seen(op proxy.Op) (n int64) {
	for _, p := range c.proxies {
		n += p.Seen(op)
	}
	return n
}

// look lists a directory after a Sync, because the witness's member may be behind.
func (c *forgetful) look(dir string) ([]string, error) {
	if _, err := c.witness.Sync(dir); err != nil {
		return nil, err
	}
	children, _, err := c.witness.Children(dir)
	if err == zk.ErrNoNode {
		return nil, nil
	}
	return children, err
}
