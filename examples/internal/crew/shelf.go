package crew

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks"
)

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
	if err := c.makeShelf(ctx, numbers); err != nil {
		c.Fail("make the shelf: %w", err)
	}
}

func (c *Crew) makeShelf(ctx context.Context, numbers []int) error {
	conn, err := zklocks.Connect(ctx, c.Servers, 5*time.Second)
	if err != nil {
		return err
	}
	defer conn.Close()
	s := Shelf{conn.Client(), c.Path, len(numbers)}
	_, err = s.Conn.Create(s.Path, nil, zk.FlagPersistent, zk.WorldACL(zk.PermAll))
	for i := 0; err == nil && i < s.Len; i++ {
		_, err = s.Conn.Create(s.node(i), []byte(strconv.Itoa(numbers[i])), zk.FlagPersistent, zk.WorldACL(zk.PermAll))
	}
	return err
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
func Sum(numbers []int) int {
	sum := 0
	for _, n := range numbers {
		sum += n
	}
	return sum
}

// Read reads the numbers of some nodes, one after the other; without arguments, of all nodes.
func (s Shelf) Read(nodes ...int) ([]int, error) {
	for i := 0; len(nodes) == i && i < s.Len; i++ {
		nodes = append(nodes, i)
	}
	numbers := make([]int, len(nodes))
	for i, node := range nodes {
		data, _, err := s.Conn.Get(s.node(node))
		if err != nil {
			return nil, err
		}
		if numbers[i], err = strconv.Atoi(string(data)); err != nil {
			return nil, err
		}
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
