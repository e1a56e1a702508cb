// Package leaks runs at the end of the tests of a package: it stops the servers, and no goroutine
// may be left. It is separate from realzk for programs that import that without goleak.
package leaks

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/realzk"
)

const timeout = 5 * time.Second

// Main is the body of TestMain: it runs the tests, stops the shared servers if a test has started
// them, and fails the package when a goroutine is left over. It does not return.
func Main(m *testing.M) {
	code := m.Run()
	if err := realzk.StopShared(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	if code == 0 {
		// goleak itself waits a second; a connection closed while its server is away takes longer
		// to end on a busy machine.
		var err error
		test.Poll(timeout, func() bool {
			err = goleak.Find()
			return err == nil
		})
		if err != nil {
			fmt.Fprintf(os.Stderr, "leaks: goroutines left over by the tests: %v\n", err)
			code = 1
		}
	}
	os.Exit(code)
}
