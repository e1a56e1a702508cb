// Transfer: tellers move money between accounts, and auditors count it. Each account has its own
// lock. zklocks.All takes several locks together, in any order. A teller is killed at work.
//
//	go run ./examples/transfer -servers host:2181 [-loop | -unlocked]
//
// It fails (exit status 1) if the sum has changed, or if the transfers stop. -loop takes the locks
// one after the other, -unlocked takes no common locks: both must fail, or the checks are wrong.
package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/examples/internal/crew"
	"github.com/zklocks/zklocks/rwlock"
)

const accounts, money, desks = 5, 500, 3 // desks of each teller
var loop = flag.Bool("loop", false, "take the locks one after the other, to see the processes wait forever")
var unlocked = flag.Bool("unlocked", false, "give each process locks of its own, to see the sum change")

func main() { crew.Main(lead, work) }

// work is a process: a teller, or an auditor.
func work(ctx context.Context, c *crew.Crew) error {
	conn, err := zklocks.Connect(ctx, c.Servers, 5*time.Second)
	if err != nil {
		return err
	}
	defer conn.Close()
	bank := crew.Shelf{Conn: conn.Client(), Path: c.Path, Len: accounts}
	path := c.Path
	if *unlocked {
		path += "/of-" + c.Name
	}
	var locks [accounts]*rwlock.RWMutex
	for i := range locks {
		locks[i] = rwlock.New(conn, fmt.Sprintf("%s/lock%d", path, i))
	}
	if strings.HasPrefix(c.Name, "teller") {
		return c.Repeat(ctx, desks, 10*time.Millisecond, func(int) error {
			two := rand.Perm(accounts)[:2] // from, to
			return locked(ctx, func(ctx context.Context, hold *zklocks.Hold) error {
				defer c.Say("moved")
				has, err := bank.Read(two...)
				if err == nil {
					amount := rand.IntN(has[0] + 1)
					_, err = hold.Multi(ctx, bank.Set(two[0], has[0]-amount), bank.Set(two[1], has[1]+amount))
				}
				return err
			}, locks[two[0]], locks[two[1]])
		})
	}
	var all []zklocks.Locker
	for _, i := range rand.Perm(accounts) {
		all = append(all, locks[i].RLocker())
	}
	return c.Repeat(ctx, 1, 50*time.Millisecond, func(int) error {
		return locked(ctx, func(context.Context, *zklocks.Hold) error {
			defer c.Say("counted")
			found, err := bank.Read()
			if err == nil && crew.Sum(found) != money {
				err = fmt.Errorf("the accounts have %d, which is %d and not %d", found, crew.Sum(found), money)
			}
			return err
		}, all...)
	})
}

// locked calls work while it holds all locks.
func locked(ctx context.Context, work func(context.Context, *zklocks.Hold) error, locks ...zklocks.Locker) error {
	if *loop && len(locks) > 1 {
		next := func(ctx context.Context, _ *zklocks.Hold) error { return locked(ctx, work, locks[1:]...) }
		return zklocks.Do(ctx, locks[0].Lock, next)
	}
	return zklocks.Do(ctx, zklocks.All(locks...).Lock, work)
}

// lead starts the processes and counts what they report.
func lead(ctx context.Context, c *crew.Crew) error {
	c.MakeShelf(ctx, crew.Deal(money, accounts))
	c.Start("teller1", "teller2", "teller3", "auditor1", "auditor2")
	t := c.Tally(0)
	t.Show = func() { c.Live("%4d transfers   %3d audits", t.Said["moved"], t.Said["counted"]) }
	t.Run(ctx, 2*time.Second, nil)
	c.Note("SIGKILL to teller1, at work: its locks stay taken until its session expires")
	c.Worker("teller1").Kill()
	t.Run(ctx, 6*time.Second, nil) // its session ends
	before := t.Said["moved"]
	t.Run(ctx, 2*time.Second, nil)
	if t.Said["moved"] == before || t.Said["counted"] == 0 {
		return fmt.Errorf("%d transfers, none in the last 2 s: the processes wait for each other", before)
	}
	return c.Proved("%d transfers, %d audits: the sum was always %d", t.Said["moved"], t.Said["counted"], money)
}
