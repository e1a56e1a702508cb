package wire

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/zklocks/zklocks/internal/sessionfile"
)

// End ends the session of a dead process, as that process would: it resumes the session with the
// same handshake and the same credentials, and closes it. It returns nil when a server has
// confirmed that, and ErrOver if the session was over, or belongs to another ensemble. It tries
// until ctx is canceled.
func End(ctx context.Context, servers []string, timeout time.Duration, dead Session, opts ...Option) error {
	opts = append(slices.Clone(opts), func(s *settings) {
		s.resume, s.sessionFile, s.listeners, s.follow = &dead, nil, nil, false
	})
	for over := ErrOver; ; {
		c, err := Connect(ctx, servers, timeout, opts...)
		if errors.Is(err, ErrOver) {
			return over
		}
		if err == nil {
			err, over = c.Close(), nil // it may have ended the session without an answer
		}
		if !errors.Is(err, errUnconfirmed) || ctx.Err() != nil {
			return err
		}
	}
}

// Reap ends the session of the process that has the session file, after the process has died, and
// returns the session's id; 0: there is none to end. If wait is true, it blocks until the process
// releases the file. Otherwise it returns an error that matches sessionfile.ErrInUse while the
// process lives. Without servers, or if they do not know the session, it uses those in the file. It
// tries for a session timeout.
func Reap(path string, wait bool, servers []string, timeout time.Duration, opts ...Option) (ended int64, err error) {
	f, err := sessionfile.Open(path, false)
	if err != nil {
		return 0, err
	}
	over := false
	defer func() { err = errors.Join(err, f.Close(over)) }()
	if wait {
		if err := f.Wait(); err != nil {
			return 0, err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), sessionfile.Dying)
	defer cancel()
	if err := f.Lock(ctx); err != nil {
		return 0, err
	}
	id, password, at, err := f.Dead()
	if err != nil || id == 0 {
		return 0, err
	}
	dead := Session{id, password}
	ctx, cancel = context.WithTimeout(context.Background(), timeout)
	defer cancel()
	err = ErrOver
	if servers != nil {
		err = End(ctx, servers, timeout, dead, opts...)
	}
	if errors.Is(err, ErrOver) {
		err = End(ctx, at, timeout, dead, opts...)
	}
	if over = err == nil; over {
		return id, nil
	}
	if over = errors.Is(err, ErrOver); over {
		return 0, nil
	}
	return 0, err
}

// takeOver locks the session file and ends the session of the process that had it before. If that
// process may be alive elsewhere, if the servers do not know the session or refuse that, or if none
// answers within a session timeout, it only logs that. It does not ask the servers in the file:
// Connect would wait for servers that may be gone.
func (c *Conn) takeOver(ctx context.Context, s settings) error {
	if s.sessionFile == nil {
		return nil
	}
	f, err := sessionfile.Open(*s.sessionFile, true)
	if err == nil {
		c.file = f
		waits := time.AfterFunc(time.Second, func() {
			c.Printf("zklocks: session file %s: Connect waits, because it is %v", f.Name(), f.InUse())
		})
		err = f.Lock(ctx)
		waits.Stop()
	}
	if err != nil {
		return fmt.Errorf("zklocks: session file %s: %w", *s.sessionFile, err)
	}
	id, password, at, err := f.Dead()
	if err != nil {
		c.Printf("zklocks: session file %s: no lock was freed: %v", f.Name(), err)
	}
	if id == 0 {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	err = End(limited, c.Servers(), c.timeout, Session{id, password}, func(end *settings) { *end = s })
	switch {
	case err == nil:
		c.Printf("zklocks: ended session %#x, whose process has died", uint64(id))
	case errors.Is(err, ErrOver):
		c.Printf("zklocks: session %#x, whose process has died, is over, or is held by other servers than these: its servers were %s",
			uint64(id), strings.Join(at, ", "))
	default:
		c.Printf("zklocks: session %#x, whose process has died, was not ended: %v", uint64(id), err)
	}
	return nil
}
