// Inventory: shops read a stock of goods that clerks rewrite, bin after bin. The sum never changes:
// a shop that counts another sum has read during a rewrite. A clerk writes by hold.Multi, so no
// step of a rewrite takes place without its lock. Then it downgrades, to read back what it wrote,
// concurrently with other readers.
//
//	go run ./examples/inventory -servers host:2181
//	go run ./examples/inventory -servers host:2181 -unlocked
//
// It fails (exit status 1) at the first torn read, if a clerk reads back what it did not write, and
// if reads never overlapped or no clerk rewrote. The second command takes no lock and must fail,
// which shows that the check works.
package main

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/examples/internal/crew"
	"github.com/zklocks/zklocks/rwlock"
)

const bins, goods, readers = 6, 600, 4 // readers in each shop

var unlocked = flag.Bool("unlocked", false, "give each process a lock of its own, to see the check fail")

func main() { crew.Main(lead, work) }

// work is a process: a clerk, or a shop.
func work(ctx context.Context, c *crew.Crew) error {
	conn, err := zklocks.Connect(ctx, c.Servers, 5*time.Second)
	if err != nil {
		return err
	}
	defer conn.Close()
	lock, stock := rwlock.New(conn, c.Path+"/lock"), crew.Shelf{Conn: conn.Client(), Path: c.Path, Len: bins}
	if *unlocked {
		lock = rwlock.New(conn, c.Path+"/lock-"+c.Name)
	}
	if strings.HasPrefix(c.Name, "clerk") {
		return c.Repeat(ctx, 1, 100*time.Millisecond, func(int) error { return rewrite(ctx, c, lock, stock) })
	}
	return c.Repeat(ctx, readers, 10*time.Millisecond, func(i int) error {
		return zklocks.Do(ctx, lock.RLock, func(context.Context, *zklocks.Hold) error { return read(c, i, stock) })
	})
}

func read(c *crew.Crew, reader int, stock crew.Shelf) error {
	defer c.Task(reader)()
	found, err := stock.Read()
	if err == nil && crew.Sum(found) != goods {
		err = fmt.Errorf("torn read: %d are %d goods, not %d", found, crew.Sum(found), goods)
	}
	return err
}

func rewrite(ctx context.Context, c *crew.Crew, lock *rwlock.RWMutex, stock crew.Shelf) error {
	return zklocks.Do(ctx, lock.Lock, func(ctx context.Context, hold *zklocks.Hold) error {
		want := crew.Deal(goods, bins)
		if err := stock.Write(want, func(step *zk.SetDataRequest) error {
			_, err := hold.Multi(ctx, step)
			return err
		}); err != nil {
			return err
		}
		if err := lock.Downgrade(ctx, hold); err != nil {
			return err
		}
		found, err := stock.Read()
		if err == nil && !slices.Equal(found, want) {
			err = fmt.Errorf("another clerk came in between: wrote %d, read back %d", want, found)
		}
		c.Say("rewrote")
		return err
	})
}

// lead starts the processes and counts what they report.
func lead(ctx context.Context, c *crew.Crew) error {
	c.MakeShelf(ctx, crew.Deal(goods, bins))
	c.Start("shop1", "shop2", "shop3", "clerk1", "clerk2")
	reads := c.Tally(0)
	reads.Show = func() {
		c.Live("%4d reads, %2d at once (most %2d)   %3d rewrites", reads.Done, reads.Now(), reads.Most, reads.Said["rewrote"])
	}
	reads.Run(ctx, 5*time.Second, nil)
	rewrites := reads.Said["rewrote"]
	if reads.Most < 2 || rewrites == 0 {
		return fmt.Errorf("%d reads at once, %d rewrites: that shows nothing", reads.Most, rewrites)
	}
	return c.Proved("%d reads, up to %d at once, and %d rewrites in several steps: no torn read", reads.Done, reads.Most, rewrites)
}
