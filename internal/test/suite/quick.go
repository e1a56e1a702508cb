package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/zklocks/zklocks/internal/test/realzk"
)

// quick runs go test with each list of arguments, and prints what was left out: the tests that need
// a real server, and the other modules.
func quick(w io.Writer, runs ...[]string) error {
	begun := time.Now()
	dir, err := os.MkdirTemp("", "zklocks-quick-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	list := filepath.Join(dir, "left-out")
	if err := os.Setenv(realzk.LeftOutEnv, list); err != nil {
		return err
	}
	var failed error
	for _, args := range runs {
		failed = errors.Join(failed, command(w, "go", append(append([]string{"test"}, args...), "-count=1")...))
	}
	left, err := os.ReadFile(list) // a line for each test
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	text := "No test was left out."
	if n := bytes.Count(left, []byte("\n")); n > 0 {
		text = fmt.Sprintf("%d tests were left out, because they need a real ZooKeeper: make test installs one and runs all.", n)
	}
	fmt.Fprintf(w, "\n%s %.0f s.\nThe other modules, such as cmd/zklock, are left out, too.\n", text, time.Since(begun).Seconds())
	return failed
}
