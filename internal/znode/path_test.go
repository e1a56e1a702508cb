package znode

import (
	"path"
	"strings"
	"testing"
)

// An accepted path has no other spelling: a node that is created at the path, or below it, is found
// at that path.
func FuzzValidatePath(f *testing.F) {
	for _, p := range []string{
		"", "/", "a", "/a", "/a/", "//a", "/a//b", "/a/./b", "/a/../b", "/..", "/a/b..c/.d", "/zookeeper", "/zookeeper/x",
		"/zookeeperx", "/\x00", "/\x1f", "/\x7f", "/\u0085", "/\ud7ff", "/\ue000", "/\ufff0", "/\xed\xa0\x80", "/\xff", "/😀", "/日本/ü",
		"/_c_0f8fad5b-d9cb-469f-a165-70867728950e-lock-0000000000",
	} {
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, p string) {
		if err := ValidatePath(p); err != nil {
			return
		}
		if path.Clean(p) != p || !path.IsAbs(p) || p == "/" || len(p) > maxPath {
			t.Fatalf("%q was accepted, which is %q", p, path.Clean(p))
		}
		if strings.HasPrefix(p+"/", "/zookeeper/") || strings.ContainsFunc(p, func(r rune) bool { return r < ' ' || r > 0xffff }) {
			t.Fatalf("%q was accepted", p)
		}
		if up := Parent(p); up != path.Dir(p) || up != "/" && ValidatePath(up) != nil {
			t.Fatalf("%q has the parent %q", p, up)
		}
		if node := p + "/" + Prefix(NewID(), Lock) + "0000000001"; Parent(node) != p {
			t.Fatalf("%q is not below %q", node, p)
		}
	})
}
