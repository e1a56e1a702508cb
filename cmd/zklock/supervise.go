package main

import (
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/zklocks/zklocks"
	"github.com/zklocks/zklocks/internal/slot"
)

// supervisor ensures that no process of the command's group outlives the lock.
//
//	time ──▶   last answer        SIGTERM          SIGKILL   deadline
//	               │                 │◀─ kill-after ─▶│◀ reserve ▶│
//
// Until the deadline no other process can hold the lock, unless a program deletes its node. Each
// answered heartbeat moves all of these times forward. When a heartbeat is late, the deadline is at
// least 2T/5 away (less a few round trips), where T is the session timeout, and -kill-after is at
// most T/4. So the command is not ended while heartbeats are answered in time.
type supervisor struct {
	path      string
	hold      *zklocks.Hold
	child     *child
	guard     *watcher
	granted   func() time.Duration // returns the session timeout
	timeout   time.Duration        // the session timeout by which everything is planned
	killAfter time.Duration
	reserve   time.Duration // time for a busy machine to carry out a SIGKILL

	lost     error     // why the command is ended, or that it ended too late; otherwise nil
	byItself bool      // the command ended before the loss was detected
	killAt   time.Time // when SIGKILL is due; zero until SIGTERM is sent
	guarded  time.Time // when the guard kills the group, unless allow sends a later time first
}

// runHolding runs the command and returns when no process of its group is left.
func (o *order) runHolding(conn *zklocks.Conn, h *zklocks.Hold, signals <-chan os.Signal) error {
	s := &supervisor{path: o.path, hold: h, granted: conn.SessionTimeout, killAfter: o.killAfter}
	s.plan()
	// Without the terminal, ^Z would stop zklock, and the lock would be lost. If the command has
	// the terminal, another program of zklock's group that reads it stops the whole group.
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU)
	defer signal.Stop(stop)
	lost := h.Lost() // sets the watch on the node
	var asked <-chan struct{}
	if !o.ignoreAsk {
		asked = h.ReleaseRequested()
	}
	var err error
	if s.guard, err = startGuard(o.handover(conn), 0, time.Time{}); err != nil {
		return err
	}
	defer s.guard.done()
	adoptOrphans()
	s.child, err = startChild(o.argv, environment(o.path, o.text(), h.Token()), s.known)
	if err != nil {
		return err
	}
	defer func() { s.child.tty.takeBack(s.child.pid) }() // wait may have lent it

	ended := s.child.ended
	var status syscall.WaitStatus
	next := time.NewTimer(0)
	for {
		select {
		case sig := <-signals:
			s.child.signal(sig.(syscall.Signal))
			continue
		case status = <-ended:
			ended = nil
			switch {
			case !h.Held():
				s.byItself = s.lost == nil && status.Signal() != syscall.SIGKILL // SIGKILL is the guard's
				s.lose(errGone)
			case status.Signaled() && status.Signal() == syscall.SIGKILL && s.overdue():
				s.lose(errLate)
			}
			if !s.child.gone() {
				s.end() // processes that the command has left behind
			}
		case <-lost:
			lost = nil
		case <-asked:
			asked = nil
			if ended != nil && s.killAt.IsZero() {
				s.lose(errAsked)
				s.end()
			}
		case <-next.C:
		}
		if ended == nil && s.child.gone() {
			break
		}
		next.Reset(s.look())
		if ended == nil {
			next.Reset(10 * time.Millisecond) // no signal reports the end of the last process of a group
		}
	}
	switch {
	case s.byItself:
		return fail(exitLost, "%s: %s; the command had ended by itself", s.path, unprefixed(s.hold.Err()))
	case s.lost == errAsked:
		return fail(exitAsked, "%s: %w; the command was ended", s.path, errAsked)
	case s.lost != nil:
		return fail(exitLost, "%s: %w; the command was ended", s.path, s.lost)
	}
	return exit{code: code(status)}
}

