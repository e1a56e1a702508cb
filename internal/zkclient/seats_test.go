package zkclient

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/zklocks/zklocks/internal/znode"
)

func TestSeats(t *testing.T) {
	c := &Client{connection: new(connection)}
	sit := func(session int64, line string, seq int64) (own, ahead *Seat) {
		return c.Sit(session, line, znode.Node{Seq: seq})
	}
	a, ahead := sit(1, "/a", 7)
	if ahead != nil {
		t.Errorf("nobody is there, and %v is ahead", ahead.Node)
	}
	for _, other := range []struct {
		session int64
		line    string
		seq     int64
	}{{2, "/a", 8}, {1, "/b", 8}, {1, "/a", 9}, {1, "/a", 6}} {
		if _, ahead := sit(other.session, other.line, other.seq); ahead != nil {
			t.Errorf("%v stands behind %v", other, ahead.Node)
		}
	}
	_, ahead = sit(1, "/a", 8)
	if ahead != a || ahead.IsFirst() {
		t.Errorf("ahead is %v, and not the first of all", ahead)
	}
	a.SetAhead(0)
	c.Rise(1, "/a", a)
	if !ahead.IsFirst() {
		t.Error("what was known of a seat is forgotten with it")
	}
	again, _ := sit(1, "/a", 8) // in a directory made anew
	c.Rise(1, "/a", ahead)
	late, _ := sit(1, "/a", 7)
	if _, ahead := sit(1, "/a", 9); ahead != again {
		t.Error("a seat went with another of the same number")
	}
	c.Rise(1, "/a", late)
	(*Seat)(nil).SetAhead(0) // who has no seat
	c.Rise(1, "/a", nil)
}

// How many are ahead is known as soon as any seat of those that follow each other knows it.
func TestSeatsThatFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		c := &Client{connection: new(connection)}
		first, _ := c.Sit(1, "/a", znode.Node{Seq: 1})
		second, _ := c.Sit(1, "/a", znode.Node{Seq: 2})
		third, _ := c.Sit(1, "/a", znode.Node{Seq: 3})
		ahead := func() (answer string) {
			n, ok, err := third.Ahead(ctx)
			return fmt.Sprint(n, ok, err)
		}
		var answer chan string // of the last one who asked
		ask := func() {
			answers := make(chan string, 1)
			go func() { answers <- ahead() }()
			answer = answers
			synctest.Wait()
		}
		answered := func() string {
			synctest.Wait()
			select {
			case a := <-answer:
				return a
			default:
				return "none yet"
			}
		}
		for _, step := range []struct {
			what string
			do   func()
			want string
		}{
			{"none has told anything", func() {}, "none yet"},
			{"the third follows the second", func() { third.SetBehind(second) }, "none yet"},
			{"the second follows the first", func() { second.SetBehind(first) }, "none yet"},
			{"the first has listed", func() { first.SetAhead(5) }, "7 true <nil>"},
			{"the first moves", func() { first.SetAhead(4) }, "6 true <nil>"},
			{"the first holds", func() { first.SetAhead(0) }, "2 true <nil>"},
			{"the first is left", func() { c.Rise(1, "/a", first) }, "2 true <nil>"},
			{"the second has listed", func() { second.SetAhead(1) }, "2 true <nil>"},
			{"the second is left", func() { c.Rise(1, "/a", second) }, "0 false <nil>"},
		} {
			ask()
			step.do()
			if got := answered(); (got == "none yet") != (step.want == "none yet") {
				t.Errorf("%s: %s to the one who asked before, want %s", step.what, got, step.want)
			}
			if step.want == "none yet" {
				continue
			}
			if got := ahead(); got != step.want {
				t.Errorf("%s: %s, want %s", step.what, got, step.want)
			}
		}
		third.SetBehind(nil)
		ask()
		cancel()
		if got := answered(); got != "0 false context canceled" {
			t.Errorf("the caller has gone: %s", got)
		}
	})
}

func TestSeatsAreForgotten(t *testing.T) {
	c := &Client{connection: new(connection)}
	for seq := range int64(100) {
		s, _ := c.Sit(1, "/a", znode.Node{Seq: seq})
		c.Rise(1, "/a", s)
	}
	if n := len(c.seats.at); n != 0 {
		t.Errorf("%d seats of nobody", n)
	}
}
