// Package interop runs our locks and those of other libraries in one queue: Apache Curator in a
// JVM, kazoo in Python, and go-zookeeper's zk.Lock. Each pair must exclude each other in both
// directions, step by step (a story) and in a crowd (a fight) that changes a number which two at
// once would corrupt.
//
// Curator and kazoo take part with INTEROP=1, as in make interop, which installs them; without it
// their tests are skipped, so that a run of all tests does the same on every machine.
// docs/reference/wire-format.md describes the nodes of both sides.
package interop

import (
	"testing"

	"github.com/zklocks/zklocks/internal/test/leaks"
)

func TestMain(m *testing.M) { leaks.Main(m) }
