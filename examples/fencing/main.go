// Fencing: holder A is frozen with SIGSTOP while it works, like a suspended machine. Its session
// expires, and B acquires the lock. Then A continues and writes once more, without noticing the
// loss. The store has seen B's larger token by then, and refuses A's write. ZooKeeper refuses it,
// too, because the hold's Guard precedes the write in a transaction.
//
//	go run ./examples/fencing -servers host:2181
//
// It fails (exit status 1) if either late write is accepted, or if A's hold reports itself as held
// at A's first call after the pause.
package main

import (
	"context"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/examples/internal/crew"
	"github.com/zklocks/zklocks/rwlock"
)

func main() { crew.Main(lead, work) }

// store stands for any service that remembers the largest token it has seen.
type store struct{ largest int64 }

func (s *store) write(token int64) error {
	if token < s.largest {
		return fmt.Errorf("%d was here before", s.largest)
	}
	s.largest = token
	return nil
}

// work is process A or B: it acquires the lock and writes twice.
func work(ctx context.Context, c *crew.Crew) error {
	conn, err := zklocks.Connect(ctx, c.Servers, 2*time.Second)
	if err != nil {
		return err
	}
	defer conn.Close()
	hold, err := rwlock.New(conn, c.Path+"/lock").Lock(ctx)
	if err != nil {
		return err
	}
	defer hold.Release(ctx)
	c.Say("%d", hold.Token())              // the first write
	if _, err := c.Hear(ctx); err != nil { // the work; A is frozen here
		return err
	}
	c.Say("%t", hold.Held())               // a careful program stops here
	c.Say("%d", hold.Token())              // the second write, although the lock is lost
	c.Say("%v", crew.Answer(func() error { // not hold.Multi, which would check the hold first
		_, err := conn.Client().Multi(hold.Guard(&zk.SetDataRequest{Path: c.Path, Data: []byte(c.Name), Version: -1})...)
		return err
	}))
	_, err = c.Hear(ctx)
	return err
}

// lead runs the store, freezes A, and continues it when B has written.
func lead(ctx context.Context, c *crew.Crew) error {
	var s store
	write := func() (token int64, err error) {
		l, err := c.Next(ctx)
		if err != nil {
			return 0, err
		}
		err = s.write(l.Int())
		c.Note("%s writes to the store, with token %d: %s", l.From, l.Int(), crew.Verdict(err))
		return l.Int(), err
	}
	c.Start("A")
	a, err := write()
	if err != nil {
		return err
	}
	c.Worker("A").Freeze()
	c.Note("A is frozen with SIGSTOP, with the lock in its hands; B wants it")
	c.Start("B")
	b, err := write()
	if err != nil || b <= a {
		return fmt.Errorf("token %d of B, after token %d of A: %v", b, a, err)
	}
	c.Worker("A").Tell("go on")
	c.Worker("A").Thaw()
	c.Note("A goes on with SIGCONT, as if nothing had happened")
	look, _ := c.Next(ctx)
	c.Note("A asks its hold, which not every program does: Held() is %s", look.Text)
	_, late := write()
	guard, err := c.Next(ctx)
	c.Note("A writes to ZooKeeper, behind hold.Guard(): %s", guard.Text)
	if err != nil || look.Text != "false" || late == nil || guard.Text != zk.ErrNoNode.Error() {
		return fmt.Errorf("the late A was not stopped everywhere: Held() is %s, store: %s, Guard: %s",
			look.Text, crew.Verdict(late), guard.Text)
	}
	return c.Proved("token %d refused after %d; late A found Held() == false, and its Guard failed", a, b)
}
