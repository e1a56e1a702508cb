// Package interop runs our locks and those of other libraries in one queue: Apache Curator in a
// JVM, kazoo in Python, and go-zookeeper's zk.Lock. Each pair must exclude each other in both
// directions, step by step (a story) and in a crowd (a fight) that changes a number which two at
// once would corrupt.
//
// A peer that is not installed is skipped, unless INTEROP=1 says that it must be there, as make
// interop does. docs/wire-format.md describes the nodes of both sides.
package interop

import (
	"os"
	"testing"

	"github.com/zklocks/zklocks/internal/test/leaks"
)

func TestMain(m *testing.M) { leaks.Main(m) }

// missing ends a test for which something is not installed: a JVM's library or a Python module,
// never a server. Where they are to be there, in make interop, which CI runs, that is a failure.
func missing(t *testing.T, text string) {
	t.Helper()
	if os.Getenv("INTEROP") != "" {
		t.Fatal(text)
	}
	t.Skip(text)
}
