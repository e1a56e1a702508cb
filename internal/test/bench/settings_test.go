package bench

import (
	"os"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/zklocks/zklocks/internal/test"
)

// settings are the parameters of a run.
type settings struct {
	Name   string // "short", "long", or another name of the run
	Rounds int
	For    time.Duration  // measured time of each peer and workload in each round
	Warm   time.Duration  // time before the measurement
	Only   *regexp.Regexp // selects workloads
	Peers  *regexp.Regexp
	Disk   time.Duration // additional time of each flush of the server's disk
}

// fromEnv reports false if no run is requested.
func fromEnv(t *testing.T) (s settings, asked bool) {
	t.Helper()
	s = settings{Name: os.Getenv("BENCH"), Only: regexp.MustCompile(""), Peers: regexp.MustCompile("")}
	switch s.Name {
	case "":
		return s, false
	case "short":
		// Many short rounds: a slow phase of the machine affects all peers of a round.
		s.Rounds, s.For, s.Warm = 12, 750*time.Millisecond, 250*time.Millisecond
	case "long":
		s.Rounds, s.For, s.Warm = 40, 1500*time.Millisecond, 500*time.Millisecond
	default:
		t.Fatalf("BENCH=%s: there is short and long", s.Name)
	}
	test.Setting(t, "BENCH_ROUNDS", &s.Rounds, strconv.Atoi)
	test.Setting(t, "BENCH_FOR", &s.For, time.ParseDuration)
	test.Setting(t, "BENCH_ONLY", &s.Only, regexp.Compile)
	test.Setting(t, "BENCH_PEERS", &s.Peers, regexp.Compile)
	test.Setting(t, "BENCH_DISK", &s.Disk, time.ParseDuration)
	return s, true
}

// patient returns settings of the same length with longer rounds, for waits of seconds.
func (s settings) patient() settings {
	rounds := max(1, s.Rounds/4)
	s.For = s.For * time.Duration(s.Rounds) / time.Duration(rounds)
	s.Warm = s.Warm * time.Duration(s.Rounds) / time.Duration(rounds)
	s.Rounds = rounds
	return s
}

func (s settings) chosen(all []workload) []workload {
	var some []workload
	for _, w := range all {
		if s.Only.MatchString(w.name) {
			some = append(some, w)
		}
	}
	return some
}
