package zkclient

import (
	"testing"

	"github.com/zklocks/zklocks/internal/wire"
	"github.com/zklocks/zklocks/internal/znode"
)

// Each path that a server returns for a created node is parsed as a node with a usable sequence
// number, or as a node without any.
func FuzzMadeNodes(f *testing.F) {
	claim := Claim{Dir: "/jobs/nightly", Kind: znode.Lock, Nodes: 1}
	try := newClaimTry(nil, 1, []Claim{claim})
	for _, path := range []string{
		claim.Dir + "/" + znode.Prefix(znode.NewID(), znode.Lock) + "0000000007", claim.Dir, claim.Dir + "/", "/", "x", "/jobs",
		claim.Dir + "/lock--2147483648", claim.Dir + "/../a",
	} {
		f.Add(path)
	}
	f.Fuzz(func(t *testing.T, path string) {
		for _, n := range try.read(wire.Reply{Path: path})[0].Nodes {
			if again, ok := znode.Parse(n.Name, znode.Lock); ok && again != n || !ok && n.Usable() == nil {
				t.Errorf("%q was read as %+v", path, n)
			}
		}
	})
}
