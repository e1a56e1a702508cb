// Package hostile counts what the locks leave behind when they are canceled or lose their sessions
// over and over. The tests run one after the other: they count what the whole process and the
// shared server have.
//
// A little of the counting is part of `go test ./...`. With LEAKS=1 in the environment it is the
// full size (go run ./internal/test/suite leaks), which these change:
//
//	LEAKS_CANCELED=100000   waits that are canceled
//	LEAKS_SESSIONS=10000    sessions that expire under holders and a waiter
//	LEAKS_WAITERS=1000      waiters of one queue, whose cost is measured
//	LEAKS_KEYS=20000        paths that are used once
package hostile

import (
	"os"
	"strconv"
	"testing"

	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/contract"
)

func TestMain(m *testing.M) { contract.Main(m) }

// setting is a number from the environment.
func setting(t *testing.T, name string, short, full int) int {
	t.Helper()
	n := short
	if os.Getenv("LEAKS") != "" {
		n = full
	}
	test.Setting(t, "LEAKS_"+name, &n, strconv.Atoi)
	return n
}
