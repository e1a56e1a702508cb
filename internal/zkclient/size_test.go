package zkclient

import (
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/znode"
)

// bytes returns the size of an operation in a Multi, as it is sent.
func bytes(op any) int {
	const header = 4 + 1 + 4
	text := func(s string) int { return 4 + len(s) }
	switch op := op.(type) {
	case *zk.CreateRequest:
		n := header + text(op.Path) + 4 + len(op.Data) + 4 + 4
		for _, a := range op.Acl {
			n += 4 + text(a.Scheme) + text(a.ID)
		}
		return n
	case *zk.SetDataRequest:
		return header + text(op.Path) + 4 + len(op.Data) + 4
	case *zk.CheckVersionRequest:
		return header + text(op.Path) + 4
	}
	panic(op)
}

// A server closes the connection when a request is larger than its limit.
func TestTheSizeOfAClaimIsNoLessThanItIs(t *testing.T) {
	for _, length := range []int{1, 20, 100, 1000} {
		dir := "/" + strings.Repeat("a", length)
		for name, claim := range map[string]Claim{
			"a node":       {Nodes: 1},
			"touch":        {Nodes: 1, Touch: true},
			"check":        {Nodes: 1, Check: &zk.CheckVersionRequest{Path: dir}},
			"both":         {Nodes: 1, Touch: true, Check: &zk.CheckVersionRequest{Path: dir}},
			"many":         {Nodes: 100, Touch: true, Check: &zk.CheckVersionRequest{Path: dir}},
			"with data":    {Nodes: 1, Data: make([]byte, 1000), Touch: true},
			"another name": {Nodes: 1, Kind: znode.CuratorWrite, Touch: true},
		} {
			claim.Dir, claim.ACL = dir, zk.WorldACL(zk.PermAll)
			if claim.Kind == "" {
				claim.Kind = znode.Write
			}
			try := newClaimTry(nil, []Claim{claim})
			sum := 0
			for _, op := range try.ops {
				sum += bytes(op)
			}
			if size := claim.Size(); size < sum {
				t.Errorf("%s, %d: said to have %d bytes, has %d", name, length, size, sum)
			}
		}
	}
}
