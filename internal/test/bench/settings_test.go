package bench

import (
	"os"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/zklocks/zklocks/internal/test"
)

// settings are the size of a run.
type settings struct {
	Name   string // "short", "long", or what else the run was called with
	Rounds int
	For    time.Duration  // what is measured of each peer and workload, each round
	Warm   time.Duration  // before that
	Only   *regexp.Regexp // the workloads
	Peers  *regexp.Regexp
	Disk   time.Duration // how much longer than it does the server's disk is to take for a flush
}

// fromEnv reports false when no run is asked for.
func fromEnv(t *testing.T) (s settings, asked bool) {
	t.Helper()
	s = settings{Name: os.Getenv("BENCH"), Only: regexp.MustCompile(""), Peers: regexp.MustCompile("")}
	switch s.Name {
	case "":
		return s, false
	case "short":
		// Many short rounds: a machine that is slow for a while is so for all peers of a round.
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

// patient is a run of the same length with longer rounds, for lines in which one waits for seconds.
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
