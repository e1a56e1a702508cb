package zkclient

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/zklocks/zklocks/internal/znode"
)

// Seat is a node of this process that stands in a line, as the one of the process
// that stands right behind it may know it: between two numbers in a row nobody
// stands.
type Seat struct {
	Node znode.Node

	followed atomic.Bool

	mu     sync.Mutex
	ahead  int           // how many nodes stand ahead; unknown at first
	behind *Seat         // while unknown: the seat that it follows, which may know
	told   chan struct{} // closed when ahead or behind is set; nil if no follower waits for that
}

// How many nodes are ahead of a seat whose member has not listed the line, or has left
// before it did.
const (
	notKnown = -1 - iota
	neverKnown
)

// SetAhead tells how many nodes stand ahead of the seat. 0 stays true for as long as
// the seat is there.
func (s *Seat) SetAhead(n int) { s.tell(n, nil) }

// SetBehind tells that the seat follows another one, without having listed the line.
func (s *Seat) SetBehind(ahead *Seat) { s.tell(notKnown, ahead) }

func (s *Seat) tell(n int, behind *Seat) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ahead, s.behind = n, behind
	if s.told != nil {
		close(s.told)
		s.told = nil
	}
}

// IsFirst reports whether no node is ahead of the seat, or was when it was left.
// Whether another node has taken its place is another question, see
// Client.Replace.
func (s *Seat) IsFirst() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ahead == 0
}

// Ahead is how many nodes stand ahead of the seat, as soon as that is known. It is
// not, ok is false, when the seat was left before.
func (s *Seat) Ahead(ctx context.Context) (n int, ok bool, err error) {
	for followers := 0; ; {
		s.mu.Lock()
		n, behind := s.ahead, s.behind
		if n == notKnown && behind == nil && s.told == nil {
			s.told = make(chan struct{})
		}
		told := s.told
		s.mu.Unlock()
		switch {
		case n == neverKnown:
			return 0, false, nil
		case n != notKnown:
			return n + followers, true, nil
		case behind != nil:
			s = behind
			followers++
			continue
		}
		select {
		case <-told:
		case <-ctx.Done():
			return 0, false, Ended(ctx)
		}
	}
}

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
	own = &Seat{Node: n, ahead: notKnown}
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
	if !s.IsFirst() {
		s.SetAhead(neverKnown)
	}
	c.seats.mu.Lock()
	defer c.seats.mu.Unlock()
	key := seatKey{session, line, s.Node.Seq}
	if c.seats.at[key] == s { // or another has its number: the directory was made anew
		delete(c.seats.at, key)
	}
}
