package semaphore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/queue"
	"github.com/zklocks/zklocks/internal/zkclient"
	"github.com/zklocks/zklocks/internal/znode"
)

// permitCount is this Semaphore's view of the stored number of permits.
type permitCount struct {
	path   string // the node that holds the number
	queue  string // the directory below it in which permits queue
	client *zkclient.Client
	acl    []zk.ACL
	keep   bool // store the number so that it outlives the queue
	// saw is called with the queue directory whenever it was read.
	saw func(context.Context, *zk.Stat) error

	mu     sync.Mutex      // tier 3; guards what follows
	wanted int             // until agreed: the number that must be stored, 0 for any; then the number read last
	agreed bool            // any stored number is accepted
	known  *countSnapshot  // the last reading; nil if it was forgotten
	watch  *zkclient.Watch // of the last reading, also if it was forgotten
	used   bool            // the method number was called since tire ran last
	timed  bool            // a timer will call tire
}

// countSnapshot is a reading of the number. It is valid until its watch fires.
type countSnapshot struct {
	permits int
	version int32
	watch   *zkclient.Watch
	queue   int64 // the czxid of the queue directory; 0: it is missing
	missing int   // 1: only the queue directory; 2: the number, too, and permits is the wanted number
}

// idle is how long the watch on the number is kept when no caller uses it.
const idle = 10 * time.Second

// tire drops the watch if no caller has used it for a while and no waiter waits for a change. The
// next caller reads the number again.
func (c *permitCount) tire() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.timed = c.used || !c.watch.Drop()
	if c.used = false; c.timed {
		time.AfterFunc(idle, c.tire)
	}
}

// agree records that this number is stored: from then on any stored number is accepted.
func (c *permitCount) agree(permits int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wanted, c.agreed = permits, true
}

// expected returns the number that this Semaphore would store; 0: it would store none.
func (c *permitCount) expected() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.wanted
}

// fits returns an error, without a request, if n is larger than the number that must be stored.
func (c *permitCount) fits(n int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.agreed && c.wanted > 0 && n > c.wanted {
		return tooMany(n, c.wanted)
	}
	return nil
}

// read returns the stored number, which n must not exceed; if no number is stored, the wanted
// number. It creates nothing: the transaction for the permits makes what is missing. Before it refuses n or the number, it sends a quorum request and reads again: the
// server may lag behind a Resize, or have withheld its event.
func (c *permitCount) read(ctx context.Context, sess int64, n int) (*countSnapshot, error) {
	for caughtUp := false; ; caughtUp = true {
		s, err := c.number(ctx, sess, n)
		switch {
		case err == nil && n <= s.permits:
			return s, nil
		case err == nil && caughtUp:
			return nil, tooMany(n, s.permits)
		case err == nil:
			c.forget(s)
		case caughtUp || !errors.Is(err, ErrMismatch):
			return nil, err
		}
		if err := c.client.Barrier(ctx, sess); err != nil {
			return nil, err
		}
	}
}

