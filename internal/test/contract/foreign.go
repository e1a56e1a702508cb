package contract

import (
	"time"
)

// foreign connects with zk.Connect, as a program that does not know zkconn. Nothing tells a call
// on such a connection that it was closed: the call looks eight times, 1+2+4+...+64 ms apart, or
// once in the middle of the close and then eight times, 50+2+4+...+64+100 ms apart.
func (s *scene) foreign() *client {
	s.Helper()
	c := s.with(s.Venue.ConnectForeign(s, session, s.Server), nil, Settings{})
	c.closing = 276 * time.Millisecond
	return c
}

// foreignBehind does it through a proxy, to be cut off.
func (s *scene) foreignBehind(timeout, grace time.Duration) *client {
	s.Helper()
	p := s.Venue.Proxy(s, s.Server)
	return s.with(s.Venue.ConnectForeign(s, timeout, p.Addr()), p, Settings{Grace: grace})
}
