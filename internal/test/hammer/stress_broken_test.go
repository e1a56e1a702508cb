package hammer

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/zklocks/zklocks/internal/test/history"
	"github.com/zklocks/zklocks/internal/test/realzk"
)

// A report of a violation has the seed and what happened: here a child is inside without having
// acquired, now and then.
func TestAFindingIsReportedWithItsTimeline(t *testing.T) {
	realzk.Installed(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "-test.v", "-test.run=^TestStress$")
	cmd.Env = append(os.Environ(), "STRESS=30s", "STRESS_ROUND=1s", "STRESS_FIRST=1", "STRESS_SERVERS=1", "STRESS_PROCESSES=2", "STRESS_GOROUTINES=12",
		"STRESS_LOCKS=4", "STRESS_SEED=7", "STRESS_BREAK="+breakGrant)
	out, err := cmd.CombinedOutput()
	if err == nil {
		t.Fatal("it passes, and a lock was taken without asking")
	}
	for _, want := range []string{
		`seed 7: /TestStress-\S+: (overlap: |too many: |token order: |\S+ with token \d+ was still sure )`,
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

// Two holders overlap, among many other holds. The timeline has earlier faults than holds, and
// leaves out faults of other clients.
func TestATimelineShowsWhatWasBroken(t *testing.T) {
	hold := func(who string, at int64) history.Hold {
		return history.Hold{Path: "/p", Who: who, Acquired: at, Ended: at + 1}
	}
	const moment = int64(time.Second)
	var holds []history.Hold
	for i := range int64(mostLines) {
		holds = append(holds, hold("p02.00@1", moment-i), hold("p02.00@1", moment+i))
	}
	marked := []history.Hold{hold("p00.00@2", moment-1), hold("p01.00@3", moment)}
	s := &stress{T: t, nemesis: &nemesis{events: []*event{
		{at: moment - 2*int64(timelineBefore), over: moment - int64(timelineBefore) - 1, text: "too long ago", whom: "p00"},
		{at: moment - int64(timelineBefore)/2, over: moment - 1, text: "cut", whom: "p00"},
		{at: moment - 2, text: "deleted", whom: "/p"},
		{at: moment - 2, text: "paused"},
		{at: moment - 2, text: "another's", whom: "p03"},
	}}}
	told := s.timeline("two at once", moment, "/p", append(holds, marked...), marked, "p00", "p01")
	for _, want := range []string{
		"two at once\n", "lines of holds before\n", " > ", "nemesis: cut\n", "nemesis: cut: over\n", "nemesis: deleted\n",
		"nemesis: paused\n", "lines of holds behind",
	} {
		if !strings.Contains(told, want) {
			t.Errorf("it does not tell %q", want)
		}
	}
	for _, not := range []string{"too long ago", "another's"} {
		if strings.Contains(told, not) {
			t.Errorf("it tells %q", not)
		}
	}
	if t.Failed() {
		t.Log(told)
	}
}
