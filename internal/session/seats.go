package session

import (
	"sync"
	"sync/atomic"

	"github.com/zklocks/zklocks/internal/znode"
)

// Seat is a node of this process that stands in a line, as the one of the process
// that stands right behind it may know it: between two numbers in a row nobody
// stands.
type Seat struct {
	Node znode.Node

	first    atomic.Bool
	followed atomic.Bool
}

// SetFirst tells that nobody is ahead of the seat, now and for as long as it is
// there.
func (s *Seat) SetFirst() {
	if s != nil {
		s.first.Store(true)
	}
}

// IsFirst reports whether nobody is ahead of the seat, or was when it was left.
// Whether another node has taken its place is another question, see
// Client.Replace.
func (s *Seat) IsFirst() bool { return s.first.Load() }

// SetFollowed tells whether somebody waits behind the seat who has not listed the
// line.
func (s *Seat) SetFollowed(yes bool) { s.followed.Store(yes) }

// IsFollowed reports whether somebody does.
func (s *Seat) IsFollowed() bool { return s.followed.Load() }

// seats finds them by where they are.
type seats struct {
	mu sync.Mutex
	at map[seatKey]*Seat
}

type seatKey struct {
	session int64
	line    string
	seq     int64
}

// Sit returns the seat of a node that was just made, and that of the node with the
// number before it, which is nil if that is nobody's of this process. line is the
// directory, together with whom of those in it the recipe sees.
func (c *Client) Sit(session int64, line string, n znode.Node) (own, ahead *Seat) {
	own = &Seat{Node: n}
	key := seatKey{session, line, n.Seq}
	c.seats.mu.Lock()
	defer c.seats.mu.Unlock()
	if c.seats.at == nil {
		c.seats.at = make(map[seatKey]*Seat)
	}
	c.seats.at[key] = own
	key.seq--
	return own, c.seats.at[key]
}

// Rise forgets a seat. Whoever stands behind it goes on to ask it.
func (c *Client) Rise(session int64, line string, s *Seat) {
	if s == nil {
		return
	}
	c.seats.mu.Lock()
	defer c.seats.mu.Unlock()
	key := seatKey{session, line, s.Node.Seq}
	if c.seats.at[key] == s { // or another has its number: the directory was made anew
		delete(c.seats.at, key)
	}
}
