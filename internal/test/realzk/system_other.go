//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package realzk

import (
	"errors"
	"os"
)

func pauseProcess(*os.Process) error  { return errors.ErrUnsupported }
func resumeProcess(*os.Process) error { return errors.ErrUnsupported }

// tryLockFile fails, so no directory is ever considered abandoned.
func tryLockFile(*os.File) error { return errors.ErrUnsupported }
