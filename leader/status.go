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

// A candidate is one call that campaigns, and then its term. It implements queue.Leaver.
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
	if s = *c.now.Load(); s.State == StateLeader { // another goroutine is ending it at this moment
		s = Status{StateOverdue, time.Now()}
	}
	return s
}

// enter adds a candidate.
func (e *Election) enter() *candidate {
	c := &candidate{election: e}
	c.becomes(StateCandidate)
	e.candidates.Store(c, nil)
	return c
}

// leads makes the candidate the leader.
func (c *candidate) leads(grant *queue.Grant) {
	c.grant = grant
	c.becomes(StateLeader)
	grant.OnEnd(func(end error) {
		if errors.Is(end, hold.ErrLost) {
			c.becomes(StateOverdue)
		}
	})
}

// Leave resigns.
func (c *candidate) Leave(ctx context.Context, h *queue.Hold) error {
	c.leave()
	return h.GiveBack(ctx)
}

// leave removes a candidate that has given up, or whose term was released.
func (c *candidate) leave() {
	c.election.isIdle()
	c.election.candidates.Delete(c)
}

func (e *Election) isIdle() {
	now := time.Now()
	e.idle.Store(&now)
}
