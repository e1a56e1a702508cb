//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package sessionfile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// opened opens a file of the test.
func opened(t *testing.T, path string, create bool) *File {
	t.Helper()
	f, err := Open(path, create)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// locked asserts what a call of Lock returns that does not wait; "" means nil.
func (f *File) locked(t *testing.T, want string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := f.Lock(ctx)
	if want == "" && err != nil || want != "" && (!errors.Is(err, ErrInUse) || !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), want)) {
		t.Errorf("%v, want %q", err, want)
	}
}

// has asserts the session of a dead process.
func (f *File) has(t *testing.T, want int64) {
	t.Helper()
	id, password, servers, err := f.Dead()
	if err != nil || id != want || want != 0 && (string(password) != "secret" || !slices.Equal(servers, []string{"zk1:2181"})) {
		t.Errorf("session %d of %q, %q, %v, want %d", id, servers, password, err, want)
	}
}

// The life of a file: a process has it, and closes it with and without its session. A copy of its
// descriptor, as a child process has it until it executes its program, does not keep it locked.
func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "session")
	if _, err := Open(path, false); !errors.Is(err, fs.ErrNotExist) || strings.Contains(err.Error(), path) {
		t.Error(err)
	}
	inUse := fmt.Sprintf("in use by process %d, or by a process that ends its session", os.Getpid())
	for over, left := range map[bool]int64{false: 2, true: 0} {
		first := opened(t, path, true)
		first.locked(t, "")
		if err := errors.Join(first.Write(1, []byte("longer than it is now"), []string{"zk1:2181", "zk2:2181"}), first.Write(2, []byte("secret"), []string{"zk1:2181"})); err != nil {
			t.Fatal(err)
		}
		child, err := syscall.Dup(int(first.Fd()))
		if err != nil {
			t.Fatal(err)
		}
		second := opened(t, path, false)
		second.locked(t, inUse)
		if err := first.Close(over); err != nil {
			t.Error(err)
		}
		second.locked(t, "")
		second.has(t, left)
		if info, err := os.Stat(path); err != nil || (info.Size() == 0) != over || info.Mode().Perm() != 0o600 {
			t.Errorf("%v, %v", info.Mode(), info.Size())
		}
		_ = syscall.Close(child)
		if err := second.Close(false); err != nil { // it has written nothing, and changes nothing
			t.Error(err)
		}
		third := opened(t, path, true)
		third.locked(t, "")
		third.has(t, left)
		if err := third.Close(true); err != nil {
			t.Error(err)
		}
	}
}

// A program that closes the file by a bug has lost its lock on it, and lives.
func TestAFileThatItsProcessHasLost(t *testing.T) {
	path := filepath.Join(t.TempDir(), "session")
	first, second := opened(t, path, true), opened(t, path, false)
	first.locked(t, "")
	if err := first.Write(2, []byte("secret"), []string{"zk1:2181"}); err != nil {
		t.Fatal(err)
	}
	first.File.Close()
	second.locked(t, "in use by process")
	_ = second.Close(false)
}