// number returns the number that the server shows, without a request while the watch has not fired.
func (c *permitCount) number(ctx context.Context, sess int64, n int) (*countSnapshot, error) {
	c.mu.Lock()
	known := c.known
	c.used = true
	c.mu.Unlock()
	if known != nil {
		if _, fired := known.watch.Fired(); !fired {
			return known, nil
		}
	}
	for {
		s, err := c.ask(ctx, sess, n)
		if err != nil {
			return nil, err
		}
		if s == nil {
			continue
		}
		if s.missing == 2 {
			return s, nil
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.watch = s.watch; !c.timed {
			c.timed = true
			time.AfterFunc(idle, c.tire)
		}
		if !c.agreed && c.wanted != 0 && c.wanted != s.permits {
			return nil, fmt.Errorf("%w: %s has %d permits, not %d", ErrMismatch, c.path, s.permits, c.wanted)
		}
		c.wanted, c.agreed = s.permits, true
		if s.missing == 0 {
			c.known = s
		}
		return s, nil
	}
}

// ask reads the number and the queue directory. It returns nil if the caller must ask again.
func (c *permitCount) ask(ctx context.Context, sess int64, n int) (*countSnapshot, error) {
	watch, err := c.client.Watch(ctx, sess, c.path)
	if err == zk.ErrNoNode {
		permits, err := c.given("does not exist")
		return &countSnapshot{permits: permits, missing: 2}, err
	}
	if err != nil {
		return nil, queue.Explain(err, "READ on "+c.path)
	}
	// Another waiter of the process may have set the watch long ago. The event of the watch comes
	// before the answer that shows the change, unless the server has withheld the event.
	data, stat, err := c.client.Get(ctx, c.path)
	switch {
	case err == zk.ErrNoNode:
		watch.Miss()
		return nil, nil
	case err != nil:
		return nil, queue.Explain(err, "READ on "+c.path)
	case stat.Mzxid != watch.Stat.Mzxid || stat.Czxid != watch.Stat.Czxid:
		watch.Miss()
		return nil, nil
	case len(data) == 0:
		return nil, c.fill(ctx, stat.Version, n)
	}
	permits, err := c.parse(data)
	if err != nil {
		return nil, err
	}
	s := &countSnapshot{permits: permits, version: stat.Version, watch: watch}
	// The czxid shows which number the queue directory belongs to. If the number has changed
	// although the watch has not fired, the node was deleted and created again. Then the queue
	// directory below it was, too, and has another czxid.
	switch _, dir, err := c.client.Get(ctx, c.queue); {
	case err == zk.ErrNoNode:
		s.missing = 1
	case err != nil:
		return nil, queue.Explain(err, "READ on "+c.queue)
	default:
		s.queue = dir.Czxid
		return s, c.saw(ctx, dir)
	}
	return s, nil
}

// made returns the node with the wanted number, which the first permits are created with. Unless
// keep is set, it is a container: the server deletes it some time after the last release.
func (c *permitCount) made() *zk.CreateRequest {
	node := &zk.CreateRequest{Data: format(c.expected()), Flags: zk.FlagContainer}
	if c.keep {
		node.Flags = zk.FlagPersistent
	}
	return node
}

// given returns the number that this Semaphore stores where there is none.
func (c *permitCount) given(because string) (int, error) {
	permits := c.expected()
	if permits == 0 {
		return 0, fmt.Errorf("%w: %s %s, so there is no stored number of permits to use: give New the number", ErrMismatch, c.path, because)
	}
	return permits, nil
}

// fill stores the number in an empty node. An operator may have created it, with its ACL, or
// another lock has left it.
func (c *permitCount) fill(ctx context.Context, version int32, n int) error {
	permits, err := c.given("is empty")
	switch {
	case err != nil:
		return err
	case n > permits:
		return tooMany(n, permits)
	}
	err = c.replace(ctx, permits, nil, version, c.keep)
	if err == zk.ErrBadVersion || err == zk.ErrNoNode {
		err = nil // another client has written or deleted the node
	}
	return queue.Explain(err, "WRITE on "+c.path)
}

// write stores another number, which is kept if there was none. Any stored number is accepted from
// then on: if ctx is canceled first, the result is unknown.
func (c *permitCount) write(ctx context.Context, permits int) error {
	c.mu.Lock()
	c.agreed = true
	c.mu.Unlock()
	for {
		// A server that lags behind may show a replaced number, or the number of a deleted node. So
		// may a server in the next session.
		sess, err := c.client.CatchUp(ctx)
		if err != nil {
			return err
		}
		data, stat, err := c.client.Get(ctx, c.path)
		switch {
		case !c.client.In(sess) && zkclient.Ended(ctx) == nil:
			continue
		case err == zk.ErrNoNode:
			err = c.client.MakeNode(ctx, c.path, format(permits), c.acl)
		case err == nil && string(data) != string(format(permits)):
			err = c.replace(ctx, permits, data, stat.Version, true)
		}
		switch err {
		case nil:
			c.mu.Lock()
			defer c.mu.Unlock()
			c.wanted, c.known = permits, nil
			return nil
		case zk.ErrBadVersion, zk.ErrNodeExists, zk.ErrNoNode: // another client has written, created or deleted the node
		default:
			return queue.Explain(err, "READ and WRITE on "+c.path+", and CREATE on its parents if it does not exist")
		}
	}
}

// replace stores a number in place of data, which must be a number or empty. If they are empty, it
// fails if a lock of another kind has a node there: that lock and the semaphore would not exclude
// each other. If the node is a container, as other locks create them, the server deletes it with
// the number when it has no children. So keep creates a plain queue directory below it. (A Stat
// does not show whether a node is a container.)
func (c *permitCount) replace(ctx context.Context, permits int, data []byte, version int32, keep bool) error {
	if len(data) > 0 {
		if _, err := c.parse(data); err != nil {
			return err
		}
		return c.client.Set(ctx, c.path, format(permits), version)
	}
	children, _, err := c.client.Children(ctx, zkclient.AnySession, c.path)
	if err != nil {
		return err
	}
	for _, name := range children {
		if n, other := znode.Parse(name, znode.Locks...); other {
			return fmt.Errorf("%w: %w", ErrMismatch, queue.OtherKind(c.path, n))
		}
	}
	if !keep {
		return c.client.Set(ctx, c.path, format(permits), version)
	}
	return c.client.SetWith(ctx, c.path, format(permits), version, c.queue, c.acl)
}

// forget drops a reading that is too small, or whose check the server has refused in a create.
func (c *permitCount) forget(s *countSnapshot) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == s {
		c.known = nil
	}
}

func format(permits int) []byte { return strconv.AppendInt(nil, int64(permits), 10) }

// parse parses a stored number. The error does not contain invalid data: most likely the node
// belongs to another program.
func (c *permitCount) parse(data []byte) (int, error) {
	permits := znode.Permits(data)
	if permits == 0 {
		return 0, fmt.Errorf("%w: %s holds %d bytes that are no number of permits", ErrMismatch, c.path, len(data))
	}
	return permits, nil
}

// peek reads the stored number for Queue. It creates nothing. If no number is stored, it returns
// the expected number, or 1: no waiter is queued then.
func (c *permitCount) peek(ctx context.Context) (int, error) {
	data, _, err := c.client.Get(ctx, c.path)
	if err == zk.ErrNoNode || err == nil && len(data) == 0 {
		return max(1, c.expected()), nil
	}
	if err != nil {
		return 0, queue.Explain(err, "READ on "+c.path)
	}
	return c.parse(data)
}
