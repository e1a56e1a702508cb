package leader

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/zklocks/zklocks/internal/hold"
	"github.com/zklocks/zklocks/internal/queue"
)

// State is the state of an [Election] in this process.
type State int

// The states. If an Election has several candidates, its state is the last in this list that any of
// them has.
const (
	StateFollower  State = iota // it does not campaign, or pauses before it campaigns again
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

// MarshalText returns the name of the state, for package encoding/json.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText parses a name that MarshalText returned. It returns an error for other text.
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

// A candidate is one campaign and the term that follows it. It implements queue.Leaver.
type candidate struct {
	election *Election
	grant    *queue.Grant // set before it leads
	now      atomic.Pointer[Status]
}

func (c *candidate) becomes(s State) { c.now.Store(&Status{s, time.Now()}) }

func (c *candidate) status() Status {
	s := *c.now.Load()
	if s.State != StateLeader || c.grant.Err() == nil {
		return s
	}
	if s = *c.now.Load(); s.State == StateLeader { // the grant has ended, and the hook that the method leads has registered has not run yet
		s = Status{StateOverdue, time.Now()}
	}
	return s
}

func (e *Election) enter() *candidate {
	c := &candidate{election: e}
	c.becomes(StateCandidate)
	e.candidates.Store(c, nil)
	return c
}

func (c *candidate) leads(grant *queue.Grant) {
	c.grant = grant
	c.becomes(StateLeader)
	grant.OnEnd(func(end error) {
		if errors.Is(end, hold.ErrLost) {
			c.becomes(StateOverdue)
		}
	})
}

// Leave removes the candidate and releases the term.
func (c *candidate) Leave(ctx context.Context, h *queue.Hold) error {
	c.leave()
	return h.GiveBack(ctx)
}

// leave removes the candidate, after a failed campaign or when its term is released.
func (c *candidate) leave() {
	c.election.isIdle()
	c.election.candidates.Delete(c)
}

func (e *Election) isIdle() {
	now := time.Now()
	e.idle.Store(&now)
}
