package bench

import "time"

const (
	childEnv = "BENCH_CHILD"
	// sessionTimeout is long, because no faults are injected, and because pings and heartbeats,
	// which the server counts as requests, are then rare.
	sessionTimeout = 40 * time.Second
)

// The modes of a job.
const (
	exclusive = "exclusive"
	permits   = "semaphore"
	shared    = "rw"
	several   = "several" // several exclusive locks below path together
	fresh     = "fresh"   // each cycle an exclusive lock below path that was never used before
)

// job is the order to a driver. It is flat, so that a driver needs no library to parse it.
type job struct {
	Servers  string `json:"servers"`
	Path     string `json:"path"`
	Mode     string `json:"mode"`
	Sessions int    `json:"sessions"` // connections
	Workers  int    `json:"workers"`  // goroutines or threads; worker i has session i modulo Sessions
	Own      int    `json:"own"`      // 1: each session has its own lock, below path
	Permits  int    `json:"permits"`  // of the semaphore; each cycle acquires one
	Work     int    `json:"work"`     // milliseconds: each hold lasts a random time up to twice as long
	Reads    int    `json:"reads"`    // percentage of reading cycles of an rw
	Writes   int    `json:"writes"`   // of a thousand reading cycles, how many write instead
	Handoff  int    `json:"handoff"`  // WithHandoff
	MaxIdle  int    `json:"maxidle"`  // WithMaxIdle, in milliseconds
	InTurn   int    `json:"inturn"`   // 1: each worker uses all sessions in turn
	Among    int    `json:"among"`    // for several: how many locks there are
	AtOnce   int    `json:"atonce"`   // for several: how many random locks each cycle acquires
	Sample   int    `json:"sample"`   // of so many operations one is timed; 0: all are
	Warm     int    `json:"warm"`     // milliseconds before the measurement
	Measure  int    `json:"measure"`  // milliseconds of the measurement
	Timeout  int    `json:"timeout"`  // session timeout in milliseconds
}

// answer is a driver's measurement. A cycle is an acquire and a release. An operation is a cycle
// whose lock was granted within the measured time.
type answer struct {
	Operations int64   `json:"operations"`
	Cycles     int64   `json:"cycles"` // all since "go", including warm-up and end
	P50        float64 `json:"p50"`    // from the call to the grant, in microseconds
	P99        float64 `json:"p99"`
	Errors     int64   `json:"errors"`
	Error      string  `json:"error"` // the first error
}
