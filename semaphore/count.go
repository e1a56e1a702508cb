package semaphore

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/zkclient"
)

// permitCount is the stored number of permits, as this Semaphore knows it.
type permitCount struct {
	path   string // the node that holds the number
	queue  string // the directory below it in which permits queue
	client *zkclient.Client
	acl    []zk.ACL

	mu     sync.Mutex
	wanted int            // what the stored number must be; 0: anything
	agreed bool           // it was, once: from then on the stored number counts
	sent   []int          // what a Resize has sent, and may be stored although it got no answer
	known  *countSnapshot // what was read last
}

// countSnapshot is one reading of the number, and what tells that it still holds.
type countSnapshot struct {
	permits int
	version int32
	queue   int64 // the czxid of the line it was read with
	watch   *zkclient.Watch

	sess  int64
	epoch uint64
}

// expected returns the number this Semaphore goes by before it has asked: 0 if
// it has none.
func (c *permitCount) expected() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.wanted
}

// fits refuses, before anything is asked, what cannot fit: until the stored
// number is known the one that is wanted counts, for it will have to be equal.
func (c *permitCount) fits(n int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if largest := slices.Max(append(c.sent, c.wanted)); !c.agreed && c.wanted != 0 && n > largest {
		return tooMany(n, largest)
	}
	return nil
}

// fitsLocked reports whether a stored number is one that this Semaphore has asked for.
func (c *permitCount) fitsLocked(stored int) bool {
	return c.agreed || c.wanted == 0 || c.wanted == stored || slices.Contains(c.sent, stored)
}

// read returns the stored number, from memory while nothing has changed. The
// first who comes stores the number he wants.
func (c *permitCount) read(ctx context.Context, sess int64) (*countSnapshot, error) {
	epoch := c.client.Epoch()
	c.mu.Lock()
	known := c.known
	c.mu.Unlock()
	if known != nil && known.sess == sess && known.epoch == epoch {
		if _, fired := known.watch.Fired(); !fired {
			return known, nil
		}
	}
	for {
		s, err := c.ask(ctx, sess)
		if err != nil {
			return nil, err
		}
		if s == nil {
			continue
		}
		s.sess, s.epoch = sess, epoch
		c.mu.Lock()
		defer c.mu.Unlock()
		if !c.fitsLocked(s.permits) {
			return nil, fmt.Errorf("%w: %s has %d permits, not %d", ErrMismatch, c.path, s.permits, c.wanted)
		}
		c.wanted, c.agreed, c.sent, c.known = s.permits, true, nil, s
		return s, nil
	}
}

// ask reads the number and the line that belongs to it, making what is missing.
// It returns nothing when it must be asked again.
func (c *permitCount) ask(ctx context.Context, sess int64) (*countSnapshot, error) {
	watch, err := c.client.Watch(ctx, sess, c.path)
	if err == zk.ErrNoNode {
		return nil, c.create(ctx)
	}
	if err != nil {
		return nil, needs(err, "READ on "+c.path)
	}
	// The watch may be one that the process set long ago, on a connection that
	// has been made anew since; if it is late, its data are old.
	data, stat, err := c.client.Get(ctx, c.path)
	switch {
	case err == zk.ErrNoNode:
		return nil, nil
	case err != nil:
		return nil, needs(err, "READ on "+c.path)
	case stat.Mzxid != watch.Stat.Mzxid || stat.Czxid != watch.Stat.Czxid:
		select {
		case event, first := <-watch.C():
			watch.Event(event, first)
			return nil, nil
		case <-ctx.Done():
			return nil, zkclient.Ended(ctx)
		}
	case len(data) == 0:
		return nil, c.fill(ctx, stat.Version)
	}
	permits, err := c.parse(data)
	if err != nil {
		return nil, err
	}
	// The czxid of the line ties the two together: the number may only change
	// behind our back if the node was deleted and made anew, and then so was
	// the line below it.
	_, dir, err := c.client.Get(ctx, c.queue)
	if err == zk.ErrNoNode {
		return nil, c.makeQueue(ctx)
	}
	if err != nil {
		return nil, needs(err, "READ on "+c.queue)
	}
	return &countSnapshot{permits: permits, version: stat.Version, queue: dir.Czxid, watch: watch}, nil
}

