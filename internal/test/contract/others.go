package contract

import (
	"fmt"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/znode"
)

var others = []scenario{
	{"next to a lock of another kind a Lock fails", nextToAnother, single},
	{"a lock of another kind that comes later changes nothing", anotherComesLater, single},
}

// foreign returns the prefix of a node of each kind that does not belong to the recipe's queue.
func (s *scene) foreign() map[znode.Kind]string {
	s.Helper()
	own := s.word()
	all := make(map[znode.Kind]string)
	for _, kind := range znode.Kinds {
		// Readers and writers of rwlock share a queue.
		if rw := strings.Contains(own, "write-") || strings.Contains(own, "read-"); !strings.HasSuffix(own, string(kind)) && !(rw && (kind == znode.Read || kind == znode.Write)) {
			all[kind] = znode.Prefix(znode.NewID(), kind)
		}
	}
	if len(all) < len(znode.Kinds)-2 {
		s.Fatalf("only %q are foreign", all)
	}
	return all
}

func (s *scene) another(dir, prefix string) (path string) {
	s.Helper()
	path, err := s.Witness.Client().Create(dir+"/"+prefix, nil, zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
	s.Must(err)
	return path
}

// nextToAnother has values that have used the directory before, so that they would be granted
// without a listing, and values that have not.
func nextToAnother(s *scene) {
	s.makeDir(zk.WorldACL(zk.PermAll))
	known := s.client()
	for kind, prefix := range s.foreign() {
		for _, dir := range s.dirs() {
			for range 3 {
				s.release(known.lock())
				s.release(known.block())
			}
			theirs := []string{s.another(dir, prefix), s.another(dir, prefix)} // more than there is room for
			_, err := s.Witness.Client().Set(dir, nil, -1)                     // as the locks themselves do
			s.Must(err)
			for _, c := range []*client{known, s.client()} {
				for _, call := range []lockFunc{c.Block, c.Lock, c.TryLock} {
					err := c.begin(call).Failed()
					if says := fmt.Sprint(err); !strings.Contains(says, dir+" is in use by a lock of another kind") || !strings.Contains(says, theirs[0][len(dir)+1:]+": such nodes need "+kind.Makers()) {
						s.Errorf("%s: error %q", kind, says)
					}
				}
			}
			s.Settle()
			if line := test.Children(s, s.Witness.Client(), dir); len(line) != 2 {
				s.Errorf("left: %q", line)
			}
			for _, path := range theirs {
				s.Must(s.Witness.Client().Delete(path, -1))
			}
			s.release(known.lock())
		}
	}
}

// anotherComesLater: only its owner is in the wrong place.
func anotherComesLater(s *scene) {
	foreign := s.foreign()
	holder, waiter := s.client(), s.client()
	h := holder.block()
	a := waiter.wait(2)
	var theirs []string
	for _, prefix := range foreign {
		theirs = append(theirs, s.another(s.Dir, prefix))
	}
	waiter.waits(a)
	s.Must(h.Verify(s.Ctx))
	s.release(h)
	got := a.Granted()
	s.Must(got.Verify(s.Ctx))
	for _, path := range theirs {
		s.Must(s.Witness.Client().Delete(path, -1))
	}
	s.release(got)
}
