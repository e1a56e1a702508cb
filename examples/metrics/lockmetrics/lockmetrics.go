// Package lockmetrics counts what happens to locks. One observer feeds Prometheus or OpenTelemetry,
// depending on the instruments.
package lockmetrics

import (
	"context"
	"errors"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/observe"
)

// instruments are what the observer writes to. Each takes the values of its labels: path and kind,
// and one more where it has three.
type instruments struct {
	waiting func(n int, labels ...string)
	holding func(n int, labels ...string)
	ahead   func(nodes float64, labels ...string)
	wait    func(seconds float64, labels ...string)
	hold    func(seconds float64, labels ...string)
	failed  func(labels ...string) // why
	lost    func(labels ...string)
	retry   func(labels ...string) // path, operation
}

// The names of the metrics, what they count, and their labels.
var (
	waiting = description{"zklocks_waiting", "Calls of this process that wait.", []string{"path", "kind"}}
	holding = description{"zklocks_holding", "Holds of this process.", []string{"path", "kind"}}
	ahead   = description{"zklocks_ahead", "Nodes that had to go first, for callers that had to wait.", []string{"path", "kind"}}
	wait    = description{"zklocks_wait_seconds", "From the call to the grant.", []string{"path", "kind", "joined"}}
	hold    = description{"zklocks_hold_seconds", "From the grant to the release, or to the loss.", []string{"path", "kind"}}
	failed  = description{"zklocks_failed_total", "Calls that failed.", []string{"path", "kind", "why"}}
	lost    = description{"zklocks_lost_total", "Holds that were lost.", []string{"path", "kind"}}
	retries = description{"zklocks_retries_total", "Requests without an answer that were asked again.", []string{"path", "op"}}
)

type description struct {
	name, help string
	labels     []string
}

// Borders of the histograms, in nodes and in seconds.
var (
	nodes   = []float64{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000}
	seconds = []float64{.001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 30, 60, 300}
)

// observer is the one for both. The values of a path, a cause or a token are unbounded: use few
// paths, and log why a lock was lost.
func (i instruments) observer() observe.Observer {
	return observe.Observer{
		Called: func(e observe.Called) { i.waiting(1, e.Path, string(e.Kind)) },
		Queued: func(e observe.Queued) { i.ahead(float64(e.Ahead), e.Path, string(e.Kind)) },
		Failed: func(e observe.Failed) {
			i.waiting(-1, e.Path, string(e.Kind))
			i.failed(e.Path, string(e.Kind), why(e.Cause))
		},
		Granted: func(e observe.Granted) {
			i.waiting(-1, e.Path, string(e.Kind))
			i.holding(1, e.Path, string(e.Kind))
			i.wait(e.Waited.Seconds(), e.Path, string(e.Kind), word(e.Joined))
		},
		Released: func(e observe.Released) {
			i.holding(-1, e.Path, string(e.Kind))
			i.hold(e.Held.Seconds(), e.Path, string(e.Kind))
		},
		Lost: func(e observe.Lost) {
			i.holding(-1, e.Path, string(e.Kind))
			i.hold(e.Held.Seconds(), e.Path, string(e.Kind))
			i.lost(e.Path, string(e.Kind))
		},
		Retried: func(e observe.Retried) { i.retry(e.Path, e.Op) },
	}
}

// why has few values.
func why(cause error) string {
	switch {
	case errors.Is(cause, zklocks.ErrBusy):
		return "busy"
	case errors.Is(cause, context.DeadlineExceeded):
		return "timeout"
	case errors.Is(cause, context.Canceled):
		return "canceled"
	}
	return "other"
}

func word(yes bool) string {
	if yes {
		return "yes"
	}
	return "no"
}
