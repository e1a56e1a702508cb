package leader

import "errors"

// ErrNoLeader is matched by the error of [Election.Leader] when there is no leader.
var ErrNoLeader = errors.New("there is no leader")
