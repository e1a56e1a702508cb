package zktest_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/zklocks/zklocks/zktest"
)

// The examples of the documentation are tests: an Example cannot run them, because it has no t.
func TestExamples(t *testing.T) {
	for name, test := range map[string]func(*testing.T){
		"Next": theReplyIsLost, "Dial": theLeaderDies,
	} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
	}
}

// Methods that would fail a test panic in an Example. end runs the cleanups, once.
func TestForExample(t *testing.T) {
	e, end := zktest.ForExample()
	var order []int
	for i := range 2 {
		e.Cleanup(func() { order = append(order, i) })
	}
	fails := func(what string, f func()) {
		defer func() {
			if recover() == nil {
				t.Errorf("%s does not panic", what)
			}
		}()
		f()
	}
	fails("Fatal", func() { e.Fatal("no") })
	fails("Errorf", func() { e.Errorf("no %d", 1) })
	end()
	end()
	if !slices.Equal(order, []int{1, 0}) {
		t.Errorf("cleanups ran in the order %d", order)
	}
}

// The documentation names no package that users cannot import.
func TestTheDocumentationNamesNothingInternal(t *testing.T) {
	out, err := exec.Command("go", "doc", "-all", ".").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "func NewServer") {
		t.Fatalf("%v\n%s", err, out)
	}
	for line := range strings.Lines(string(out)) {
		for _, internal := range []string{"proxy.", "memzk", "memnet", "realzk", "internal/"} {
			if strings.Contains(line, internal) {
				t.Errorf("%q", line)
			}
		}
	}
}
