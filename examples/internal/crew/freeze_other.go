//go:build !unix

package crew

import (
	"errors"
	"os"
)

func freeze(*os.Process) error { return errors.New("this system cannot freeze a process") }

func thaw(*os.Process) error { return nil }
