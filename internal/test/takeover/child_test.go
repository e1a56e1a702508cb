package takeover

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/hold"
	"github.com/zklocks/zklocks/internal/test/history"
	"github.com/zklocks/zklocks/internal/test/realzk"
	"github.com/zklocks/zklocks/internal/wire"
)

const childEnv = "TAKEOVER_CHILD"

// order is the order to a child: the locks that it holds, and where. They exchange lines: "ready";
// "lock", then "holding"; "tell", then "told" with a report for each place. After "wait" the child
// queues at the places for that.
type order struct {
	Servers []string
	Places  []place
}

// place is one lock of a child.
type place struct {
	Recipe  string
	Path    string
	Timeout time.Duration
	Look    string // how it checks whether it holds
	Waits   bool   // it queues and never holds
}

// account is what a child has seen at one place, by its own clock, which is the parent's. A check
// counts from the instant at which it began.
type account struct {
	LastHeld  int64 // the last check that said that the lock is held
	FirstLost int64 // the first one that did not
	Woken     int64 // when a goroutine that only waited on Lost learned of the loss
	Lost      bool
}

// looks are all ways to check a hold.
var looks = map[string]func(*zklocks.Hold, context.Context) bool{
	"Held": func(h *zklocks.Hold, _ context.Context) bool { return h.Held() },
	"Lost": func(h *zklocks.Hold, _ context.Context) bool { return !closed(h.Lost()) },
	"Err":  func(_ *zklocks.Hold, ctx context.Context) bool { return ctx.Err() == nil },
	"Done": func(_ *zklocks.Hold, ctx context.Context) bool { return !closed(ctx.Done()) },
}

// post is a place with its hold.
type post struct {
	place
	conn *wire.Conn
	take acquire
	hold *zklocks.Hold
	ctx  context.Context

	mu sync.Mutex
	account
}

func child(o order) int {
	if err := o.obey(realzk.Lines()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func (o order) obey(lines <-chan string) error {
	ctx := context.Background()
	var posts []*post
	for _, p := range o.Places {
		ctx, cancel := context.WithTimeout(ctx, patience)
		conn, err := wire.Connect(ctx, o.Servers, p.Timeout)
		cancel()
		if err != nil {
			return err
		}
		r := recipeNamed(p.Recipe)
		how := r.hold
		if p.Waits {
			how = r.next
		}
		posts = append(posts, &post{place: p, conn: conn, take: how(conn, p.Path)})
	}
	fmt.Println("ready")
	var looking sync.WaitGroup
	var stop chan struct{}
	for line := range lines {
		switch line {
		case "wait":
			for _, p := range posts {
				if p.Waits {
					go func() { _, _ = p.take(ctx); panic("granted behind a hold") }()
				}
			}
		case "lock":
			for _, p := range posts {
				if p.Waits {
					continue
				}
				if err := p.lock(ctx); err != nil {
					return err
				}
			}
			stop = make(chan struct{})
			looking.Go(func() { lookAround(posts, stop) })
			fmt.Println("holding")
		case "tell":
			var all []account
			for _, p := range posts {
				for { // the connection is back: all losses have happened
					if _, _, err := p.conn.Exists("/"); err == nil {
						break
					}
				}
			}
			close(stop)
			looking.Wait()
			for _, p := range posts {
				err := p.hold.Release(ctx)
				p.mu.Lock()
				if p.Lost = errors.Is(err, hold.ErrLost); err != nil && !p.Lost {
					return err
				}
				all = append(all, p.account)
				p.mu.Unlock()
			}
			text, err := json.Marshal(all)
			if err != nil {
				return err
			}
			fmt.Println("told", string(text))
		}
	}
	return nil
}

func (p *post) lock(ctx context.Context) error {
	h, err := p.take(ctx)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hold, p.account = h, account{}
	p.ctx = h.Context(ctx)
	lost := h.Lost()
	go func() {
		<-lost // a hold that is released leaves this one behind, until the process ends
		at := history.Now()
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.hold == h {
			p.Woken = at
		}
	}()
	return nil
}

// lookAround checks one hold after the other, five thousand times a second.
func lookAround(posts []*post, stop <-chan struct{}) {
	ticker := time.NewTicker(200 * time.Microsecond)
	defer ticker.Stop()
	for {
		for _, p := range posts {
			if p.Waits {
				continue
			}
			began := history.Now()
			held := looks[p.Look](p.hold, p.ctx)
			p.mu.Lock()
			if held {
				p.LastHeld = began
			} else if p.FirstLost == 0 {
				p.FirstLost = began
			}
			p.mu.Unlock()
		}
		select {
		case <-stop:
			return
		case <-ticker.C:
		}
	}
}
