package leader

import (
	"fmt"
	"slices"
	"time"

	"github.com/zklocks/zklocks/internal/queue"
)

// State is what an [Election] does in this process.
type State int

// The states. Of several candidates of one Election the last state in this list counts.
const (
	StateFollower  State = iota // it does not campaign, or pauses before it does so again
	StateCandidate              // it campaigns
	StateLeader                 // it leads
	StateOverdue                // its term is lost, and the function of the term still runs
)

var states = [...]string{"follower", "candidate", "leader", "overdue"}

func (s State) String() string {
	if s < 0 || int(s) >= len(states) {
		return "unknown"
	}
	return states[s]
}

// MarshalText has package encoding/json write the name of the state.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads what MarshalText has written.
func (s *State) UnmarshalText(text []byte) error {
	i := slices.Index(states[:], string(text))
	if i < 0 {
		return fmt.Errorf("leader: %q is not a state", text)
	}
	*s = State(i)
	return nil
}

// Status is the State of an [Election], and when that state began.
type Status struct {
	State State
	Since time.Time
}

// Status returns what this value does in this process, without asking a server: for a health
// check. The state is StateOverdue from the loss of a term until its Release is called, which Run
// does when the function has returned. After a call of Campaign without Run, release the hold also
// after a loss.
func (e *Election) Status() Status {
	if e == nil {
		panic(e.made().queue.Invalid())
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	s := Status{StateFollower, e.idle}
	for h := range e.active {
		if now := h.status(); now.State > s.State || now.State == s.State && now.Since.Before(s.Since) {
			s = now
		}
	}
	return s
}

// status is that of one candidate; the caller holds the Election's mu.
func (h *held) status() Status {
	switch {
	case h.Grant == nil:
		return Status{StateCandidate, h.since}
	case h.Grant.Err() == nil:
		return Status{StateLeader, h.since}
	}
	if lost := h.lost.Load(); lost != nil {
		return Status{StateOverdue, *lost}
	}
	return Status{StateOverdue, time.Now()} // another goroutine is ending it at this moment
}

// begin adds a candidate.
func (e *Election) begin(h *held) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.active[h] = struct{}{}
}

// leads makes a candidate the leader.
func (h *held) leads(grant *queue.Grant) {
	h.election.mu.Lock()
	defer h.election.mu.Unlock()
	h.Grant, h.since = grant, time.Now()
}

// end removes a candidate that has given up, or a term that was released, once.
func (e *Election) end(h *held) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, active := e.active[h]; !active {
		return
	}
	delete(e.active, h)
	if len(e.active) == 0 {
		e.idle = time.Now()
	}
}
