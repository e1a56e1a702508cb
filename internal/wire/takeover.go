package wire

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// dying bounds the time between the end of a process and the moment when the system shows it.
const dying = time.Second

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
// releases the file. Otherwise it returns an error that matches ErrFileInUse while the process
// lives. Without servers, or if they do not know the session, it uses those in the file. It tries
// for a session timeout.
func Reap(path string, wait bool, servers []string, timeout time.Duration, opts ...Option) (ended int64, err error) {
	f, err := openSessionFile(path, 0)
	if err != nil {
		return 0, err
	}
	defer f.do(f.release)
	if wait {
		if err := flock(f.File, true); err != nil {
			return 0, err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), dying)
	defer cancel()
	if err := f.lock(ctx); err != nil {
		return 0, err
	}
	dead, at, err := f.dead()
	if err != nil || dead.ID == 0 {
		return 0, err
	}
	ctx, cancel = context.WithTimeout(context.Background(), timeout)
	defer cancel()
	err = ErrOver
	if servers != nil {
		err = End(ctx, servers, timeout, dead, opts...)
	}
	if errors.Is(err, ErrOver) {
		err = End(ctx, at, timeout, dead, opts...)
	}
	switch {
	case err == nil:
		ended = dead.ID
	case !errors.Is(err, ErrOver):
		return 0, err
	}
	return ended, f.do(func() error { return f.Truncate(0) })
}

// CheckSessionFile returns why a file cannot be a session file, without its path. The error matches
// fs.ErrNotExist if there is none yet.
func CheckSessionFile(path string) error {
	f, err := openSessionFile(path, 0)
	if err == nil {
		err = f.Close()
	}
	return err
}

// AwaitSessionFile returns when no process has the session file. When ctx is canceled before, the
// error matches ErrFileInUse.
func AwaitSessionFile(ctx context.Context, path string) error {
	f, err := openSessionFile(path, 0)
	if err != nil {
		return err
	}
	defer f.do(f.release)
	return f.lock(ctx)
}

// takeOver locks the session file and ends the session of the process that had it before. If the
// servers do not know it or refuse that, or if none answers within a session timeout, it only logs
// that. It does not ask the servers in the file: Connect would wait for servers that may be gone.
func (c *Conn) takeOver(ctx context.Context, s settings) error {
	if s.sessionFile == nil {
		return nil
	}
	f, err := openSessionFile(*s.sessionFile, os.O_CREATE)
	var dead Session
	var at []string
	if err == nil {
		c.file = f
		waits := time.AfterFunc(time.Second, func() {
			r, _ := f.read()
			c.Printf("zklocks: session file %s: Connect waits, because it is %v", f.Name(), r.inUse())
		})
		err = f.lock(ctx)
		waits.Stop()
	}
	if err == nil {
		dead, at, err = f.dead()
	}
	if err != nil {
		return fmt.Errorf("zklocks: session file %s: %w", *s.sessionFile, err)
	}
	if dead.ID == 0 {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	err = End(limited, c.Servers(), c.timeout, dead, func(end *settings) { *end = s })
	switch {
	case err == nil:
		c.Printf("zklocks: ended session %#x, whose process has died", uint64(dead.ID))
	case errors.Is(err, ErrOver):
		c.Printf("zklocks: session %#x, whose process has died, is over, or is held by other servers than these: its servers were %s",
			uint64(dead.ID), strings.Join(at, ", "))
	case ctx.Err() != nil:
		return err
	default:
		c.Printf("zklocks: session %#x, whose process has died, was not ended: %v", uint64(dead.ID), err)
	}
	return nil
}