// create makes the node with the number that is wanted.
func (c *permitCount) create(ctx context.Context) error {
	permits := c.expected()
	if permits == 0 {
		return fmt.Errorf("%w: %s does not exist, so there is no stored number of permits to use", ErrMismatch, c.path)
	}
	err := c.client.MakeNode(ctx, c.path, format(permits), c.acl)
	if err == zk.ErrNodeExists {
		err = nil // somebody else was first
	}
	return needs(err, "CREATE on the parents of "+c.path)
}

// fill stores the number in a node that somebody has made in advance, with the
// access rights it should have, and left empty.
func (c *permitCount) fill(ctx context.Context, version int32) error {
	permits := c.expected()
	if permits == 0 {
		return fmt.Errorf("%w: %s is empty, so there is no stored number of permits to use", ErrMismatch, c.path)
	}
	if err := c.refuseForeign(ctx); err != nil {
		return err
	}
	err := c.client.Set(ctx, c.path, format(permits), version)
	if err == zk.ErrBadVersion || err == zk.ErrNoNode {
		err = nil // somebody else was first
	}
	return needs(err, "WRITE on "+c.path)
}

// write stores another number. From before it is sent until an answer says otherwise, it may be
// stored: if ctx ends first, nothing tells whether it was.
func (c *permitCount) write(ctx context.Context, permits int) error {
	c.mu.Lock()
	added := !c.agreed && !slices.Contains(c.sent, permits)
	if added {
		c.sent = append(c.sent, permits)
	}
	c.mu.Unlock()
	err := c.store(ctx, permits)
	if err != nil && added && ctx.Err() == nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.sent = slices.DeleteFunc(c.sent, func(n int) bool { return n == permits })
	}
	return err
}

func (c *permitCount) store(ctx context.Context, permits int) error {
	for {
		data, stat, err := c.client.Get(ctx, c.path)
		switch err {
		case nil:
			if len(data) > 0 {
				if _, err := c.parse(data); err != nil {
					return err
				}
			}
			if string(data) != string(format(permits)) {
				err = c.client.Set(ctx, c.path, format(permits), stat.Version)
			}
		case zk.ErrNoNode:
			err = c.client.MakeNode(ctx, c.path, format(permits), c.acl)
		}
		switch err {
		case nil:
			c.mu.Lock()
			defer c.mu.Unlock()
			c.wanted, c.agreed, c.sent, c.known = permits, true, nil, nil
			return nil
		case zk.ErrBadVersion, zk.ErrNodeExists, zk.ErrNoNode: // somebody came in between
		default:
			return needs(err, "READ and WRITE on "+c.path+", and CREATE on its parents if it does not exist")
		}
	}
}

// makeQueue makes the line below the node, which must exist: if the line's parent
// were made along with it, it would be a container, and go when it is empty.
func (c *permitCount) makeQueue(ctx context.Context) error {
	if err := c.refuseForeign(ctx); err != nil {
		return err
	}
	err := c.client.MakeLeaf(ctx, c.queue, c.acl)
	if err == zk.ErrNoNode {
		err = nil // the next reading makes it
	}
	return needs(err, "CREATE on "+c.path)
}

// forget forgets a reading.
func (c *permitCount) forget(s *countSnapshot) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == s {
		c.known = nil
	}
}

func format(permits int) []byte { return strconv.AppendInt(nil, int64(permits), 10) }

// parse reads a stored number. What is none is not shown: most likely the path is
// that of a node of somebody else, whose data do not belong in our errors.
func (c *permitCount) parse(data []byte) (int, error) {
	permits, err := strconv.Atoi(string(data))
	if err != nil || permits < 1 {
		return 0, fmt.Errorf("%w: %s holds %d bytes that are no number of permits", ErrMismatch, c.path, len(data))
	}
	return permits, nil
}

// peek reads the stored number for somebody who only looks: it makes nothing,
// and where nothing is stored nobody stands in line.
func (c *permitCount) peek(ctx context.Context) (int, error) {
	data, _, err := c.client.Get(ctx, c.path)
	if err == zk.ErrNoNode || err == nil && len(data) == 0 {
		return max(1, c.expected()), nil
	}
	if err != nil {
		return 0, needs(err, "READ on "+c.path)
	}
	return c.parse(data)
}

// needs says which right it is that the server misses, or what else it has
// against a request.
func needs(err error, right string) error {
	if err == zk.ErrNoAuth {
		return fmt.Errorf("%w: it takes %s", err, right)
	}
	return zkclient.DescribeCode(err)
}
