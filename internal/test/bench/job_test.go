package bench

import "time"

const (
	childEnv = "BENCH_CHILD"
	// sessionTimeout is long, for nothing is broken on purpose; and it keeps pings and heartbeats,
	// which the server counts as requests, out of the picture.
	sessionTimeout = 40 * time.Second
)

// The kinds of lock that a job may ask for.
const (
	exclusive = "exclusive"
	permits   = "semaphore"
	shared    = "rw"
	several   = "several" // exclusive locks at once, of those below path
)

// job is the order to a driver. It is flat, so that a driver needs no library to read it.
type job struct {
	Servers  string `json:"servers"`
	Path     string `json:"path"`
	Mode     string `json:"mode"`
	Sessions int    `json:"sessions"` // connections
	Workers  int    `json:"workers"`  // goroutines or threads; worker i has session i modulo Sessions
	Own      int    `json:"own"`      // 1: each session has a lock of its own, below path
	Permits  int    `json:"permits"`  // of the semaphore; each cycle takes one
	Work     int    `json:"work"`     // milliseconds: each hold lasts up to twice as long, by chance
	Reads    int    `json:"reads"`    // percent of the cycles of an rw
	Handoff  int    `json:"handoff"`  // WithHandoff
	Among    int    `json:"among"`    // how many locks there are, of several
	AtOnce   int    `json:"atonce"`   // how many of them each cycle takes, by chance
	Warm     int    `json:"warm"`     // milliseconds before the measured ones
	Measure  int    `json:"measure"`  // milliseconds
	Timeout  int    `json:"timeout"`  // of the sessions, milliseconds
}

// answer is what the driver has measured. A cycle is: acquire, release. Those count as operations
// whose lock was granted within the measured time; the latency is that from the call to the grant;
// of short ones a driver may time a sample.
type answer struct {
	Operations int64   `json:"operations"`
	Cycles     int64   `json:"cycles"` // all since "go", those of the warm-up and of the end included
	P50        float64 `json:"p50"`    // microseconds
	P99        float64 `json:"p99"`
	Max        float64 `json:"max"`
	Errors     int64   `json:"errors"`
	Error      string  `json:"error"` // the first
}
