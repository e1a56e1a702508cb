// Package interop runs our locks and the locks of other libraries in one queue: Apache Curator in a
// JVM, kazoo in Python, and go-zookeeper's zk.Lock. Each pair must exclude each other in both
// directions: step by step (a story), and under load (a fight), while changing a number that two
// concurrent holders would corrupt.
//
// The tests with Curator and kazoo run only with INTEROP=1, as in make interop, which installs
// them. So a run of all tests does the same on every machine.
// docs/reference/wire-format.md describes the nodes of both sides.
package interop

import (
	"testing"

	"github.com/zklocks/zklocks/internal/test/leaks"
)

func TestMain(m *testing.M) { leaks.Main(m) }
