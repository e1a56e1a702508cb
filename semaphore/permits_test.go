package semaphore_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/contract"
	"github.com/zklocks/zklocks/internal/test/locks"
	"github.com/zklocks/zklocks/internal/test/proxy"
	"github.com/zklocks/zklocks/internal/wire"
	"github.com/zklocks/zklocks/semaphore"
)

type attempt = contract.Attempt[*zklocks.Hold]

// client is a Semaphore on its own connection.
type client struct {
	*contract.Stage
	*semaphore.Semaphore
	conn *wire.Conn
}

func newClient(s *contract.Stage, permits int, opts ...semaphore.Option) *client {
	s.Helper()
	conn := s.Connect()
	return &client{s, semaphore.New(locks.On(conn), s.Path, permits, opts...), conn}
}

// behind returns a client that connects through a proxy.
func behind(s *contract.Stage, permits int) (*client, *proxy.Proxy) {
	s.Helper()
	conn, p := s.Behind()
	return &client{s, semaphore.New(locks.On(conn), s.Path, permits), conn}, p
}

func (c *client) begin(n int) *attempt {
	return contract.Begin(c, c.Ctx, func(ctx context.Context) (*zklocks.Hold, error) { return c.Acquire(ctx, n) })
}

func (c *client) acquire(n int) *zklocks.Hold { c.Helper(); return c.begin(n).Granted() }

// wait starts an Acquire and asserts the number of nodes in the queue.
func (c *client) wait(n, nodes int) *attempt {
	c.Helper()
	a := c.begin(n)
	c.InLine(nodes)
	return a
}

func release(s *contract.Stage, h *zklocks.Hold) { s.Helper(); s.Must(h.Release(s.Ctx)) }

func TestAHoldIsLostWithOneOfItsNodes(t *testing.T) {
	contract.InMemory(t, "/queue", func(s *contract.Stage) {
		c := newClient(s, 3)
		for name, check := range map[string]func(*zklocks.Hold) error{
			"verify":  func(h *zklocks.Hold) error { return h.Verify(s.Ctx) },
			"release": func(h *zklocks.Hold) error { return h.Release(s.Ctx) },
			"multi": func(h *zklocks.Hold) error {
				_, err := h.Multi(s.Ctx, &zk.SetDataRequest{Path: s.Path, Data: []byte("3"), Version: -1})
				return err
			},
		} {
			for i := range 3 {
				h := c.acquire(3)
				s.Must(s.Witness.Client().Delete(s.Dir+"/"+test.Children(s, s.Witness.Client(), s.Dir)[i], -1))
				if err := check(h); !errors.Is(err, zklocks.ErrLost) { // the first call that checks
					s.Errorf("%s without node %d: %v", name, i, err)
				}
				s.Empty()
			}
		}
	})
}

func TestBadNumbersAreErrorsAtOnce(t *testing.T) {
	contract.InMemory(t, "/queue", func(s *contract.Stage) {
		conn, p := s.Behind()
		refuses := func(err error, says string) {
			s.Helper()
			if err == nil || !strings.HasPrefix(err.Error(), "semaphore: ") || !strings.Contains(err.Error(), says) {
				s.Errorf("error %v, want one that says %q", err, says)
			}
		}
		negative := semaphore.New(locks.On(conn), s.Path, -1)
		three := semaphore.New(locks.On(conn), s.Path, 3)
		_, err := negative.Acquire(s.Ctx, 1)
		refuses(err, "-1 permits")
		for n, says := range map[int]string{-1: "at least 1", 0: "at least 1", 4: "only 3"} {
			for _, take := range []func(context.Context) (*zklocks.Hold, error){
				func(ctx context.Context) (*zklocks.Hold, error) { return three.Acquire(ctx, n) },
				func(ctx context.Context) (*zklocks.Hold, error) { return three.TryAcquire(ctx, n) },
				three.Locker(n).Lock, three.Locker(n).TryLock,
			} {
				_, err := take(s.Ctx)
				refuses(err, says)
				if n > 3 {
					s.Is(err, semaphore.ErrTooMany)
				}
			}
		}
		refuses(negative.Resize(s.Ctx, 3), "-1 permits")
		for _, n := range []int{0, -1} {
			refuses(three.Resize(s.Ctx, n), "at least 1")
		}
		func() {
			defer func() {
				if recover() == nil {
					s.Error("no panic for a nil context")
				}
			}()
			var none context.Context
			_ = three.Resize(none, 2)
		}()
		if n := p.Seen(proxy.AnyOp); n != 0 {
			s.Errorf("%d requests", n)
		}
	})
}

// A request that no server accepts is an error at once, also where the product of its size
// overflows an int.
func TestAHugeNumberOfPermitsIsAnError(t *testing.T) {
	contract.InMemory(t, "/queue", func(s *contract.Stage) {
		for _, n := range []int{100_000, math.MaxInt / 2, math.MaxInt/2 + 1, math.MaxInt - 1, math.MaxInt} {
			for i := range 4 { // the length of the path decides which size results from the overflow
				path := fmt.Sprintf("%s%s%d", s.Path, strings.Repeat("b", i), n)
				_, err := semaphore.New(locks.On(s.Connect()), path, math.MaxInt).Acquire(s.Ctx, n)
				if err == nil || !strings.Contains(err.Error(), "more than a server takes") {
					s.Errorf("%d permits: %v", n, err)
				}
			}
		}
	})
}

const soon = 20 * time.Second // longer than any step
