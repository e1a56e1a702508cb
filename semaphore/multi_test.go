package semaphore_test

import (
	"testing"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/test/contract"
)

// A hold of several permits has a node for each. A transaction succeeds only while all of them
// exist.
func TestATransactionNeedsAllPermits(t *testing.T) {
	contract.InMemory(t, "/queue", func(s *contract.Stage) {
		for i := range 3 {
			h := newClient(s, 4).acquire(3)
			children, _, err := s.Witness.Children(s.Path + "/queue")
			s.Must(err)
			if len(children) != 3 {
				t.Fatalf("nodes: %q", children)
			}
			write := &zk.SetDataRequest{Path: s.Path, Data: []byte("4"), Version: -1}
			if _, err := h.Multi(s.Ctx, write); err != nil {
				t.Error(err)
			}
			s.Must(s.Witness.Delete(s.Path+"/queue/"+children[i], -1))
			if replies, err := h.Multi(s.Ctx, write); err == nil || len(replies) != 0 {
				t.Errorf("without node %d: %+v, %v", i, replies, err)
			} else {
				s.Is(err, zklocks.ErrLost)
			}
			s.Is(h.Err(), zklocks.ErrLost)
			s.Is(h.Release(s.Ctx), zklocks.ErrLost)
			s.Empty()
		}
	})
}
