package contract

import (
	"time"

	"github.com/zklocks/zklocks/internal/zktest"
)

// foreign connects with zk.Connect, as a program that does not know zkconn.
func (s *scene) foreign() *client {
	s.Helper()
	return s.with(zktest.ConnectForeign(s, session, s.Server), nil, Settings{})
}

// foreignBehind does it through a proxy, to be cut off.
func (s *scene) foreignBehind(timeout, grace time.Duration) *client {
	s.Helper()
	p := zktest.ProxyFor(s, s.Server)
	return s.with(zktest.ConnectForeign(s, timeout, p.Addr()), p, Settings{Grace: grace})
}