// The number of a dead process may belong to another process by now. A process that has executed
// itself has its number and its start from before, and nothing else: what it was is dead.
func TestWhoseProcessRuns(t *testing.T) {
	own, parent := record{PID: os.Getpid(), Image: image()}, record{PID: os.Getppid(), Process: processID(os.Getppid())}
	executed, renumbered, unknown := own, parent, parent
	executed.Image, renumbered.Process, unknown.Process = "before", "pid:[4026531836] 1", ""
	for name, c := range map[string]struct {
		record
		runs bool
	}{
		"this process": {own, true}, "another": {parent, parent.Process != ""}, // known on Linux alone
		"executed itself": {executed, false}, "the number of another": {renumbered, false}, "unknown": {unknown, false},
	} {
		if got := c.record.runs(); got != c.runs {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestAFileOfAnotherUser(t *testing.T) {
	path := filepath.Join(t.TempDir(), "session")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(path, 4711, 4711); errors.Is(err, os.ErrPermission) {
		return // only root can give a file to another user
	}
	if _, err := Open(path, true); err == nil || err.Error() != "it belongs to user 4711: run as that user" {
		t.Error(err)
	}
}

func TestFilesThatAreRefused(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	write := func(name, text string, mode os.FileMode) error {
		return errors.Join(os.WriteFile(path(name), []byte(text), 0o600), os.Chmod(path(name), mode))
	}
	if err := errors.Join(write("read", "", 0o640), write("open", "", 0o604), write("other", "precious\n", 0o600), write("fine", "", 0o600), write("named", "", 0o600),
		os.Link(path("named"), path("named too")), os.Symlink(path("fine"), path("link")), syscall.Mkfifo(path("pipe"), 0o600)); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{
		path("read"):   "its mode is 0640, so other users can lock it: want 0600",
		path("open"):   "its mode is 0604, so other users can lock it: want 0600",
		path("other"):  "it has other content: use a file of its own",
		path("named"):  "it has a second name (a hard link)",
		path("link"):   "it is a symbolic link",
		path("pipe"):   "it is not a regular file",
		path("no/dir"): "no such file or directory",
		dir:            "is a directory",
		"":             "no such file or directory",
	} {
		if _, err := Open(file, true); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %q", file, err, want)
		}
	}
	if text, err := os.ReadFile(path("other")); err != nil || string(text) != "precious\n" {
		t.Errorf("the other file has %q, %v", text, err)
	}
}

// A write may stop after any byte, also in the middle of an earlier, longer record. What a crash of
// the machine leaves is not a session either.
func TestATornWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "session")
	f := opened(t, path, true)
	f.locked(t, "")
	if err := errors.Join(f.Write(2, []byte("secret"), []string{"zk1:2181"}), f.Close(false)); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	whole := strings.Join(strings.SplitAfterN(string(text), "\n", 3)[:2], "") // Close has written less than Write
	has := func(text string, want int64) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if f, err := Open(path, false); err == nil {
			f.has(t, want)
			_ = f.File.Close()
		} else if strings.HasPrefix(text, magic) || strings.HasPrefix(magic, strings.Trim(text, "\x00")) {
			t.Errorf("%q: %v", text, err)
		}
	}
	for n := range whole[:len(whole)-1] { // without the end of the line it is whole
		has(whole[:n], 0)
		has(whole[:n]+strings.Repeat("x", len(whole))+"\nx\n", 0)
		has(whole[:n]+strings.Repeat("\x00", len(whole)-n), 0)
	}
	has(strings.Replace(whole, `"ID":2`, `"ID":3`, 1), 0)
	has(whole+"the rest of a longer record\n", 2)
}

// A session is ended only on the host and by the file that it was written on and to.
func TestARecordOfAnotherHostOrFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "session")
	f := opened(t, path, true)
	f.locked(t, "")
	if err := f.Write(2, []byte("secret"), []string{"zk1:2181"}); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*record){
		"another host":            func(r *record) { r.Host = "another" },
		"written on host \"\"":    func(r *record) { r.Host = "" },
		"of which this is a copy": func(r *record) { r.Inode = "1:2" },
	} {
		r := f.recorded()
		change(&r)
		line, _ := json.Marshal(r)
		copied := path + "-copy"
		if err := os.WriteFile(copied, fmt.Appendf(nil, "%s%s\n%s\n", magic, checksum(line), line), 0o600); err != nil {
			t.Fatal(err)
		}
		c := opened(t, copied, false)
		if id, _, _, err := c.Dead(); id != 0 || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("session %d, %v, want %q", id, err, want)
		}
		_ = c.File.Close()
	}
	if err := os.Rename(path, path+"-moved"); err != nil {
		t.Fatal(err)
	}
	if err := f.Write(3, nil, nil); err == nil || err.Error() != "it was removed or replaced" {
		t.Error(err)
	}
	_ = f.Close(true)
}
