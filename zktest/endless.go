package zktest

import (
	"fmt"
	"maps"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// A test in a bubble is endless if so much real and so much virtual time has passed since
// NewServer. A job that ignores its context is no deadlock: the heartbeats of its connection keep the
// clock of the bubble running.
var (
	longestReal    = time.Minute
	longestVirtual = 24 * time.Hour
)

// watchdog measures the real time of a test. Its fields are guarded by Server.mu.
type watchdog struct {
	began time.Time     // virtual
	last  time.Time     // real: when the clock was last read
	spent time.Duration // real
	armed bool          // a timer runs
	holds []*holds      // of all Connects
}

// arm starts the timer of the watchdog, unless it runs. Only clients arm it: otherwise the timer
// would keep the clock of a deadlocked bubble running. Caller holds s.mu.
func (s *Server) arm() {
	if s.bubble != "" && !s.watchdog.armed && !s.stopping {
		s.watchdog.armed = true
		time.AfterFunc(time.Hour, s.watch)
	}
}

// watch ends the program if the test is endless: the job is a goroutine of the test, which nothing
// else can end.
func (s *Server) watch() {
	open := len(s.clients.open()) > 0
	s.mu.Lock()
	defer s.mu.Unlock()
	w := &s.watchdog
	w.armed = false
	now := realNow()
	w.spent += min(now.Sub(w.last), 10*time.Second) // no more, in case the machine has slept
	w.last = now
	if virtual := time.Since(w.began); w.spent > longestReal && virtual > longestVirtual && !s.stopping {
		panic(fmt.Sprintf("zktest: %s does not end: it has run for %v, and for %v in its bubble. A job may ignore its context.\n\n%s\n%s",
			s.t.Name(), w.spent.Round(time.Second), virtual.Round(time.Hour), s.heldNow(), goroutinesOf(s.bubble)))
	}
	if open {
		s.arm()
	}
}

// realNow returns the system's time, also in a bubble.
func realNow() time.Time {
	var tv syscall.Timeval
	_ = syscall.Gettimeofday(&tv)
	return time.Unix(int64(tv.Sec), int64(tv.Usec)*1000)
}

// heldNow lists what is held on connections of Connect, and the ephemeral nodes of all clients.
// Caller holds s.mu.
func (s *Server) heldNow() string {
	var text strings.Builder
	for _, h := range s.watchdog.holds {
		h.mu.Lock()
		for lock, all := range h.held {
			for _, at := range all {
				fmt.Fprintf(&text, "held: %v, acquired %s\n", lock, at)
			}
		}
		h.mu.Unlock()
	}
	nodes := s.ensemble.Nodes()
	for _, path := range slices.Sorted(maps.Keys(nodes)) {
		if nodes[path] != 0 {
			fmt.Fprintf(&text, "node of a session: %s\n", path)
		}
	}
	return text.String()
}

// goroutinesOf returns the stacks of a bubble's goroutines, without those that only the client and
// the server have.
func goroutinesOf(bubble string) string {
	all := make([]byte, 1<<20)
	all = all[:runtime.Stack(all, true)]
	inside := regexp.MustCompile(`^goroutine .*synctest bubble ` + bubble + `\b`)
	stacks := strings.Split(string(all), "\n\n")
	return strings.Join(slices.DeleteFunc(stacks, func(stack string) bool {
		return !inside.MatchString(stack) || !ofProgram(stack)
	}), "\n\n")
}

// below matches functions of the client and of the server.
var below = regexp.MustCompile(`^github\.com/(zklocks/zklocks/internal|go-zookeeper)/`)

// ofProgram reports whether a function of the program under test is on the stack.
func ofProgram(stack string) bool {
	lines := strings.Split(stack, "\n")[1:]
	for len(lines) >= 2 && !strings.HasPrefix(lines[0], "created by ") {
		function, file := lines[0], strings.TrimSpace(lines[1])
		if !ours.MatchString(function) && !below.MatchString(function) && !ofGo(function, file) {
			return true
		}
		lines = lines[2:]
	}
	return false
}
