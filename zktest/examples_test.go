package zktest_test

import (
	"os/exec"
	"strings"
	"testing"
	"testing/synctest"
)

// The examples of the documentation show tests, which an Example cannot run: it has no t.
func TestExamples(t *testing.T) {
	for name, test := range map[string]func(*testing.T){
		"Partition": theJobStops, "Next": theReplyIsLost, "Dial": theLeaderDies,
	} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
	}
}

// What users read names nothing that they cannot import.
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
