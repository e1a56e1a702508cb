package leader

import "errors"

// ErrNoLeader is returned by [Election.Leader] when there is no leader.
var ErrNoLeader = errors.New("there is no leader")
