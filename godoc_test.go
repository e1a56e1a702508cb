package zklocks_test

import (
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

var internal = regexp.MustCompile(`internal/|\b(link|queue|slot|wire|znode)\.[A-Z]`)

// What go doc shows of the public packages names nothing internal.
func TestGoDocShowsNothingInternal(t *testing.T) {
	for _, pkg := range []string{".", "./rwlock", "./reentrant", "./semaphore", "./leader", "./once", "./observe", "./zktest"} {
		t.Run(pkg, func(t *testing.T) {
			t.Parallel()
			out, err := exec.Command("go", "doc", "-all", pkg).CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			for line := range strings.Lines(string(out)) {
				if internal.MatchString(line) {
					t.Errorf("shows %q", strings.TrimSpace(line))
				}
			}
		})
	}
}
