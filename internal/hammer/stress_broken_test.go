package hammer

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// Whoever reads of a violation finds the seed and what happened: here a child
// is inside without having acquired, now and then.
func TestAStressThatFindsSomethingTellsTheStory(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "-test.v", "-test.run=^TestStress$")
	cmd.Env = append(os.Environ(), "STRESS=1s", "STRESS_SERVERS=1", "STRESS_PROCESSES=2", "STRESS_GOROUTINES=12",
		"STRESS_LOCKS=4", "STRESS_SEED=7", "STRESS_BREAK="+breakGrant)
	out, err := cmd.CombinedOutput()
	if err == nil {
		t.Fatal("it passes, and a lock was taken without asking")
	}
	for _, want := range []string{
		`seed 7: /TestStress-\S+: (overlap|too many|token order): `,
		`-?\d+\.\d{6}s +nemesis: `,
		`> exclusive by p0\d\.\d\d@[0-9a-f]+, token 0: acquired, asked for `,
		`: sure of it until now`,
	} {
		if !regexp.MustCompile(want).Match(out) {
			t.Errorf("it does not tell %s", want)
		}
	}
	if t.Failed() {
		lines := strings.Split(string(out), "\n")
		t.Log(strings.Join(lines[:min(len(lines), 60)], "\n"))
	}
}
