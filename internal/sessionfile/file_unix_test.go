//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package sessionfile

import (
	"context"
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
