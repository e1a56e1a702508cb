package wire

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
)

// Connect opens a connection to an ensemble, as zklocks.Connect does. If it fails, it leaves no
// goroutine, no network connection and no session behind.
func Connect(ctx context.Context, servers []string, sessionTimeout time.Duration, opts ...Option) (*Conn, error) {
	start := time.Now()
	addresses, err := Addresses(servers)
	if err != nil {
		return nil, err
	}
	if sessionTimeout < time.Millisecond || sessionTimeout.Milliseconds() > math.MaxInt32 {
		return nil, fmt.Errorf("zklocks: session timeout %v: want 1ms to 24 days", sessionTimeout)
	}
	var s settings
	for _, o := range opts {
		o(&s)
	}
	if s.invalid != nil {
		return nil, s.invalid
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("zklocks: connect to %s: %w", strings.Join(addresses, ", "), err)
	}

	c := newConn(addresses, sessionTimeout, s)
	if err := c.takeOver(ctx, s); err != nil {
		c.putAway(nil)
		return nil, err
	}
	c.work.Go(c.run)
	if err = c.start(ctx); err == nil {
		return c, nil
	}
	c.failed()
	limit, cancel := context.WithTimeout(context.Background(), closeLimit)
	defer cancel()
	c.end(limit.Done())
	if ctx.Err() != nil {
		err = fmt.Errorf("after %v: %w: %w", time.Since(start).Round(time.Millisecond), ctx.Err(), ErrNoAnswer)
		if last := c.LastFailure(); last != nil && !errors.Is(err, last) {
			err = fmt.Errorf("%w; last attempt: %w", err, last)
		}
	}
	c.work.Wait()
	c.hosts.lookups.Wait()
	c.putAway(nil)
	return nil, fmt.Errorf("zklocks: connect to %s: %w", strings.Join(addresses, ", "), err)
}

// start waits for the first session. If there are credentials, it waits for the answer to a
// request, too: a server may accept credentials and then refuse all requests.
func (c *Conn) start(ctx context.Context) error {
	select {
	case <-c.ready:
	case err := <-c.refusal:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
	if c.resume != nil && c.Session() == 0 {
		return ErrOver
	}
	if len(c.digests) > 0 && c.resume == nil {
		if err := c.probe(ctx); err != nil {
			return err
		}
	}
	c.returned.Store(true)
	if c.settings.follow {
		go c.followEnsemble()
	}
	return nil
}

// probe sends a request that any server answers from memory, until a server answers. Servers from
// 3.8.4 on refuse it to a client without READ on the root, which is an answer, too.
func (c *Conn) probe(ctx context.Context) error {
	for {
		changed := c.Changed()
		_, err := c.Ask(ctx, AnySession, Exists("/"))
		switch {
		case errors.Is(err, zk.ErrAuthFailed):
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case err == Throttled:
			sleep(ctx, throttlePause)
			continue
		case err != ErrUnsent && err != zk.ErrConnectionClosed && err != zk.ErrSessionExpired:
			return nil
		}
		select {
		case <-changed:
		case err := <-c.refusal:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
