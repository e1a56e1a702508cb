package wire

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// A sessionFile has the session of a process, so that another process can end the session when the
// first has died without Close. A Conn keeps the file locked (flock). The system releases this lock
// after the last thread of the process has ended, however the process ended. Whoever gets the lock
// knows that no code of the process runs.
//
// The file is a hint. If it is missing, empty or damaged, or if it could not be written, the
// session ends by its timeout, as without a file. No hold depends on it.
type sessionFile struct {
	*os.File               // a finalizer would close it: the Conn keeps it while go-zookeeper runs
	last     chan struct{} // closed when the last call of do has returned; nil: there was none
	servers  *[]string     // that were last written
}

// A Session is what a client needs to resume a session.
type Session struct {
	ID       int64
	Password []byte
}

// A record is the content of the file, behind a first line with its checksum.
type record struct {
	Session
	Servers []string
	Host    string // see hostID
	Inode   string // see inode: a copy of the file has another
	PID     int
	Process string // see processID; empty: unknown, or the Conn was closed
}

const (
	magic     = "zklocks session file "
	maxRecord = 64 << 10
	// diskLimit is how long a new session waits for a slow disk.
	diskLimit = 100 * time.Millisecond
)

// ErrFileInUse means that another process, or another Conn of this process, has the file.
var ErrFileInUse = errors.New("in use")

// openSessionFile opens the file. It refuses a file that has other content, that another user can
// lock, or that several hosts may share.
func openSessionFile(path string, flag int) (*sessionFile, error) {
	if abs, err := filepath.Abs(path); err == nil && path != "" {
		path = abs // the program may change its directory
	}
	file, err := openFile(path, flag)
	if err != nil {
		return nil, err
	}
	f := &sessionFile{File: file}
	if err = checkFile(file); err == nil {
		_, err = f.read()
	}
	if err != nil {
		file.Close()
	}
	return f, err
}

// lock locks the file when no other process has locked it and the process that wrote it has ended.
// When ctx is canceled first, or if this process itself keeps the file locked, it returns an error
// that matches ErrFileInUse.
//
// The second condition is for a program that closes the file by a bug and continues. It is checked
// on Linux, if both processes are in one PID namespace (processID). A dying process releases its
// files a moment before it is a zombie, so the check is repeated soon.
func (f *sessionFile) lock(ctx context.Context) error {
	for began := time.Now(); ; {
		err, pause := flock(f.File, false), 10*time.Millisecond
		r, _ := f.read()
		own := r.PID == os.Getpid() && r.Host == hostID() && r.Process == processID(r.PID)
		if err == ErrFileInUse && own && time.Since(began) > 2*dying { // it is not about to close it
			return fmt.Errorf("%w by another connection of this process: use a file of its own for each", err)
		}
		if err == nil && r.Process != "" && r.Process == processID(r.PID) {
			err, pause = ErrFileInUse, time.Millisecond
		}
		if err != ErrFileInUse {
			return err
		}
		if sleep(ctx, pause) != nil {
			return fmt.Errorf("%w: %w", r.inUse(), ctx.Err())
		}
	}
}

// inUse is ErrFileInUse with the process that has written the record, if it is known.
func (r record) inUse() error {
	if r.PID == 0 {
		return ErrFileInUse
	}
	return fmt.Errorf("%w by process %d, or by a process that ends its session", ErrFileInUse, r.PID)
}

// dead returns the session of the dead process that had locked the file before, and its servers.
// The ID is 0 if there is none. The caller has locked the file.
func (f *sessionFile) dead() (dead Session, servers []string, err error) {
	r, err := f.read()
	if err != nil || r.Host != hostID() || r.Host == "" || r.Inode != inode(f.Stat()) {
		return Session{}, nil, err // the process may be alive, on another host or with the original of this copy
	}
	return r.Session, r.Servers, nil
}

