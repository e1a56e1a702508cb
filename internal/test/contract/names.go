package contract

import (
	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test"
)

var names = []scenario{
	{"foreign children are ignored", strangers, 0},
}

// strange are names that belong to no member, of any recipe.
var strange = []string{
	"README", "_c_", "_c_x", "_c_-lock-0000000001", "x", "lock", "lock-", "read-", "write-", "permit-",
	"lock-12", "read-1", "write-000000001", "permit-123456789", "lock-00000000ab", "write-0000000000x",
	"lock-00000000001", "permit-99999999999999999999", "read--1", "0000000001", "-0000000001",
	"9f86d081884c7d659a2feaa0c55ad015__lock__0000000000", "9f86d081884c7d659a2feaa0c55ad015__rlock__0000000000",
	"_c_9f86d081-884c-7d65-9a2f-eaa0c55ad015-lease-0000000000", "_c_not-a-uuid-write-0000000000",
	"_c_9f86d081-884c-7d65-9a2f-eaa0c55ad015-", "Lock-0000000000", "mylock-0000000000", "lock-0000000000.old",
	"zażółć", "锁-0000000000", "lock-０００００００００１",
}

func strangers(s *scene) {
	acl := zk.WorldACL(zk.PermAll)
	s.makeDir(acl)
	for _, name := range strange {
		_, err := s.Witness.Create(s.Dir+"/"+name, nil, zk.FlagPersistent, acl)
		s.Must(err)
	}
	count := func() int { return len(test.Children(s, s.Witness, s.Dir)) - len(strange) }
	members := func(n int) {
		s.Helper()
		test.Eventually(s, soon, "members in line", func() bool { return count() == n*s.r.Nodes })
	}

	holder, c := s.client(), s.behind()
	h := holder.block()
	members(1)
	c.waitsQuietly()
	_, err := c.TryLock(s.Ctx)
	s.Is(err, zklocks.ErrBusy)
	a := c.begin(c.Lock)
	members(2)
	if q := c.queue(); len(q) != 2 || !q[0].Holding || q[1].Holding {
		s.Errorf("queue %+v", q)
	}
	s.unlock(h)
	s.unlock(a.Granted())
	h, err = c.TryLock(s.Ctx)
	s.Must(err)
	s.unlock(h)
	members(0)
	for _, name := range strange {
		s.Must(s.Witness.Delete(s.Dir+"/"+name, -1)) // no lock has deleted it
	}
}
