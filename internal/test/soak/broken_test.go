package soak

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/zklocks/zklocks/internal/test/realzk"
)

// Processes break the locks on purpose, now and then. The run must fail, and show the seed, the
// holds and their claims.
func brokenLocksAreFound(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	servers := strings.Join(realzk.Servers(t), ",")
	for how, rules := range map[string]string{breakGrant: "overlap|too many", breakEarly: "overlap|too many", breakToken: "token order"} {
		t.Run(how, func(t *testing.T) {
			cmd := exec.Command(self, "-test.v", "-test.run=^TestSoak$")
			cmd.Env = append(os.Environ(), "ZK_SERVERS="+servers, "SOAK_KIND=hammer", "SOAK_FOR=1m", "SOAK_ROUND=500ms", "SOAK_FIRST=1", "SOAK_SERVERS=1",
				"SOAK_FAULTS=0", "SOAK_PROCESSES=2", "SOAK_GOROUTINES=12", "SOAK_LOCKS=4", "SOAK_SEED=7", "SOAK_BREAK="+how)
			out, err := cmd.CombinedOutput()
			if err == nil {
				t.Fatal("it passes")
			}
			for _, want := range []string{
				`seed 7: /TestSoak_hammer-\S+: (` + rules + `): `,
				`> /TestSoak_hammer-\S+: .* by p0\d\.\d\d@[0-9a-f]+, token -?\d+: acquired, asked for `,
				`: sure of it until now`,
			} {
				if !regexp.MustCompile(want).Match(out) {
					t.Errorf("it does not show %s", want)
				}
			}
			if t.Failed() {
				lines := strings.Split(string(out), "\n")
				t.Log(strings.Join(lines[:min(len(lines), 60)], "\n"))
			}
		})
	}
}
