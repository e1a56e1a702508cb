package zklocks_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/rwlock"
	"github.com/zklocks/zklocks/semaphore"
	"github.com/zklocks/zklocks/zktest"
)

// waitLog is a logger that keeps what is logged about waits.
type waitLog struct {
	mu    sync.Mutex
	lines []string
	at    []time.Time
}

func (l *waitLog) Printf(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if line := fmt.Sprintf(format, args...); regexp.MustCompile("has waited").MatchString(line) {
		l.lines, l.at = append(l.lines, line), append(l.at, time.Now())
	}
}

// The log says for whom a call waits after a session timeout (10 s), and then each 10 timeouts. A
// wait that does not end shows whether the program waits for itself.
func TestTheLogSaysForWhomACallWaits(t *testing.T) {
	const (
		node    = ` for the node /l/_c_\S+-`
		process = `0{9}\d, pid \d+ on \S+, there since \S+`
		ours    = `0{9}\d of this connection, pid \d+ on \S+, there since \S+`
		none    = "; this connection holds none"
		moment  = `(\.00\d)?s` // the network takes some time
	)
	for name, tc := range map[string]struct {
		wait  func(*texts) acquire
		lines []string // after 10 s and after 110 s
	}{
		"for itself, as in README": {func(t *texts) acquire {
			m := rwlock.New(t.here, "/l")
			return func(ctx context.Context) (*zklocks.Hold, error) {
				return nil, zklocks.Do(ctx, m.Lock, func(ctx context.Context, _ *zklocks.Hold) error {
					return zklocks.Do(ctx, m.Lock, func(context.Context, *zklocks.Hold) error { return nil })
				})
			}
		}, []string{
			"zklocks: write /l: a call has waited 10" + moment + node + "write-" + ours + "; this connection has held 1 for 10" + moment,
			"zklocks: write /l: a call has waited 1m50" + moment + node + "write-" + ours + "; this connection has held 1 for 1m50" + moment,
		}},
		"for another process": {func(t *texts) acquire {
			t.takes(reader(t.there))
			return writer(t.here)
		}, []string{
			"zklocks: write /l: a call has waited 10" + moment + node + "read-" + process + none,
			"zklocks: write /l: a call has waited 1m50" + moment + node + "read-" + process + none,
		}},
		"for data of the program": {func(t *texts) acquire {
			t.takes(rwlock.New(t.there, "/l", zklocks.WithData([]byte("a\x1b[31m"))).Lock)
			return writer(t.here)
		}, []string{
			"zklocks: write /l: a call has waited 10" + moment + node + `write-0{10}, data "a\\x1b\[31m", there since \S+` + none,
			"zklocks: write /l: a call has waited 1m50" + moment + node + `write-0{10}, data "a\\x1b\[31m", there since \S+` + none,
		}},
		"for its own writer, which waits for its reader": {func(t *texts) acquire {
			t.takes(reader(t.here))
			t.queues(1, func(ctx context.Context) (*zklocks.Hold, error) {
				ctx, cancel := context.WithTimeout(ctx, time.Minute)
				defer cancel()
				return writer(t.here)(ctx)
			})
			t.queues(1, writer(t.there))
			return reader(t.here)
		}, []string{
			"zklocks: write /l: a call has waited 10" + moment + node + "read-" + ours + "; this connection has held 1 for 10" + moment,
			"zklocks: read /l: a call has waited 10" + moment + node + "write-" + ours + `, a writer that waits for a read hold of this connection, held for 10\.20?\d?s`,
			"zklocks: read /l: a call has waited 1m50" + moment + node + "write-" + process + `, a writer that waits for a read hold of this connection, held for 1m50\.20?\d?s`,
		}},
		"for the second holder, when the first has left": {func(t *texts) acquire {
			h := t.takes(writer(t.there))
			t.queues(2, writer(t.there))
			time.AfterFunc(9*time.Second, func() { _ = h.Release(context.Background()) })
			return writer(t.here)
		}, []string{
			"zklocks: write /l: a call has waited 10" + moment + node + `write-0{9}1, .*` + none,
			"zklocks: write /l: a call has waited 1m50" + moment + node + `write-0{9}1, .*` + none,
		}},
		"for permits": {func(t *texts) acquire {
			t.takes(permits(t.there, 2))
			return semaphore.New(t.here, "/s", 3).Locker(2).Lock
		}, []string{
			"zklocks: 2 permits /s: a call has waited 10" + moment + " for the node /s/queue/_c_.*-permit-0{10}, .*" + none,
			"zklocks: 2 permits /s: a call has waited 1m50" + moment + " for the node /s/queue/_c_.*-permit-0{10}, .*" + none,
		}},
		"with a second lock of All": {func(t *texts) acquire {
			t.takes(writer(t.there))
			return zklocks.All(rwlock.New(t.here, "/a"), rwlock.New(t.here, "/l")).Lock
		}, []string{
			"zklocks: write /l: a call has waited 10" + moment + node + "write-" + process + none,
			"zklocks: write /l: a call has waited 1m50" + moment + node + "write-" + process + none,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, log := zktest.NewServer(t, zktest.WithHoldsLeft()), new(waitLog)
				host := s.Host("here")
				x := &texts{t, host, host.Connect(t, 10*time.Second, zklocks.WithLogger(log)), s.Host("there").Connect(t, 10*time.Second)}
				call := tc.wait(x)
				began := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), 200*time.Second)
				defer cancel()
				if _, err := call(ctx); !errors.Is(err, context.DeadlineExceeded) {
					t.Error(err)
				}
				log.mu.Lock()
				defer log.mu.Unlock()
				for i, line := range log.lines {
					if t.Log(line); i >= len(tc.lines) || !regexp.MustCompile("^"+tc.lines[i]+"$").MatchString(line) {
						t.Errorf("line %d, after %v", i, log.at[i].Sub(began))
					}
				}
				if len(log.lines) != len(tc.lines) {
					t.Errorf("%d lines, want %d", len(log.lines), len(tc.lines))
				}
			})
		})
	}
}

// A line about a wait takes one request, and without a logger none is sent.
func TestWhatALineAboutAWaitCosts(t *testing.T) {
	reads := func(opts ...zklocks.ConnectOption) (n int64) {
		synctest.Test(t, func(t *testing.T) {
			s := zktest.NewServer(t, zktest.WithHoldsLeft())
			host := s.Host("here")
			x := &texts{t, host, host.Connect(t, 10*time.Second, opts...), s.Host("there").Connect(t, 10*time.Second)}
			x.takes(writer(x.there))
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			_, _ = writer(x.here)(ctx)
			n = host.Seen(zktest.Read)
		})
		return n
	}
	log := new(waitLog)
	without, with := reads(), reads(zklocks.WithLogger(log))
	// The rechecks are drawn: up to 10 in an hour, with two or three reads each.
	if lines := int64(len(log.lines)); lines != 36 || with-without < lines-6 || with-without > lines+6 {
		t.Errorf("%d reads without a logger, %d with one and %d lines in an hour", without, with, lines)
	}
}
