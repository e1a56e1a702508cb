//go:build !(darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd)

package sessionfile

import (
	"errors"
	"os"
	"runtime"
)

func openFile(string, int) (*os.File, error) {
	return nil, errors.New("session files are not supported on " + runtime.GOOS)
}

func checkFile(*os.File) error        { return nil }
func flock(*os.File, bool) error      { return nil }
func inode(os.FileInfo, error) string { return "" }
func unlock(*os.File) error           { return nil }
func hostID() string                  { return "" }
func processID(int) string            { return "" }