// handover returns what the guard of a command needs.
func (o *order) handover(conn *zklocks.Conn) handover {
	c := slot.Wire(conn)
	return handover{Session: c.Own(), Timeout: conn.SessionTimeout(), Files: o.small(), locked: c.SessionFile()}
}

// known sends the group to the guard, and how long it may run. The lock may have been lost since
// its grant: the machine was suspended, or the node was deleted.
func (s *supervisor) known(group int) error {
	s.guard.guards(group)
	deadline := s.hold.ValidUntil()
	if deadline.IsZero() || !s.hold.Held() {
		return fail(exitLost, "%s: %w; the command was not started", s.path, errGone)
	}
	s.allow(deadline)
	return nil
}

// environment returns the command's environment. It replaces variables of an outer zklock run: of
// two definitions the starter would keep the first.
func environment(path, servers string, token int64) []string {
	env := slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "ZKLOCK_PATH=") || strings.HasPrefix(v, "ZKLOCK_SERVERS=") || strings.HasPrefix(v, "ZKLOCK_TOKEN=")
	})
	return append(env, "ZKLOCK_PATH="+path, "ZKLOCK_SERVERS="+servers, fmt.Sprintf("ZKLOCK_TOKEN=%d", token))
}

// plan adapts the times to a session timeout that has become shorter.
func (s *supervisor) plan() {
	if t := s.granted(); t != s.timeout {
		s.timeout, s.reserve = t, t/16
		if s.killAfter == quarter || s.killAfter > t/4 {
			s.killAfter = t / 4
		}
	}
}

// look ends the command when it is due, and returns after what time to call it again.
func (s *supervisor) look() time.Duration {
	s.plan()
	now := time.Now()
	deadline := s.hold.ValidUntil()
	switch {
	case deadline.IsZero() || !s.hold.Held():
		// Another process may hold the lock already: the node was deleted, the server has ended the
		// session, or this machine was suspended. There is no time for a SIGTERM.
		s.lose(errGone)
		s.killAt = now
	case s.killAt.IsZero() && s.overdue():
		// The guard has killed the group, or is about to. A later deadline would arrive too late.
		s.lose(errLate)
		s.killAt = now
	case deadline.Sub(now) <= s.killAfter+s.reserve && s.killAt.IsZero():
		s.lose(errSilent)
		s.end()
	}
	if !s.killAt.IsZero() {
		if !deadline.IsZero() && s.killAt.After(deadline.Add(-s.reserve)) {
			s.killAt = deadline.Add(-s.reserve)
		}
		if !now.Before(s.killAt) {
			s.child.signal(syscall.SIGKILL)
			return s.timeout / 16 // once more, for processes that were being started
		}
		return s.killAt.Sub(now)
	}
	s.allow(deadline)
	return min(deadline.Sub(now)-s.killAfter-s.reserve, s.timeout/16)
}

// end sends SIGTERM to the group.
func (s *supervisor) end() {
	s.child.signal(syscall.SIGTERM)
	s.child.signal(syscall.SIGCONT) // a stopped process handles no signal
	s.killAt = time.Now().Add(s.killAfter)
}

// allow sends the guard the time until which the command may run.
func (s *supervisor) allow(deadline time.Time) {
	s.guarded = deadline.Add(-s.reserve)
	s.guard.allow(s.guarded)
}

// overdue reports whether the guard's time has passed. The guard's timer is set after guarded, so
// it fires later. It fires earlier only if the wall clock is set forward at that moment.
func (s *supervisor) overdue() bool {
	return !s.guarded.IsZero() && !time.Now().Before(s.guarded)
}

var (
	errGone   = fmt.Errorf("the lock was lost")
	errLate   = fmt.Errorf("zklock could not tell in time that the lock is held still, so its guard took it for lost")
	errAsked  = fmt.Errorf("the lock was asked for")
	errSilent = fmt.Errorf("no server has answered in time, so the lock is about to be lost")
)

// lose records why the command is ended: the first reason, but a loss replaces a request.
func (s *supervisor) lose(why error) {
	if s.lost == nil || s.lost == errAsked {
		s.lost = why
	}
}
