//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package realzk

import (
	"errors"
	"os"
)

func pauseProcess(*os.Process) error  { return errors.ErrUnsupported }
func resumeProcess(*os.Process) error { return errors.ErrUnsupported }

// Nothing is ever known to be abandoned here.
func tryLockFile(*os.File) error { return errors.ErrUnsupported }
