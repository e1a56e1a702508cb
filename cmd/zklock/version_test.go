package main

import (
	"fmt"
	"runtime"
	"testing"
)

func TestVersion(t *testing.T) {
	t.Parallel()
	want := fmt.Sprintf("zklock (devel), %s %s/%s\n", runtime.Version(), runtime.GOOS, runtime.GOARCH) // a test has no version
	for _, arg := range []string{"version", "-version", "--version"} {
		if code, text := prints(t, "none", nil, arg); code != 0 || text != want {
			t.Errorf("%s: exit code %d, and %q, want %q", arg, code, text, want)
		}
	}
	ends(t, start(t, "none", "version", "1"), exitUsage, `"1" is one argument too many`)
}
