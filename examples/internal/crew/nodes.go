package crew

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks"
)

// connected calls f, which may be nil, on a connection of its own.
func (c *Crew) connected(ctx context.Context, f func(*zk.Conn) error) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	conn, err := zklocks.Connect(ctx, c.Servers, 5*time.Second)
	if err != nil {
		return fmt.Errorf("no ZooKeeper at %s: %w", strings.Join(c.Servers, ","), err)
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })() // no call of f waits for longer
	if f == nil {
		return nil
	}
	return f(conn.Client())
}

// sweep deletes the nodes of this run. If no server can be reached they remain; they are few, and
// no program waits for them.
func (c *Crew) sweep() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = c.connected(ctx, func(conn *zk.Conn) error { removeAll(conn, c.Path); return nil })
}

func removeAll(conn *zk.Conn, path string) {
	for range 3 { // a dead worker's node may be created or deleted meanwhile
		if err := conn.Delete(path, -1); !errors.Is(err, zk.ErrNotEmpty) {
			return
		}
		children, _, _ := conn.Children(path)
		for _, child := range children {
			removeAll(conn, path+"/"+child)
		}
	}
}

// Answer calls f until a server has answered. The request of f must be repeatable: after a lost
// connection it is unknown whether the request was executed.
func Answer(f func() error) error {
	for {
		err := f()
		if op := (*net.OpError)(nil); !errors.Is(err, zk.ErrConnectionClosed) && !errors.Is(err, zk.ErrSessionExpired) && !errors.As(err, &op) {
			return err
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// step is how long a step of work on a shelf takes. It is long enough for other processes' steps to
// fall in between.
const step = 2 * time.Millisecond

// Shelf is a row of numbers, each in its own node: reading and writing it takes several steps.
type Shelf struct {
	Conn *zk.Conn
	Path string
	Len  int
}

func (s Shelf) node(i int) string { return fmt.Sprintf("%s/bin%d", s.Path, i) }

// MakeShelf creates the nodes of a shelf at c.Path. If that fails, the example fails.
func (c *Crew) MakeShelf(ctx context.Context, numbers []int) {
	err := c.connected(ctx, func(conn *zk.Conn) error {
		s := Shelf{conn, c.Path, len(numbers)}
		_, err := conn.Create(s.Path, nil, zk.FlagPersistent, zk.WorldACL(zk.PermAll))
		for i := 0; err == nil && i < s.Len; i++ {
			_, err = conn.Create(s.node(i), []byte(strconv.Itoa(numbers[i])), zk.FlagPersistent, zk.WorldACL(zk.PermAll))
		}
		return err
	})
	if err != nil {
		c.Fail("make the shelf: %w", err)
	}
}

// Deal divides a sum into n random numbers.
func Deal(sum, n int) []int {
	numbers := make([]int, n)
	for range sum {
		numbers[rand.IntN(n)]++
	}
	return numbers
}

// Sum returns the sum of the numbers.
func Sum(numbers []int) (sum int) {
	for _, n := range numbers {
		sum += n
	}
	return sum
}

// Read reads the numbers of some nodes, one after the other; without arguments, of all nodes.
func (s Shelf) Read(nodes ...int) (numbers []int, err error) {
	for i := 0; len(nodes) == i && i < s.Len; i++ {
		nodes = append(nodes, i)
	}
	for _, node := range nodes {
		data, _, err := s.Conn.Get(s.node(node))
		if err != nil {
			return nil, err
		}
		n, err := strconv.Atoi(string(data))
		if err != nil {
			return nil, err
		}
		numbers = append(numbers, n)
		time.Sleep(step)
	}
	return numbers, nil
}

// Set returns the request that writes a number.
func (s Shelf) Set(node, n int) *zk.SetDataRequest {
	return &zk.SetDataRequest{Path: s.node(node), Data: []byte(strconv.Itoa(n)), Version: -1}
}

// Write calls set for each number, one after the other.
func (s Shelf) Write(numbers []int, set func(*zk.SetDataRequest) error) error {
	for i, n := range numbers {
		if err := set(s.Set(i, n)); err != nil {
			return err
		}
		time.Sleep(step)
	}
	return nil
}
