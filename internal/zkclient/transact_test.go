package zkclient

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zklocks/zklocks/internal/test/proxy"
)

// Transact runs a caller's transaction at most once, and its error says whether the server may have
// executed it.
func TestTransact(t *testing.T) {
	const patience = 5 * time.Second
	// Each write adds one to the version of the directory.
	write := func(l *line) any { return &zk.SetDataRequest{Path: l.dir, Version: -1} }
	check := func(l *line) any { return &zk.CheckVersionRequest{Path: l.dir, Version: -1} }
	missing := func(l *line) any { return &zk.DeleteRequest{Path: l.dir + "/none", Version: -1} }
	type result struct {
		replies []zk.MultiResponse
		failed  int
		err     error
	}
	for name, c := range map[string]struct {
		ops    []func(*line) any
		before func(*line) *proxy.Fault // nil: no fault
		may    error                    // an error of may prevents the transaction
		wrong  func(result) bool
		asked  int64    // number of such requests that the server has received
		sent   [2]int64 // at least and at most; zero: once
		writes int32
	}{
		"all is well": {
			ops:    []func(*line) any{check, write},
			wrong:  func(r result) bool { return r.err != nil || len(r.replies) != 2 || r.replies[1].Stat == nil },
			asked:  1,
			writes: 1,
		},
		"it may not be sent any more": {
			ops:   []func(*line) any{check, write},
			may:   ErrOver,
			wrong: func(r result) bool { return r.err != ErrOver || r.failed != NotDone },
		},
		"the second operation is refused": {
			ops: []func(*line) any{check, missing, write},
			wrong: func(r result) bool {
				return r.err != zk.ErrNoNode || r.failed != 1 || len(r.replies) != 3 || r.replies[1].Error != zk.ErrNoNode
			},
			asked: 1,
		},
		"the reply is lost": {
			ops:    []func(*line) any{check, write},
			before: func(l *line) *proxy.Fault { return l.Next(proxy.SetOp, proxy.CutAfterCommit) },
			wrong:  func(r result) bool { return !errors.Is(r.err, zk.ErrConnectionClosed) || r.failed != Unanswered },
			asked:  1,
			writes: 1,
		},
		"the server throttles": {
			ops:    []func(*line) any{check, write},
			before: func(l *line) *proxy.Fault { return l.Next(proxy.SetOp, throttled) },
			wrong:  func(r result) bool { return r.err != nil || len(r.replies) != 2 },
			asked:  1,
			sent:   [2]int64{2, 2},
			writes: 1,
		},
		"the context ends first": {
			ops:    []func(*line) any{check, write},
			before: func(l *line) *proxy.Fault { return l.Next(proxy.SetOp, proxy.HoldReply) },
			wrong:  func(r result) bool { return !errors.Is(r.err, context.DeadlineExceeded) || r.failed != Unanswered },
			asked:  1,
			writes: 1,
		},
		"the context ends while the server throttles": {
			ops: []func(*line) any{check, write},
			before: func(l *line) *proxy.Fault {
				first := l.Next(proxy.SetOp, throttled)
				for range 1000 {
					l.Next(proxy.SetOp, throttled)
				}
				return first
			},
			wrong: func(r result) bool { return !errors.Is(r.err, context.DeadlineExceeded) || r.failed != NotDone },
			sent:  [2]int64{50, 60}, // after 1 ms, 2 ms, and so on, then each 100 ms
		},
	} {
		t.Run(name, func(t *testing.T) {
			withLine(t, 10*time.Second, func(t *testing.T, l *line) {
				var f *proxy.Fault
				if c.before != nil {
					f = c.before(l)
				}
				var ops []any
				for _, op := range c.ops {
					ops = append(ops, op(l))
				}
				seen := func() int64 { return l.Seen(proxy.SetOp) + l.Seen(proxy.DeleteOp) }
				before := seen()
				var r result
				var asks int64
				r.replies, r.failed, r.err = l.client.Transact(within(t, patience), func() error { asks++; return c.may }, ops...)
				if c.wrong(r) {
					t.Errorf("replies %+v, failed %d, error %v", r.replies, r.failed, r.err)
				}
				if f != nil {
					fired(t, f)
					f.Release()
				}
				if asks < max(c.sent[0], 1) || asks > max(c.sent[1], 1) {
					t.Errorf("asked %d times whether it may be sent", asks)
				}
				time.Sleep(patience) // virtual time: a repeated request would arrive now
				if asked := seen() - before; asked != c.asked {
					t.Errorf("the server has heard of %d of its requests, want %d", asked, c.asked)
				}
				if _, stat, err := l.witness.Client().Get(l.dir); err != nil || stat.Version != c.writes {
					t.Errorf("%v writes, want %d; %v", stat.Version, c.writes, err)
				}
			})
		})
	}
}

// Without a connection Transact does not send the transaction, also not later.
func TestTransactWaitsForAConnection(t *testing.T) {
	withLine(t, 10*time.Second, func(t *testing.T, l *line) {
		l.Refuse()
		time.Sleep(time.Second) // virtual time: the connection is lost
		_, failed, err := l.client.Transact(within(t, time.Second), func() error { t.Error("asked before there is a connection"); return nil }, &zk.SetDataRequest{Path: l.dir, Version: -1})
		if !errors.Is(err, context.DeadlineExceeded) || failed != NotDone || !strings.Contains(err.Error(), "no connection") {
			t.Errorf("failed %d, error %v", failed, err)
		}
		must(t, l.Accept())
		later := async(func() error {
			_, _, err := l.client.Transact(within(t, 10*time.Second), func() error { return nil }, &zk.SetDataRequest{Path: l.dir, Version: -1})
			return err
		})
		must(t, result(t, 10*time.Second, "the transaction", later))
		if _, stat, err := l.witness.Client().Get(l.dir); err != nil || stat.Version != 1 {
			t.Errorf("%+v, %v", stat, err)
		}
	})
}

// Check returns the index of the node that the server has refused, and NotDone if no server has
// answered.
func TestCheckSaysWhichNodeIsRefused(t *testing.T) {
	withLine(t, 10*time.Second, func(t *testing.T, l *line) {
		session := l.sess
		is := func(what string, want int, wantErr error, paths ...string) {
			t.Helper()
			var checks []*zk.CheckVersionRequest
			for _, path := range paths {
				checks = append(checks, &zk.CheckVersionRequest{Path: path, Version: -1})
			}
			failed, err := l.client.Check(within(t, time.Second), session, checks...)
			if failed != want || !errors.Is(err, wantErr) {
				t.Errorf("%s: failed %d, error %v", what, failed, err)
			}
		}
		is("both are there", NotDone, nil, l.dir, l.dir)
		is("the second is not", 1, zk.ErrNoNode, l.dir, l.dir+"/none")
		_, err := l.witness.Client().SetACL(l.dir, zk.WorldACL(zk.PermAll&^zk.PermRead), -1)
		must(t, err)
		is("the second may not be read", 1, zk.ErrNoAuth, "/", l.dir)
		must(t, errOf(l.witness.Client().SetACL("/", zk.WorldACL(zk.PermAll&^zk.PermRead), -1)))
		must(t, l.client.Barrier(within(t, time.Second), session)) // a refusal is an answer of the quorum
		l.Refuse()
		time.Sleep(time.Second) // virtual time: the connection is lost
		is("no connection", NotDone, context.DeadlineExceeded, l.dir)
		must(t, l.Accept())
	})
}
