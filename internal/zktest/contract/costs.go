package contract

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/zktest"
)

var costs = []scenario{
	{"an uncontended cycle takes as few requests as promised", fewRequests, 0},
}

// received is how many packets a client has sent, by the server's account.
func received(s *scene, c *client) int {
	s.Helper()
	answer, err := zktest.Shared(s).Word("cons")
	s.Must(err)
	for line := range strings.Lines(answer) {
		if !strings.Contains(line, fmt.Sprintf("sid=0x%x,", uint64(c.conn.SessionID()))) {
			continue
		}
		_, rest, _ := strings.Cut(line, "recved=")
		count, _, _ := strings.Cut(rest, ",")
		n, err := strconv.Atoi(count)
		s.Must(err)
		return n
	}
	s.Fatalf("the server does not know session %#x:\n%s", c.conn.SessionID(), answer)
	return 0
}

func fewRequests(s *scene) {
	const cycles = 100
	s.makeDir(zk.WorldACL(zk.PermAll)) // one that stays: a container may go between two cycles
	c := s.with(zktest.Connect(s, quietSession, s.Server), nil, Settings{})
	for range 3 {
		s.unlock(c.lock())
	}
	before := received(s, c)
	for range cycles {
		s.unlock(c.lock())
	}
	n := received(s, c) - before
	s.Logf("%d requests in %d cycles", n, cycles)
	if n != cycles*s.r.Requests {
		s.Errorf("%d requests in %d cycles, want %d each", n, cycles, s.r.Requests)
	}
}
