package hammer

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/zklocks/zklocks/internal/test"
	"github.com/zklocks/zklocks/internal/test/history"
)

// settings are the size of a run.
type settings struct {
	For        time.Duration
	Processes  int
	Goroutines int
	Seed       uint64
	Cycles     int // each goroutine does at least so many: on a busy machine For alone may be too short
}

func fromEnv(t *testing.T) settings {
	t.Helper()
	s := settings{For: 1500 * time.Millisecond, Processes: 4, Goroutines: 10, Seed: rand.Uint64(), Cycles: 25}
	if os.Getenv("HAMMER") != "" {
		s.Cycles = 0
	}
	test.Setting(t, "HAMMER", &s.For, time.ParseDuration)
	test.Setting(t, "HAMMER_PROCESSES", &s.Processes, strconv.Atoi)
	test.Setting(t, "HAMMER_GOROUTINES", &s.Goroutines, strconv.Atoi)
	test.Setting(t, "HAMMER_SEED", &s.Seed, func(v string) (uint64, error) { return strconv.ParseUint(v, 10, 64) })
	return s
}

// job is the order to one child.
type job struct {
	settings
	Process  int
	Recipe   string
	Servers  []string
	Session  time.Duration // the timeout that it asks for
	Linger   int           // under stress one hold in so many lasts as long as a session may
	Patience time.Duration // under stress no call may last longer
	Least    time.Duration // under stress most callers give up, after this or a longer time
	Paths    []string
	Permits  int // of each semaphore
	Ceiling  int // what Resize may raise them to
	Cells    string
	Record   string

	// Every so many acquisitions the child breaks a rule of the locks on purpose: the test of the
	// test.
	Break      string
	BreakEvery int
}

const childEnv = "HAMMER_CHILD"

// The ways in which a child can break a lock on purpose.
const (
	breakGrant = "grant" // be inside without having acquired
	breakToken = "token" // report a token from long ago
	breakEarly = "early" // release the lock, and stay inside
)

// outcome is the result of one child, or of all of them together.
type outcome struct {
	Tally      map[string]int64
	Wrong      []complaint // the first ones
	WrongTotal int
}

// complaint is a violation that a worker has seen at the moment it happened.
type complaint struct {
	At   int64
	Text string
}

const maxWrong = 20

func (o *outcome) wrong(text string) { o.complain(complaint{history.Now(), text}) }

func (o *outcome) complain(c complaint) {
	if o.WrongTotal++; len(o.Wrong) < maxWrong {
		o.Wrong = append(o.Wrong, c)
	}
}

func (o *outcome) add(other outcome) {
	for what, n := range other.Tally {
		o.count(what, n)
	}
	for _, c := range other.Wrong {
		o.complain(c)
	}
	o.WrongTotal += other.WrongTotal - len(other.Wrong)
}

func (o *outcome) count(what string, n int64) {
	if o.Tally == nil {
		o.Tally = make(map[string]int64)
	}
	o.Tally[what] += n
}
