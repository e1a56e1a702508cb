package main

import (
	"context"
	"errors"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/leader"
)

// Elector is a gocron.Elector: the process that leads runs all jobs.
//
//	elector := NewElector(conn, "/myapp/scheduler")
//	go elector.Run(ctx)
//	scheduler, err := gocron.NewScheduler(gocron.WithDistributedElector(elector))
//
// A job that is due while no process leads is not run. After the leader has died, no process leads
// for up to the session timeout and a tick of the servers.
type Elector struct{ election *leader.Election }

// NewElector returns the Elector at path. It does not lead before Run is called.
func NewElector(conn *zklocks.Conn, path string) *Elector {
	return &Elector{leader.New(conn, path)}
}

// Run is a candidate until ctx is canceled. It always returns an error.
func (e *Elector) Run(ctx context.Context) error {
	return e.election.Run(ctx, func(ctx context.Context, _ *zklocks.Hold) error {
		<-ctx.Done()
		return context.Cause(ctx)
	})
}

var errFollower = errors.New("another process leads")

// IsLeader returns nil while this process leads. It sends no request.
func (e *Elector) IsLeader(context.Context) error {
	if e.election.Status().State != leader.StateLeader {
		return errFollower
	}
	return nil
}
