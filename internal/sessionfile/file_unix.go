//go:build darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd

package sessionfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
)

// openFile does not follow a symbolic link, and does not block if the path names a pipe.
func openFile(path string, flag int) (*os.File, error) {
	file, err := os.OpenFile(path, flag|os.O_RDWR|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
	if err == nil {
		return file, nil
	}
	if errors.Is(err, syscall.ELOOP) || errors.Is(err, syscall.EMLINK) { // EMLINK: FreeBSD
		return nil, errors.New("it is a symbolic link")
	}
	cause := errors.Unwrap(err) // without the path
	if errors.Is(err, fs.ErrPermission) {
		return nil, fmt.Errorf("%w: run as the user of the file, who needs access to its directory", cause)
	}
	return nil, cause
}

// checkFile refuses a file that another user may have made, or can lock: that takes only the right
// to read it.
func checkFile(file *os.File) error {
	info, err := file.Stat()
	if err != nil {
		return err
	}
	stat := info.Sys().(*syscall.Stat_t)
	switch {
	case !info.Mode().IsRegular():
		return errors.New("it is not a regular file")
	case info.Mode().Perm()&0o077 != 0:
		return fmt.Errorf("its mode is %#o, so other users can lock it: want 0600", info.Mode().Perm())
	case int(stat.Uid) != os.Geteuid(): // also for root, whose reaper would send its credentials to the servers in the file
		return fmt.Errorf("it belongs to user %d: run as that user", stat.Uid)
	case stat.Nlink > 1:
		return errors.New("it has a second name (a hard link)")
	}
	return checkLocal(file)
}

// inode identifies a file until its removal; empty: there is none.
func inode(info os.FileInfo, err error) string {
	if err != nil {
		return ""
	}
	stat := info.Sys().(*syscall.Stat_t)
	return fmt.Sprintf("%d:%d", stat.Dev, stat.Ino)
}

// flock is flock(2), never a lock of fcntl(2): the process would lose that as soon as it closes any
// other descriptor of the file.
func flock(file *os.File, wait bool) error {
	how := syscall.LOCK_EX
	if !wait {
		how |= syscall.LOCK_NB
	}
	for {
		switch err := syscall.Flock(int(file.Fd()), how); err {
		case syscall.EINTR:
		case syscall.EWOULDBLOCK:
			return ErrInUse
		default:
			return err
		}
	}
}

func unlock(file *os.File) error { return syscall.Flock(int(file.Fd()), syscall.LOCK_UN) }

// hostID identifies the host, on Linux until its next restart. Containers have the id of their
// host.
func hostID() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err == nil {
		return strings.TrimSpace(string(id))
	}
	name, _ := os.Hostname()
	return name
}

// processID identifies a process that runs by its PID namespace and by when it was started. It is
// empty if there is no such process, if it is a zombie, if this process cannot see it, and on
// systems other than Linux.
func processID(pid int) string {
	namespace, err := os.Readlink("/proc/self/ns/pid")
	text, err2 := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:])) // the name may have spaces
	if err != nil || err2 != nil || len(fields) < 20 || fields[0] == "Z" || fields[0] == "X" {
		return ""
	}
	return namespace + " " + fields[19]
}
