package wire

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
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
	if s.noMechanism {
		return nil, errors.New("zklocks: WithSASL: the mechanism is nil")
	}
	for _, a := range s.auth {
		if a.user == "" || strings.Contains(a.user, ":") {
			// The error does not quote the user, which may be "user:password".
			return nil, errors.New("zklocks: WithDigestAuth: the user name must be neither empty nor contain a colon")
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("zklocks: connect to %s: %w", strings.Join(addresses, ", "), err)
	}

	c := newConn(addresses, sessionTimeout, s)
	if err := c.takeOver(ctx, s); err != nil {
		c.putAway()
		return nil, err
	}
	conn, events, err := zk.Connect(addresses, sessionTimeout,
		zk.WithHostProvider(c.hosts),
		zk.WithDialer(c.dial),
		zk.WithEventCallback(c.event),
		zk.WithLogger(c),
		zk.WithLogInfo(true),
	)
	if err != nil {
		c.putAway()
		return nil, fmt.Errorf("zklocks: connect to %s: %w", strings.Join(addresses, ", "), err)
	}
	c.client = conn
	c.work.Go(func() {
		for range events { // the callback has seen them; the channel is closed when go-zookeeper ends
		}
		c.markClosed()
	})

	over := make(chan struct{})
	fail := func() {
		c.failed()
		c.end()
		close(over)
	}
	stop := context.AfterFunc(ctx, fail) // the calls of go-zookeeper take no context, and end with go-zookeeper
	if err = c.start(ctx); stop() {
		if err == nil {
			return c, nil
		}
		fail()
	}
	<-over
	if ctx.Err() != nil {
		err = fmt.Errorf("after %v: %w: %w", time.Since(start).Round(time.Millisecond), ctx.Err(), ErrNoAnswer)
		if last := c.LastFailure(); last != nil && !errors.Is(err, last) {
			err = fmt.Errorf("%w; last attempt: %w", err, last)
		}
	}
	c.work.Wait()
	c.hosts.lookups.Wait()
	c.putAway()
	return nil, fmt.Errorf("zklocks: connect to %s: %w", strings.Join(addresses, ", "), err)
}

// start waits for the first session and authenticates it.
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
	for _, a := range c.auth {
		err := insist(ctx, func() error {
			epoch := c.Epoch()
			err := c.client.AddAuth("digest", []byte(a.user+":"+a.password))
			if err == nil && c.Epoch() != epoch {
				// go-zookeeper may have reconnected before it stored the credentials.
				return zk.ErrConnectionClosed
			}
			return err
		})
		if err == nil {
			err = insist(ctx, c.ping) // a server may accept the request and then close the connection
		}
		if err != nil {
			return fmt.Errorf("digest authentication of %q: %w", a.user, err)
		}
	}
	c.returned.Store(true)
	if c.settings.follow {
		c.work.Go(c.followEnsemble)
	}
	return nil
}

// insist repeats a call while the connection fails or the server is overloaded.
func insist(ctx context.Context, call func() error) error {
	for {
		err := call()
		var network net.Error
		switch {
		case Overloaded(err):
			sleep(ctx, throttlePause)
		case !errors.As(err, &network) && !errors.Is(err, zk.ErrConnectionClosed) && !errors.Is(err, zk.ErrSessionExpired):
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}
