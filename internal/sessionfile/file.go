// Package sessionfile has the file in which a process keeps its session, so that another process can
// end the session when the first has died without Close. A session that is ended while its process
// lives is a lost lock, so:
//
//	the process dies, however                the system unlocks the file (flock)
//	it closes the file by a bug, and lives   record.runs
//	its number is another process's by now   processID
//	it executes itself again                 image
//	a child has the file open, too           unlock, in Close
//	the file is a copy                       inode
//	it is from another host, or boot         hostID
//	a link, another user, a shared disk      checkFile, checkLocal
package sessionfile

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// ErrInUse means that another process, or another connection of this process, has the file.
var ErrInUse = errors.New("in use")

// A File has the session of a process, and is locked (flock) while a Conn has that session. The
// system releases this lock when no process has the file open any more: after the last thread of its
// process has ended, however the process ended, and after the processes to which it has handed the
// file. So the session of an unlocked file is of a dead process.
//
// The file is a hint. If it is missing, empty or damaged, or if it could not be written, the
// session ends by its timeout, as without a file. No hold depends on it.
//
// Only one goroutine at a time may call methods of a File.
type File struct {
	*os.File               // a finalizer would close it: its Conn keeps it while it runs
	last     chan struct{} // closed when the last call of do has returned; nil: there was none
	own      record        // that was last written; the ID is 0 if there was none
}

// A record is the content of the file, behind a first line with its checksum.
type record struct {
	ID       int64
	Password []byte
	Servers  []string
	Host     string // see hostID
	Inode    string // see inode: a copy of the file has another
	PID      int
	Process  string // see processID; empty: unknown, or the File was closed
	Image    string // see image; empty: the File was closed
}

const (
	magic     = "zklocks session file "
	maxRecord = 64 << 10
	// diskLimit is how long a call waits for a slow disk.
	diskLimit = 100 * time.Millisecond
	// Dying bounds the time between the end of a process and the moment when the system shows it.
	Dying = time.Second
)

// image identifies this process until it executes another program, or itself again: then its id and
// the time of its start are the same, but nothing of what it was runs.
var image = sync.OnceValue(rand.Text)

// Open opens a file, and makes it if create is true and it does not exist. It returns an error if
// the file has other content, or if another user or other hosts may have made it or can lock it.
// The error has no path. It matches fs.ErrNotExist if the file does not exist.
func Open(path string, create bool) (*File, error) {
	if abs, err := filepath.Abs(path); err == nil && path != "" {
		path = abs // the program may change its directory
	}
	flag := 0
	if create {
		flag = os.O_CREATE
	}
	file, err := openFile(path, flag)
	if err != nil {
		return nil, err
	}
	f := &File{File: file}
	if err = checkFile(file); err == nil {
		_, err = f.read()
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return f, nil
}

// Lock locks the file when no other process has locked it and the process that wrote it has ended.
// When ctx is canceled first, or if this process itself keeps the file locked, it returns an error
// that matches ErrInUse.
//
// The second condition is for a program that closes the file by a bug and continues. It is checked
// on Linux, if both processes are in one PID namespace (processID).
func (f *File) Lock(ctx context.Context) error {
	began := time.Now()
	err := poll(ctx, func() error {
		err, r := flock(f.File, false), f.recorded()
		if err == ErrInUse && r.Image == image() && time.Since(began) > 2*Dying { // it is not about to close it
			return fmt.Errorf("%w by another connection of this process: use a file of its own for each", err)
		}
		if err == nil && r.runs() {
			return ErrInUse
		}
		return err
	})
	if err != ErrInUse {
		return err
	}
	return fmt.Errorf("%w: %w", f.InUse(), ctx.Err())
}

// poll calls try until it returns something else than ErrInUse, or ctx is canceled: soon, because a
// dying process releases its files a moment before it is a zombie, and later ten times a second.
func poll(ctx context.Context, try func() error) error {
	for pause := time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		if err := try(); err != ErrInUse {
			return err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ErrInUse
		}
	}
}

// Wait blocks until no other process has locked the file, and locks it.
func (f *File) Wait() error { return flock(f.File, true) }

// InUse is ErrInUse with the process that has written the file, if it is known.
func (f *File) InUse() error {
	r := f.recorded()
	if r.PID == 0 {
		return ErrInUse
	}
	return fmt.Errorf("%w by process %d, or by a process that ends its session", ErrInUse, r.PID)
}

// runs reports whether the process that has written the record has not ended. The record may have
// the id of this process from an earlier process, or from an earlier image of this one.
func (r record) runs() bool {
	if r.PID == os.Getpid() {
		return r.Image == image()
	}
	return r.Process != "" && r.Process == processID(r.PID)
}

// Dead returns the session of the dead process that had locked the file before, and its servers.
// The id is 0 if there is none. If that process may be alive on another host, or with the original
// of this copy, it returns an error that says what differs. The caller has locked the file.
func (f *File) Dead() (id int64, password []byte, servers []string, err error) {
	r, err := f.read()
	if err != nil || r.ID == 0 {
		return 0, nil, nil, err
	}
	host, inode := hostID(), inode(f.Stat())
	switch {
	case r.Host == "" || r.Host != host:
		err = fmt.Errorf("its session is of another host, or of this one before its restart: written on host %q, this is %q", r.Host, host)
	case r.Inode != inode:
		err = fmt.Errorf("its session is of another file, of which this is a copy, or of another container: written to device:inode %q, this is %q", r.Inode, inode)
	default:
		return r.ID, r.Password, r.Servers, nil
	}
	return 0, nil, nil, err
}

// recorded is read where an error means the same as no record.
func (f *File) recorded() record { r, _ := f.read(); return r }

// read returns the zero record if there is none or a write was torn.
func (f *File) read() (r record, err error) {
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

// Write stores the session of this process, and its servers. It returns an error if the disk does not
// answer at once.
func (f *File) Write(id int64, password []byte, servers []string) error {
	f.own = record{ID: id, Password: password, Servers: servers, Process: processID(os.Getpid()), Image: image()}
	return f.write(f.own)
}

// write needs no fsync: what a process has written outlives the process.
func (f *File) write(r record) error {
	return f.do(func() error {
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
	})
}

// Close unlocks the file and closes it. If the session in it is over, Close empties the file.
// Otherwise the next process that locks the file may end the session that Write has stored.
//
// Closing alone would leave the file locked while a child process is started, which has the file
// until it executes its program. The file is never removed: another process may wait for its lock.
func (f *File) Close(over bool) (err error) {
	if over {
		err = f.do(func() error { return f.Truncate(0) })
	} else if left := f.own; left.ID != 0 {
		left.Process, left.Image = "", ""
		err = f.write(left)
	}
	return errors.Join(err, f.do(func() error { return errors.Join(unlock(f.File), f.File.Close()) }))
}

// do calls op after the previous op has returned, and waits for it up to diskLimit.
func (f *File) do(op func() error) error {
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
