//go:build !linux

package realzk

import "os/exec"

// dieWithUs does nothing: there is no portable way. A server outlives a test process that is
// killed. An interrupt from the terminal reaches both.
func dieWithUs(*exec.Cmd) {}

// isPaused assumes that the signal has been effective.
func isPaused(int) bool { return true }
