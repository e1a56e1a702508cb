package session

import (
	"testing"

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
	a.SetFirst()
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
	(*Seat)(nil).SetFirst() // who has no seat
	c.Rise(1, "/a", nil)
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