// read returns the zero record if there is none or a write was torn.
func (f *sessionFile) read() (r record, err error) {
	text, err := io.ReadAll(io.NewSectionReader(f, 0, maxRecord))
	if err != nil {
		return r, err
	}
	first, text, _ := bytes.Cut(text, []byte("\n"))
	line, _, _ := bytes.Cut(text, []byte("\n")) // an earlier record may have been longer
	sum, is := strings.CutPrefix(string(first), magic)
	if !is && !strings.HasPrefix(magic, strings.Trim(string(first), "\x00")) {
		return r, errors.New("it has other content: use a file of its own")
	}
	if !is || sum != checksum(line) || json.Unmarshal(line, &r) != nil {
		return record{}, nil
	}
	return r, nil
}

func checksum(line []byte) string { return fmt.Sprintf("%08x", crc32.ChecksumIEEE(line)) }

// write needs no fsync: what a process has written outlives the process.
func (f *sessionFile) write(r record) error {
	r.Host, r.Inode, r.PID = hostID(), inode(f.Stat()), os.Getpid()
	if r.Inode != inode(os.Lstat(f.Name())) {
		return errors.New("it was removed or replaced")
	}
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(fmt.Appendf(nil, "%s%s\n%s\n", magic, checksum(line), line), 0)
	return err
}

// release unlocks the file and closes it. Close alone would leave it locked while a child process
// is started, which has the file until it executes its program. The file is never removed: another
// process may wait for its lock.
func (f *sessionFile) release() error { return errors.Join(unlock(f.File), f.Close()) }

// do calls op after the previous op has returned, and waits for it up to diskLimit.
func (f *sessionFile) do(op func() error) error {
	before, done, result := f.last, make(chan struct{}), make(chan error, 1)
	f.last = done
	go func() {
		defer close(done)
		if before != nil {
			<-before
		}
		result <- op()
	}()
	late := time.NewTimer(diskLimit)
	defer late.Stop()
	select {
	case err := <-result:
		return err
	case <-late.C:
		return fmt.Errorf("the disk has not answered within %v", diskLimit)
	}
}

// into makes the request for a new session a request to resume s, which may be nil. The request
// states no zxid: a server that lags behind may serve it, because the leader knows the session. It
// asks for the shortest timeout, by which the session ends if the server receives nothing more.
func (s *Session) into(p []byte) {
	const passwordInRequest = sessionInRequest + 8 + 4
	if s != nil {
		binary.BigEndian.PutUint32(p[timeoutInRequest:], 1)
		binary.BigEndian.PutUint64(p[sessionInRequest:], uint64(s.ID))
		copy(p[passwordInRequest:], s.Password)
	}
}

// record writes a new session into the file, and the session and the new servers after SetServers.
// It is called before go-zookeeper knows of the session. So the file has each session in which
// nodes may be.
func (c *Conn) record(session int64, password []byte) {
	servers := c.hosts.given.Load()
	if session == c.Session() && (c.file == nil || c.file.servers == servers) {
		return
	}
	own := &Session{session, bytes.Clone(password)}
	c.own.Store(own)
	if c.file == nil {
		return
	}
	c.file.servers = servers
	r := record{Session: *own, Servers: *servers, Process: processID(os.Getpid())}
	if err := c.file.do(func() error { return c.file.write(r) }); err != nil {
		c.Printf("zklocks: session file %s: %v: if this process dies, its locks pass on after the session timeout", c.file.Name(), err)
	}
}

// Own returns the last session that a server has granted, for a process that outlives this one;
// nil: none was granted.
func (c *Conn) Own() *Session { return c.own.Load() }

// putAway releases the file when go-zookeeper has ended. If no server has confirmed the end of the
// session, the next process may end it.
func (c *Conn) putAway() {
	if c.file == nil {
		return
	}
	if c.closeConfirmed.Load() {
		_ = c.file.do(func() error { return c.file.Truncate(0) })
	} else if own := c.Own(); own != nil {
		_ = c.file.do(func() error { return c.file.write(record{Session: *own, Servers: c.Servers()}) })
	}
	_ = c.file.do(c.file.release)
}
